//! The effects of adapters on a stream's state, and their costs.
//!
//! *The idea.* The search knows states and steps, not compression, ciphers or codecs. A *transform*
//! is one bit of the state: it multiplies the rate, and may hide the payload, repair losses, or
//! lower the utility. A *table* is another set of layers that a transcoder makes of the stream. A
//! *profile* is an adapter: it lowers the layers, switches a transform on (DO) or off (UNDO), or
//! changes the table. It also has a cost, a delay and a CPU demand, and may need plaintext. A new
//! adapter is a new profile.
//!
//! Transforms have an *order class*: an adapter works only while no transform of a higher class is
//! on. Compression is below encryption, encryption below error correction.
//!
//! *Sources.* docs/concepts/planner.md §2.

use alloc::vec::Vec;

use thalweg_base::time::Duration;

use super::{Adapter, AdapterName, Layer};

/// One bit of a stream's state: something done to the payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transform {
    /// The adapter that switches it on.
    pub name: AdapterName,
    /// Factor of the rate.
    pub rate_factor: f64,
    /// Factor of the utility; 1 for a transform that can be undone.
    pub quality_factor: f64,
    /// Whether the payload is unreadable while the transform is on.
    pub hides: bool,
    /// The loss, as a share of packets on a link, that does no harm while the transform is on.
    pub repairs: f64,
    /// Order class: while the transform is on, adapters of lower classes cannot work.
    pub order: u8,
    /// Whether the stream may be delivered with it, as nothing undoes it.
    pub stays: bool,
}

/// Layers that a transcoder makes of the stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The transcoder.
    pub name: AdapterName,
    /// From the base upwards; utilities are shares of the whole stream's.
    pub layers: Vec<Layer>,
}

/// The effect of an adapter on the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Lowers the number of layers; one profile stands for all targets.
    Keep,
    /// Switches a transform on; it must be off.
    Do(usize),
    /// Switches a transform off; it must be on.
    Undo(usize),
    /// Makes all layers of a table from layers of the stream with at least the same utility.
    Transcode(usize),
}

/// An adapter as the planner knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// The adapter; the number in a [`Role::Keep`] is meaningless.
    pub adapter: Adapter,
    /// The effect on the state.
    pub role: Role,
    /// κ: cost per Mbit/s of input.
    pub cost_per_mbps: f64,
    /// CPU demand in cores per Mbit/s of input.
    pub cpu_per_mbps: f64,
    /// Delay that it adds to the path.
    pub delay: Duration,
    /// Whether it works only while no transform hides the payload.
    pub needs_plaintext: bool,
}
