//! A stream as the planner sees it: its ends, layers and needs.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use thalweg_base::adu::AdaptationPolicy;
use thalweg_base::id::StreamName;
use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, Ratio};

use super::policy::Planner;
use super::{NodeName, Weights, text};

/// Tolerance of the sum of a stream's utilities against 1: room for thirds written with seven
/// digits.
pub const UTILITY_TOLERANCE: f64 = 1e-6;

/// A stream with one producer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Its name.
    pub name: StreamName,
    /// The producer's node.
    pub from: NodeName,
    /// The subscribers' nodes.
    pub to: Vec<NodeName>,
    /// From the base upwards; each layer needs those below it.
    pub layers: Vec<Layer>,
    /// Requirements on the path.
    #[serde(default)]
    pub needs: Needs,
    /// Importance relative to other streams: 255 highest, 0 lowest. Omitted:
    /// [`Stream::IMPORTANCE_DEFAULT`].
    #[serde(default = "importance_default")]
    pub importance: u8,
    /// ρ of its own: packed size over plain size; 1 for incompressible content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_ratio: Option<f64>,
    /// ε of its own: what sealing adds, relative to the size before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal_overhead: Option<f64>,
    /// What its producer sends and when, for running the world; planners ignore it.
    #[serde(default)]
    pub traffic: Traffic,
}

/// What a stream's producer sends in a running world: one ADU per layer and frame, at the layers'
/// rates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Traffic {
    /// Frames per second.
    pub frames: f64,
    /// Every n-th frame is independent; the frames between depend on the previous one. 1: all are
    /// independent.
    pub key_every: u32,
    /// Variation of frame sizes: uniform from 1 − spread to 1 + spread of the mean.
    pub spread: Ratio,
    /// Whether the frames are pictures of the layered test scene, so that their quality can be
    /// measured.
    pub video: bool,
    /// The planner at its source.
    pub planner: Planner,
    /// What is dropped first when a link carries less than the stream: sets the ADUs' importance.
    pub adaptation: AdaptationPolicy,
    /// When the producer begins.
    #[serde(
        deserialize_with = "text::read_duration",
        serialize_with = "text::write_duration"
    )]
    pub start: Duration,
    /// When the producer ends; `None`: with the world.
    #[serde(with = "text::optional", skip_serializing_if = "Option::is_none")]
    pub stop: Option<Duration>,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            frames: 25.0,
            key_every: 1,
            spread: Ratio::ZERO,
            video: false,
            planner: Planner::Exact,
            adaptation: AdaptationPolicy::Layers,
            start: Duration::ZERO,
            stop: None,
        }
    }
}

/// One layer of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// The rate that this layer adds.
    pub rate: Bitrate,
    /// The share of the stream's whole utility that this layer adds; over all layers they sum to 1.
    pub utility: f64,
}

fn importance_default() -> u8 {
    Stream::IMPORTANCE_DEFAULT
}

impl Stream {
    /// The default importance: the middle of the range.
    pub const IMPORTANCE_DEFAULT: u8 = 128;

    /// Returns ρ: the stream's own pack ratio, or the default.
    pub fn pack_ratio(&self, weights: &Weights) -> f64 {
        self.pack_ratio.unwrap_or(weights.pack_ratio)
    }

    /// Returns ε: the stream's own sealing overhead, or the default.
    pub fn seal_overhead(&self, weights: &Weights) -> f64 {
        self.seal_overhead.unwrap_or(weights.seal_overhead)
    }

    /// Returns the rate of the first `layers` layers, unpacked and unsealed.
    pub fn rate_of(&self, layers: usize) -> Bitrate {
        self.layers
            .iter()
            .take(layers)
            .map(|layer| layer.rate)
            .sum()
    }

    /// Returns the minimum number of layers worth delivering, at least one.
    pub fn least_layers(&self) -> u8 {
        self.needs.least_layers.max(1)
    }
}
