//! What a plan can break, each with the numbers that matter, as JSON and in words.
//!
//! *Sources.* docs/planner.md §2, §7.

use alloc::format;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::model::{Adapter, AdapterName, NodeName};
use crate::units::Bitrate;

/// One thing that a plan breaks, or that keeps a plan from existing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Violation {
    /// No links that are up lead from source to sink.
    #[error("no links that are up lead from {from} to {to}")]
    NoPath {
        /// The source.
        from: NodeName,
        /// The sink.
        to: NodeName,
    },
    /// A link is too slow for what the plan sends on it.
    #[error("link {from} → {to} has {}, the stream needs {}", rate(*has_bps), rate(*needs_bps))]
    SlowLink {
        /// The sender.
        from: NodeName,
        /// The receiver.
        to: NodeName,
        /// The stream's rate on it.
        needs_bps: f64,
        /// The link's rate.
        has_bps: f64,
    },
    /// A link of the path is down.
    #[error("link {from} → {to} is down")]
    LinkDown {
        /// The sender.
        from: NodeName,
        /// The receiver.
        to: NodeName,
    },
    /// A node runs more adapters than it has slots.
    #[error("node {node} has {has} adapter slots, the plan needs {needs}")]
    FewSlots {
        /// The node.
        node: NodeName,
        /// Adapters placed on it.
        needs: u32,
        /// Its slots.
        has: u32,
    },
    /// A link that may not carry plaintext does.
    #[error("link {from} → {to} may not carry plaintext, and would")]
    PlainLink {
        /// The sender.
        from: NodeName,
        /// The receiver.
        to: NodeName,
    },
    /// A node that may not see plaintext does.
    #[error("node {node} may not see plaintext, and would")]
    PlainNode {
        /// The node.
        node: NodeName,
    },
    /// A link loses more than the stream bears, and nothing that is on repairs it.
    #[error("link {from} → {to} loses {}, the stream bears {}", percent(*loses), percent(*bears))]
    LossyLink {
        /// The sender.
        from: NodeName,
        /// The receiver.
        to: NodeName,
        /// The share of packets lost on it.
        loses: f64,
        /// The share that the stream bears.
        bears: f64,
    },
    /// A node does not hold an adapter that is placed on it.
    #[error("node {node} does not hold {adapter}")]
    NotHeld {
        /// The node.
        node: NodeName,
        /// The adapter.
        adapter: Adapter,
    },
    /// The adapters of a node take more CPU than it has for the stream.
    #[error("node {node} has {has_cores} cores for the stream, its adapters need {needs_cores}")]
    LittleCpu {
        /// The node.
        node: NodeName,
        /// What its adapters take.
        needs_cores: f64,
        /// What it has.
        has_cores: f64,
    },
    /// An adapter lies beneath a transform that is on, so it cannot be reached.
    #[error("{adapter} at {node} lies beneath {above}, which is on")]
    OutOfOrder {
        /// The node.
        node: NodeName,
        /// The adapter.
        adapter: Adapter,
        /// What switched the transform on.
        above: AdapterName,
    },
    /// A transcoded stream arrives with less than the fewest layers worth delivering have.
    #[error(
        "the stream arrives with a utility of {has}, where {needs} is the least worth delivering"
    )]
    LowUtility {
        /// What it arrives with.
        has: f64,
        /// What the fewest layers worth delivering have.
        needs: f64,
    },
    /// The adapters of the snapshot make no sense.
    #[error("the adapters make no sense: {what}")]
    BadAdapters {
        /// What does not.
        what: String,
    },
    /// The path takes longer than the deadline allows.
    #[error("the path takes {takes_ms} ms, the deadline allows {allows_ms} ms")]
    Late {
        /// The sum of all delays.
        takes_ms: f64,
        /// The deadline.
        allows_ms: f64,
    },
    /// The path has more nodes than can be deployed.
    #[error("the path has {nodes} nodes, {most} are the most")]
    LongPath {
        /// Its nodes.
        nodes: u32,
        /// [`crate::limits::PATH_NODES_MAX`].
        most: u32,
    },
    /// The stream has, or would arrive with, a wrong number of layers.
    #[error(
        "{has} layers, where {needs} to {} are needed",
        crate::limits::LAYERS_MAX
    )]
    Layers {
        /// Layers there are.
        has: u32,
        /// Layers needed at least.
        needs: u32,
    },
    /// Each sink alone can be reached, but no tree to all of them was found.
    #[error("no tree was found that leads to {sink} and to the other sinks")]
    NoTree {
        /// One of the sinks.
        sink: NodeName,
    },
    /// What a sink lacks was not looked into: others lack something too, and the network is large.
    #[error(
        "what {sink} lacks was not looked into, for others lack something too and the network is large"
    )]
    NotLookedInto {
        /// The sink.
        sink: NodeName,
    },
    /// The stream does not have exactly one sink.
    #[error("the stream has {count} sinks, a path leads to one: plan a tree, or each alone")]
    Sinks {
        /// How many.
        count: u32,
    },
    /// An end of the stream is not in the network.
    #[error("there is no node {node}")]
    UnknownNode {
        /// The name.
        node: NodeName,
    },
    /// The search gave up.
    #[error("the search gave up at {labels} labels; whether there is a plan is not known")]
    Exhausted {
        /// Labels it kept.
        labels: u32,
    },
    /// The path does not lead from the stream's source to its sink over the links that the plan lists.
    #[error("the path is broken at {at}: {what}")]
    BrokenPath {
        /// Where.
        at: String,
        /// How.
        what: String,
    },
    /// An adapter cannot work where the plan places it.
    #[error("{adapter} cannot work on what arrives at {node}")]
    Misplaced {
        /// The node.
        node: NodeName,
        /// The adapter.
        adapter: Adapter,
    },
    /// The stream arrives packed or sealed.
    #[error("the stream reaches {node} packed or sealed")]
    NotPlain {
        /// The sink.
        node: NodeName,
    },
    /// The plan says of itself what is not so.
    #[error("the plan says {what} is {says}, it is {is}")]
    Misstated {
        /// Of what.
        what: String,
        /// What it says.
        says: f64,
        /// What is so.
        is: f64,
    },
}

/// Prints a rate that need not be whole, rounded up, as the world file writes it.
pub(in super::super) fn rate(bps: f64) -> Bitrate {
    let whole = bps as u64;
    // A product of decimal ratios lies a hair beside the whole number it means.
    let up = bps - whole as f64 > 1e-6;
    Bitrate::from_bps(whole.saturating_add(u64::from(up)))
}

/// Prints a share in percent, with no more digits than it takes: 0.07 · 100 is a hair above 7.
fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} %")
}
