//! How a node is, as `thalweg ls`, `thalweg top` and `/api/status` show it.

mod outbox;
#[cfg(test)]
pub(crate) mod tests;

use serde::Serialize;
use thalweg_core::id::{NodeId, StreamName};
use thalweg_core::planner::report::Report;

pub use self::outbox::{BandStatus, FlowStatus, LatencyStatus, OutboxStatus};
pub use crate::forward::{Exposure, StreamReading};

/// A node's view of itself and of the others.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// This node.
    pub node: NodeStatus,
    /// For how long it has run.
    pub uptime_seconds: f64,
    /// Its links and the peers that it would have one with.
    pub links: Vec<LinkStatus>,
    /// All nodes that it knows of, itself included.
    pub nodes: Vec<NodeStatus>,
    /// All streams that it knows of.
    pub streams: Vec<StreamStatus>,
    /// The programs on this node that receive streams.
    pub subscribers: Vec<SubscriberStatus>,
    /// Those that nobody publishes any more, for the metrics: kept for five minutes after anything was done with them here, the last 256 at most.
    #[serde(skip)]
    pub over: Vec<OverStatus>,
    /// The plans of the streams that it publishes.
    pub plans: Vec<PlanStatus>,
    /// The parts of plans that run here.
    pub routes: Vec<RouteStatus>,
    /// The owner of the fabric, if it has one.
    pub fabric: Option<NodeId>,
    /// How often a connection was refused because its key is not admitted.
    pub refusals: u64,
    /// What others said that was not taken.
    pub refused: Vec<RefusedStatus>,
    /// ADUs that came under no plan that is installed here.
    pub unknown_adus: u64,
    /// How long it took to hand on what was last taken in one go: what comes right after that has waited as long.
    pub lag_ms: f64,
    /// Lines of its log that could not be written to standard error.
    pub log_lines_lost: u64,
    /// Tasks that have panicked and cost a single connection: faults of the program, each told in the log.
    pub panics: u64,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Its key.
    pub key: NodeId,
    /// Its name.
    pub name: String,
    /// How many adapters it runs for each stream.
    pub slots: u32,
    /// Whether this node trusts it with plaintext.
    pub trusted: bool,
    /// What it may do by its grant; nothing is known of that in a fabric without an owner.
    pub rights: Option<Vec<&'static str>>,
    /// The names of the nodes that it has links with.
    pub neighbours: Vec<String>,
}

/// A stream that was used here and that nobody publishes now.
#[derive(Clone, Debug)]
pub struct OverStatus {
    /// Its name.
    pub name: StreamName,
    /// What became of its ADUs on this node.
    pub counts: StreamReading,
    /// What became of them on all nodes of its path, if it was published here.
    pub ledger: Option<LedgerStatus>,
}

/// What others said that was not taken, of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedStatus {
    /// The kind.
    pub what: &'static str,
    /// How often.
    pub count: u64,
    /// The last time, as a sentence that names who.
    pub last: String,
}

/// A link of this node, or a peer that it has none with now.
#[derive(Clone, Debug, Serialize)]
pub struct LinkStatus {
    /// The peer's key.
    pub key: NodeId,
    /// Its name.
    pub name: String,
    /// `up`, `connecting` or `unreachable`.
    pub state: &'static str,
    /// Why it is unreachable, as a sentence.
    pub reason: Option<String>,
    /// The addresses that packets go to.
    pub addresses: Vec<String>,
    /// The smoothed round-trip time.
    pub rtt_ms: Option<f64>,
    /// The share of packets lost lately.
    pub loss: Option<f64>,
    /// What was sent in the last second.
    pub sent_bps: Option<u64>,
    /// What was received in the last second.
    pub received_bps: Option<u64>,
    /// What the congestion window lets through a round trip, over it: what the link is measured to carry.
    pub window_bps: Option<u64>,
    /// How often another TCP connection has taken over since the link is up; nothing over UDP.
    pub failovers: Option<u64>,
    /// How far a round trip is from the one before, in the mean.
    pub jitter_ms: Option<f64>,
    /// What the link was measured to carry from here; nothing before it was full, and where that is out of date.
    pub measured_bps: Option<u64>,
    /// What is left of what it carries; nothing if that is neither measured nor configured.
    pub headroom_bps: Option<u64>,
    /// What others are told that it carries from here, and plan by; nothing if that is not known.
    pub told_bps: Option<u64>,
    /// What the configuration says the link carries.
    pub rate_bps: Option<u64>,
    /// Whether nobody else can listen on the way, as the configuration says.
    pub secure: bool,
    /// Whether this node trusts the peer with plaintext.
    pub trusted: bool,
    /// ADUs sent over it, by whether their payload was sealed.
    pub adus: Exposure,
    /// What waits to be sent over it; nothing if there is no link, or it has no outbox.
    pub outbox: Option<OutboxStatus>,
    /// What streams asked of it in the last seconds and what was dropped of that here, those that asked for
    /// most first.
    pub traffic: Vec<TrafficStatus>,
}

/// What a stream asked of a link in the last seconds, and what was dropped of that on this node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrafficStatus {
    /// The stream's name.
    pub stream: String,
    /// Over how long this was counted.
    pub seconds: f64,
    /// The payloads handed to the link.
    pub asked_bps: u64,
    /// ADUs that were to go over the link.
    pub adus: u64,
    /// Of those, dropped.
    pub dropped: Vec<LossOnLink>,
    /// The same by importance, the least first, in bands of 32.
    pub by_importance: Vec<BandTraffic>,
}

/// ADUs that were dropped before a link, or on it, for one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LossOnLink {
    /// Why.
    pub cause: &'static str,
    /// The least and the largest importance of the band.
    pub importance: [u8; 2],
    /// How many.
    pub adus: u64,
}

/// ADUs of one band of importance that were to go over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BandTraffic {
    /// The least and the largest importance of the band.
    pub importance: [u8; 2],
    /// How many.
    pub adus: u64,
    /// How many of those were dropped.
    pub dropped: u64,
}

/// A stream that somebody publishes.
#[derive(Clone, Debug, Serialize)]
pub struct StreamStatus {
    /// Its name.
    pub name: StreamName,
    /// Its eight bytes on the wire.
    pub id: String,
    /// The name of the node that publishes it.
    pub publisher: String,
    /// The key of that node.
    pub publisher_key: NodeId,
    /// Whether it is for trusted nodes only.
    pub confidential: bool,
    /// The sum of its layers' rates.
    pub rate_bps: u64,
    /// How many layers it has.
    pub layers: usize,
    /// The names of the subscribed nodes, known at the publisher.
    pub sinks: Vec<String>,
    /// What became of its ADUs on this node.
    pub counts: StreamReading,
    /// What became of them on all nodes of its path, known at the publisher.
    pub ledger: Option<LedgerStatus>,
    /// What it waits for, if it does: at its publisher, or where the subscriber is.
    pub held_up: Option<HeldUpStatus>,
}

/// A stream without a deadline that waits for a subscriber.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldUpStatus {
    /// The sinks and the programs on this node that take less than comes, or cannot be reached.
    pub by: Vec<String>,
    /// For how long it has waited.
    pub seconds: f64,
    /// Payload that is kept meanwhile.
    pub kept_bytes: u64,
}

/// A program that receives a stream on this node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SubscriberStatus {
    /// The stream's name.
    pub stream: StreamName,
    /// The program, such as `pid 4711`.
    pub subscriber: String,
    /// ADUs in its mailbox.
    pub waiting_adus: usize,
    /// Their payload.
    pub waiting_bytes: u64,
    /// ADUs that it took.
    pub taken: u64,
    /// ADUs that it was not given: missing, expired before it took them, or without room.
    pub missed: u64,
    /// For how long it has held its stream up, if it does.
    pub holds_up_seconds: Option<f64>,
}

/// What became of a stream's ADUs on all nodes of its path. An ADU counts once for each plan that it was given under.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LedgerStatus {
    /// ADUs that the producer gave.
    pub given: u64,
    /// ADUs given to subscribers.
    pub delivered: u64,
    /// ADUs on their way, or of which the publisher has not heard yet.
    pub open: u64,
    /// ADUs that went no further.
    pub losses: Vec<LossStatus>,
}

/// ADUs that ended at one node for one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LossStatus {
    /// The name of the node; on it, or on its link to the next one.
    pub hop: String,
    /// Why.
    pub cause: &'static str,
    /// The least and the largest importance of the band that they are counted in.
    pub importance: [u8; 2],
    /// How many.
    pub adus: u64,
}

/// The plan of a stream for one of its sinks.
#[derive(Clone, Debug, Serialize)]
pub struct PlanStatus {
    /// The stream's name.
    pub stream: StreamName,
    /// The sink's name.
    pub sink: String,
    /// The sink's key.
    pub sink_key: NodeId,
    /// The plan's number; 0 while none is in force.
    pub epoch: u32,
    /// `active`, `deploying` or `failed`.
    pub state: &'static str,
    /// Why it failed, or why only a part of the stream comes, as a sentence.
    pub reason: Option<String>,
    /// The plan in force, unless the stream is unplanned.
    pub report: Option<Report>,
    /// The same in words.
    pub explanation: Option<String>,
}

/// A part of a plan that runs on this node.
#[derive(Clone, Debug, Serialize)]
pub struct RouteStatus {
    /// The stream's name.
    pub stream: StreamName,
    /// The plan's number.
    pub epoch: u32,
    /// Where ADUs come from.
    pub previous: String,
    /// Where they go, if not to subscribers here.
    pub next: Option<String>,
    /// The adapters in order.
    pub adapters: Vec<String>,
}
