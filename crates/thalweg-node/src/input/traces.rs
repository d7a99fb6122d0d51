//! What a program that traces a stream gets.

use serde::{Deserialize, Serialize};
use thalweg_base::id::StreamName;

/// An event for a program that traces a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceEvent {
    /// The source traces it, for this number of sinks.
    Sinks(u32),
    /// The source refused, with its reason.
    Refused(String),
    /// The costs of one ADU.
    Adu(TracedAdu),
}

/// The cost of each hop for one ADU; times are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedAdu {
    /// The stream's name.
    pub stream: StreamName,
    /// The node where the ADU's path ended.
    pub sink: String,
    /// The plan that carried it.
    pub epoch: u32,
    /// The ADU's sequence number.
    pub sequence: u64,
    /// Time left to its deadline when the producer published it; `None` if it had no deadline.
    pub budget_us: Option<u64>,
    /// The sum of all costs below.
    pub sum_us: u64,
    /// One entry per node, the source first.
    pub hops: Vec<HopCost>,
}

/// What an ADU cost on one node and the link behind it; times are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopCost {
    /// The node's name.
    pub node: String,
    /// Time on the node until it was queued, without the modules: waiting for its other parts and
    /// for a turn.
    pub node_us: u64,
    /// Time in modules.
    pub lift_us: u64,
    /// Time in the outbox; at the sink, waiting for room in a mailbox.
    pub wait_us: u64,
    /// Time on the link to the next node: half of its recent minimum round trip.
    pub link_us: u64,
}

/// Why a stream is not traced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// No node publishes it, or no path leads to its source.
    #[error("{0}")]
    Map(String),
    /// Its source refused.
    #[error("{source_name} does not trace it: {reason}")]
    Refused {
        /// The source's name.
        source_name: String,
        /// The source's reason.
        reason: String,
    },
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}
