//! A plan as the JSON that `thalweg plan --json` prints.
//!
//! *Sources.* docs/concepts/planner.md §7.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use thalweg_base::time::Duration;

use super::check::Violation;
use super::product::Plan;
use super::shortfall::{Need, Shortfall};
use crate::model::{Adapter, AdapterName, NodeName};

/// A plan and its shortfalls as printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Whether the plan satisfies all needs.
    pub feasible: bool,
    /// Total cost.
    pub cost: f64,
    /// The parts of the cost.
    pub cost_parts: Parts,
    /// The nodes in order.
    pub path: Vec<NodeName>,
    /// Layers that reach the sink.
    pub layers: u8,
    /// The adapters of each node that has any.
    pub placements: Vec<Chain>,
    /// The stream on each link of the path.
    pub links: Vec<Hop>,
    /// The sum of the delays, in milliseconds.
    pub delay_ms: f64,
    /// Ways out, if the plan is not feasible.
    pub shortfalls: Vec<Lack>,
    /// Planning time in microseconds, measured by the caller.
    pub elapsed_us: f64,
}

/// The parts of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Σ κ · input rate.
    pub adapters: f64,
    /// Σ R / rate.
    pub links: f64,
    /// Λ · (1 − Σ u).
    pub quality: f64,
}

/// The adapters of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// The node.
    pub node: NodeName,
    /// In the order in which an ADU passes them.
    pub adapters: Vec<Adapter>,
}

/// The stream on one link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hop {
    /// The sender.
    pub from: NodeName,
    /// The receiver.
    pub to: NodeName,
    /// The stream's rate on the link, in bit/s.
    pub rate_bps: f64,
    /// Layers kept.
    pub layers: u8,
    /// Whether the stream is packed.
    pub packed: bool,
    /// Whether the stream is sealed.
    pub sealed: bool,
    /// Declared adapters applied, if any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transforms: Vec<AdapterName>,
}

/// One way out of infeasibility.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lack {
    /// The constraint that is broken.
    pub need: Need,
    /// The shortfall in words.
    pub message: String,
    /// The remedy in words.
    pub fix: String,
    /// The single violations, with numbers.
    pub lacks: Vec<Violation>,
}

impl Report {
    /// Returns the report of a plan, with the time that planning took.
    pub fn new(plan: &Plan, shortfalls: &[Shortfall], elapsed: Duration) -> Self {
        let parts = plan.cost_parts;
        let chain = |placement: &super::Placement| Chain {
            node: placement.node.clone(),
            adapters: placement.adapters.clone(),
        };
        let hop = |link: &super::LinkUse| Hop {
            from: link.from.clone(),
            to: link.to.clone(),
            rate_bps: link.rate_bps,
            layers: link.layers,
            packed: link.packed,
            sealed: link.sealed,
            transforms: link.transforms.clone(),
        };
        let lack = |shortfall: &Shortfall| Lack {
            need: shortfall.need,
            message: shortfall.to_string(),
            fix: shortfall.fix(),
            lacks: shortfall.lacks.clone(),
        };
        Self {
            feasible: plan.feasible,
            cost: plan.cost,
            cost_parts: Parts {
                adapters: parts.adapters,
                links: parts.links,
                quality: parts.quality,
            },
            path: plan.path.clone(),
            layers: plan.layers,
            placements: plan.placements.iter().map(chain).collect(),
            links: plan.links.iter().map(hop).collect(),
            delay_ms: plan.delay.as_millis_f64(),
            shortfalls: shortfalls.iter().map(lack).collect(),
            elapsed_us: elapsed.as_nanos() as f64 / 1e3,
        }
    }
}
