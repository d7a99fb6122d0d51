//! What a plan can break, each with the relevant numbers, as JSON and in words.
//!
//! *Sources.* docs/concepts/planner.md §2, §7.

use alloc::format;
use alloc::string::String;

use serde::{Deserialize, Serialize};
use thalweg_base::units::Bitrate;

use crate::model::{Adapter, AdapterName, NodeName};

/// One thing that a plan breaks, or that prevents a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Violation {
    /// No path of links that are up leads from source to sink.
    #[error("no links that are up lead from {from} to {to}")]
    NoPath {
        /// The source.
        from: NodeName,
        /// The sink.
        to: NodeName,
    },
    /// A link is too slow for the stream on it.
    #[error("link {from} → {to} has {}, the stream needs {}", rate(*has_bps), rate(*needs_bps))]
    SlowLink {
        /// The sender.
        from: NodeName,
        /// The receiver.
        to: NodeName,
        /// The stream's rate on the link, in bit/s.
        needs_bps: f64,
        /// The link's rate, in bit/s.
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
        /// Adapters placed on the node.
        needs: u32,
        /// The node's slots.
        has: u32,
    },
    /// A link that must not carry plaintext carries it.
    #[error("link {from} → {to} may not carry plaintext, but would")]
    PlainLink {
        /// The sender.
        from: NodeName,
        /// The receiver.
        to: NodeName,
    },
    /// A node that must not see plaintext sees it.
    #[error("node {node} may not see plaintext, but would")]
    PlainNode {
        /// The node.
        node: NodeName,
    },
    /// A link loses more than the stream tolerates, and no transform repairs it.
    #[error("link {from} → {to} loses {}, the stream tolerates {}", percent(*loses), percent(*bears))]
    LossyLink {
        /// The sender.
        from: NodeName,
        /// The receiver.
        to: NodeName,
        /// Share of packets lost on the link.
        loses: f64,
        /// Share that the stream tolerates.
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
    /// The adapters of a node need more CPU than the node has for the stream.
    #[error("node {node} has {has_cores} cores for the stream, its adapters need {needs_cores}")]
    LittleCpu {
        /// The node.
        node: NodeName,
        /// CPU that the adapters need, in cores.
        needs_cores: f64,
        /// CPU that the node has, in cores.
        has_cores: f64,
    },
    /// A transform that is on covers the layer that an adapter works on.
    #[error("{adapter} at {node} cannot work below {above}, which is on")]
    OutOfOrder {
        /// The node.
        node: NodeName,
        /// The adapter.
        adapter: Adapter,
        /// The adapter that switched the transform on.
        above: AdapterName,
    },
    /// A transcoded stream arrives with less utility than the minimum layers have.
    #[error("the stream arrives with a utility of {has}, the minimum worth delivering is {needs}")]
    LowUtility {
        /// Utility at arrival.
        has: f64,
        /// Utility of the minimum layers.
        needs: f64,
    },
    /// The snapshot's adapters are invalid.
    #[error("the adapters are invalid: {what}")]
    BadAdapters {
        /// The mistake.
        what: String,
    },
    /// The path takes longer than the deadline allows.
    #[error("the path takes {takes_ms} ms, the deadline allows {allows_ms} ms")]
    Late {
        /// The sum of all delays, in milliseconds.
        takes_ms: f64,
        /// The deadline, in milliseconds.
        allows_ms: f64,
    },
    /// The path has more nodes than can be deployed.
    #[error("the path has {nodes} nodes, the maximum is {most}")]
    LongPath {
        /// Nodes of the path.
        nodes: u32,
        /// [`thalweg_base::limits::PATH_NODES_MAX`].
        most: u32,
    },
    /// The stream has, or would arrive with, a wrong number of layers.
    #[error(
        "{has} layers, where {needs} to {} are needed",
        thalweg_base::limits::LAYERS_MAX
    )]
    Layers {
        /// Actual number of layers.
        has: u32,
        /// Minimum number of layers.
        needs: u32,
    },
    /// Each sink can be reached alone, but no tree to all of them was found.
    #[error("no tree was found that leads to {sink} and to the other sinks")]
    NoTree {
        /// One of the sinks.
        sink: NodeName,
    },
    /// The shortfalls of a sink were not analysed: others lack something too, and the network is
    /// large.
    #[error(
        "the needs of {sink} were not analysed: other sinks fail too, and the network is large"
    )]
    NotLookedInto {
        /// The sink.
        sink: NodeName,
    },
    /// The stream does not have exactly one sink.
    #[error("the stream has {count} sinks, a path leads to one: plan a tree, or each alone")]
    Sinks {
        /// Number of sinks.
        count: u32,
    },
    /// An end of the stream is not in the network.
    #[error("there is no node {node}")]
    UnknownNode {
        /// The unknown name.
        node: NodeName,
    },
    /// The search reached its label limit.
    #[error("the search gave up at {labels} labels; whether there is a plan is unknown")]
    Exhausted {
        /// Labels that it kept.
        labels: u32,
    },
    /// The path does not lead from the stream's source to its sink over the links that the plan
    /// lists.
    #[error("the path is broken at {at}: {what}")]
    BrokenPath {
        /// The place.
        at: String,
        /// The fault.
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
    /// A number in the plan is false.
    #[error("the plan states {what} as {says}, its value is {is}")]
    Misstated {
        /// The name of the number.
        what: String,
        /// The stated value.
        says: f64,
        /// The true value.
        is: f64,
    },
}

/// Returns a fractional rate rounded up, for printing as in a world file.
pub(in super::super) fn rate(bps: f64) -> Bitrate {
    let whole = bps as u64;
    // A product of decimal ratios differs slightly from the whole number that it means.
    let up = bps - whole as f64 > 1e-6;
    Bitrate::from_bps(whole.saturating_add(u64::from(up)))
}

/// Returns a share in percent without superfluous digits: 0.07 · 100 is slightly above 7.
fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} %")
}
