//! A stream that a program publishes, and why it may be refused.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::description::Description;
use thalweg_base::id::{NodeId, StreamName};
use thalweg_base::limits::{ADAPTERS_PER_NODE_MAX, LAYERS_MAX, PATH_NODES_MAX};
use thalweg_base::needs::Needs;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{Layer, UTILITY_TOLERANCE};
use thalweg_planner::planner::Planner;

use crate::session::Part;

/// A stream to be published.
#[derive(Clone, Debug)]
pub struct Publication {
    /// Its name; no other stream of this node has it.
    pub name: StreamName,
    /// Its requirements.
    pub needs: Needs,
    /// Its layers, base first; their utilities sum to 1.
    pub layers: Vec<Layer>,
    /// Packed size over plain size, if known; 1 for what does not compress.
    pub pack_ratio: Option<f64>,
    /// The planner; `None` for the shortest path without adapters.
    pub planner: Option<Planner>,
    /// What it carries.
    pub description: Description,
}

/// A stream cannot be published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The node already publishes a stream of this name.
    #[error("this node publishes `{0}` already: stop the other publisher or choose another name")]
    Taken(StreamName),
    /// The node publishes the maximum number of streams.
    #[error("this node already publishes {0} streams, the maximum")]
    TooMany(usize),
    /// The stream is not well-formed.
    #[error("`{name}` cannot be published: {why}")]
    Invalid {
        /// The stream.
        name: StreamName,
        /// The reason.
        why: String,
    },
}

impl Publication {
    /// Returns a stream of one layer with this rate and the usual needs, which is planned exactly:
    /// every other field is set on what this returns.
    pub fn new(name: StreamName, rate: Bitrate) -> Self {
        Self::layered(name, vec![Layer { rate, utility: 1.0 }])
    }

    /// Returns the same of several layers, base first.
    pub fn layered(name: StreamName, layers: Vec<Layer>) -> Self {
        Self {
            name,
            needs: Needs::default(),
            layers,
            pack_ratio: None,
            planner: Some(Planner::Exact),
            description: Description::default(),
        }
    }

    /// Returns what is wrong with the publication by `node`, and with the supplied plan if there is one.
    pub(crate) fn fault(&self, node: NodeId, given: Option<&[Part]>) -> Option<String> {
        let layers = self.layers.len();
        let utility: f64 = self.layers.iter().map(|layer| layer.utility).sum();
        let invalid = self.layers.iter().position(|layer| {
            layer.rate == Bitrate::ZERO || layer.utility.is_nan() || layer.utility < 0.0
        });
        let why = if layers == 0 || layers > LAYERS_MAX {
            format!("it has {layers} layers; a stream has 1 to {LAYERS_MAX}")
        } else if let Some(invalid) = invalid {
            let Layer { rate, utility } = self.layers[invalid];
            format!(
                "its layer {invalid} has a rate of {rate} and a utility of {utility}: the rate must be above 0, the utility at least 0"
            )
        } else if utility.is_nan() || (utility - 1.0).abs() > UTILITY_TOLERANCE {
            format!("the utilities of its layers sum to {utility}, not to 1")
        } else if let Some(ratio) = self.pack_ratio.filter(|ratio| !is_ratio(*ratio)) {
            format!(
                "its pack ratio is {ratio}: packed size over plain size must be a number above 0"
            )
        } else if self.needs.confidential && self.planner.is_none() {
            "a confidential stream needs a planner: without a plan nothing is sealed".into()
        } else if self.needs.confidential && given.is_some() {
            "a confidential stream takes no given plan: nothing checks that the plan seals it"
                .into()
        } else if given.is_some_and(|parts| parts.first().map(|part| part.node) != Some(node)) {
            "the given plan does not begin at this node".into()
        } else if given.is_some_and(is_too_long) {
            format!(
                "the given plan has more than {PATH_NODES_MAX} nodes, or a node with more than {ADAPTERS_PER_NODE_MAX} adapters"
            )
        } else if let Some((key, why)) = self.needs.fault() {
            format!("its need `{key}`: {why}")
        } else {
            let (key, why) = self.description.fault()?;
            format!("its {key}: {why}")
        };
        Some(why)
    }
}

fn is_ratio(ratio: f64) -> bool {
    ratio.is_finite() && ratio > 0.0
}

/// Returns whether a plan exceeds the limits of the messages that deploy it.
fn is_too_long(parts: &[Part]) -> bool {
    let long = |part: &Part| part.adapters.len() > ADAPTERS_PER_NODE_MAX;
    parts.len() > PATH_NODES_MAX || parts.iter().any(long)
}
