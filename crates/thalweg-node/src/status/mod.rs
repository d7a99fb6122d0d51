//! The status of a node, as `thalweg ls`, `thalweg top` and `/api/status` show it.

mod drops;
mod outbox;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use serde::Serialize;
use thalweg_base::description::Description;
use thalweg_base::id::{NodeId, StreamName};
use thalweg_base::mailbox::MailboxOptions;
use thalweg_net::Footprint;
use thalweg_planner::planner::report::Report;

pub use self::drops::DropStatus;
pub use self::outbox::{BandStatus, FlowStatus, LatencyStatus, OutboxStatus};
pub use crate::forward::{Exposure, StreamReading};

/// A node's view of itself and of the network.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// This node.
    pub node: NodeStatus,
    /// Time since its start.
    pub uptime_seconds: f64,
    /// Its links, and its peers without a link.
    pub links: Vec<LinkStatus>,
    /// All nodes that it knows, including itself.
    pub nodes: Vec<NodeStatus>,
    /// All streams that it knows.
    pub streams: Vec<StreamStatus>,
    /// The programs on this node that receive streams.
    pub subscribers: Vec<SubscriberStatus>,
    /// Ended streams, for the metrics: kept for five minutes after their last use here, the last
    /// 256 at most.
    #[serde(skip)]
    pub ended: Vec<EndedStatus>,
    /// The plans of the streams that it publishes.
    pub plans: Vec<PlanStatus>,
    /// The parts of plans that run here.
    pub routes: Vec<RouteStatus>,
    /// The inputs and outputs that run here.
    pub ends: Vec<EndStatus>,
    /// The owner of the fabric, if it has one.
    pub fabric: Option<NodeId>,
    /// Connections refused because the peer's key is not admitted.
    pub refused_connections: u64,
    /// Dials refused for lack of room: for a handshake, or for another link.
    pub refused_dials: u64,
    /// Refused messages of other nodes, by kind.
    pub refused_messages: Vec<RefusedStatus>,
    /// ADUs that arrived under no plan installed here.
    pub unroutable_adus: u64,
    /// How long the last batch of received ADUs took to hand on; an ADU right behind it waits as
    /// long.
    pub lag_ms: f64,
    /// Lines of the log that could not be written to standard error.
    pub log_lines_lost: u64,
    /// Panics of tasks that each cost one connection. Each is a fault of the program, and in the
    /// log.
    pub panics: u64,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Its key.
    pub key: NodeId,
    /// Its name.
    pub name: String,
    /// The number of adapters that it runs for each stream.
    pub slots: u32,
    /// Whether this node trusts it with plaintext.
    pub trusted: bool,
    /// The rights of its grant; `None` in a fabric without an owner.
    pub rights: Option<Vec<&'static str>>,
    /// The names of the nodes that it has links with.
    pub neighbours: Vec<String>,
}

/// A stream that was used here and is no longer published.
#[derive(Clone, Debug)]
pub struct EndedStatus {
    /// Its name.
    pub name: StreamName,
    /// The counters of its ADUs on this node.
    pub counts: StreamReading,
    /// Its ledger over all nodes of its path, if it was published here.
    pub ledger: Option<LedgerStatus>,
}

/// Refused messages of other nodes, of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedStatus {
    /// The kind.
    pub kind: &'static str,
    /// How many.
    pub count: u64,
    /// The last one, as a sentence that names the sender.
    pub last: String,
}

/// A link of this node, or a peer without a link.
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
    /// The addresses to which packets are sent.
    pub addresses: Vec<String>,
    /// The smoothed round-trip time.
    pub rtt_ms: Option<f64>,
    /// The recent share of lost packets.
    pub loss: Option<f64>,
    /// The rate sent in the last second.
    pub sent_bps: Option<u64>,
    /// The rate received in the last second.
    pub received_bps: Option<u64>,
    /// The congestion window over the round-trip time: the link's capacity as measured.
    pub window_bps: Option<u64>,
    /// How often another TCP connection has taken over since the link went up; `None` over UDP.
    pub failovers: Option<u64>,
    /// The mean difference between successive round trips.
    pub jitter_ms: Option<f64>,
    /// The measured capacity from here; `None` if the link was never full, or the measurement is
    /// stale.
    pub measured_bps: Option<u64>,
    /// The unused part of the capacity; `None` if that is neither measured nor configured.
    pub headroom_bps: Option<u64>,
    /// The capacity from here that is announced to other nodes for planning; `None` if unknown.
    pub announced_bps: Option<u64>,
    /// The capacity by the configuration.
    pub rate_bps: Option<u64>,
    /// Whether the configuration says that no third party can listen on the link.
    pub secure: bool,
    /// Whether this node trusts the peer with plaintext.
    pub trusted: bool,
    /// ADUs sent over it, by whether their payload was sealed.
    pub adus: Exposure,
    /// The memory that it takes; `None` without a link.
    pub memory: Option<MemoryStatus>,
    /// What waits to be sent over it; `None` without a link or an outbox.
    pub outbox: Option<OutboxStatus>,
    /// The recent traffic of streams on it and what was dropped of that here, the largest first.
    pub traffic: Vec<TrafficStatus>,
}

/// The memory that a link takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryStatus {
    /// At rest, as measured for its transport.
    pub rest_bytes: u64,
    /// Payload in its outbox; what waits in several outboxes is in memory once.
    pub queued_bytes: u64,
    /// Sent and not acknowledged; zero over TCP, where the kernel has it.
    pub in_flight_bytes: u64,
    /// Payload of ADUs that have not arrived whole.
    pub arriving_bytes: u64,
    /// All of it.
    pub total_bytes: u64,
}

impl From<Footprint> for MemoryStatus {
    fn from(memory: Footprint) -> Self {
        Self {
            rest_bytes: memory.rest.as_bytes(),
            queued_bytes: memory.queued.as_bytes(),
            in_flight_bytes: memory.in_flight.as_bytes(),
            arriving_bytes: memory.arriving.as_bytes(),
            total_bytes: memory.total().as_bytes(),
        }
    }
}

/// A stream's traffic on a link in the last seconds, and what was dropped of that on this node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrafficStatus {
    /// The stream's name.
    pub stream: String,
    /// The time over which this was counted.
    pub seconds: f64,
    /// The rate of payloads handed to the link.
    pub offered_bps: u64,
    /// ADUs meant for the link.
    pub adus: u64,
    /// The dropped ones among them.
    pub dropped: Vec<LinkLoss>,
    /// The same by importance, the least first, in bands of 32.
    pub by_importance: Vec<BandTraffic>,
}

/// ADUs that were dropped before or on a link, for one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkLoss {
    /// The cause.
    pub cause: &'static str,
    /// The least and the largest importance of the band.
    pub importance: [u8; 2],
    /// How many.
    pub adus: u64,
}

/// ADUs of one band of importance that were meant for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BandTraffic {
    /// The least and the largest importance of the band.
    pub importance: [u8; 2],
    /// How many.
    pub adus: u64,
    /// The dropped ones among them.
    pub dropped: u64,
}

/// A published stream.
#[derive(Clone, Debug, Serialize)]
pub struct StreamStatus {
    /// Its name.
    pub name: StreamName,
    /// Its id: eight bytes on the wire, in hexadecimal.
    pub id: String,
    /// The name of the node that publishes it.
    pub publisher: String,
    /// The key of that node.
    pub publisher_key: NodeId,
    /// Whether only trusted nodes may see its content.
    pub confidential: bool,
    /// What it carries, if its source has described it.
    #[serde(flatten)]
    pub description: DescriptionStatus,
    /// The sum of its layers' rates.
    pub rate_bps: u64,
    /// Its number of layers.
    pub layers: usize,
    /// The names of the subscribed nodes, known at the publisher.
    pub sinks: Vec<String>,
    /// The counters of its ADUs on this node.
    pub counts: StreamReading,
    /// Its ledger over all nodes of its path, known at the publisher.
    pub ledger: Option<LedgerStatus>,
    /// What it waits for, if it does: shown at its publisher, or on the subscriber's node.
    pub stalled: Option<StallStatus>,
}

/// An input or output of this node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndStatus {
    /// `ingest` or `egress`.
    pub kind: &'static str,
    /// Its name in the configuration.
    pub name: StreamName,
    /// Its stream.
    pub stream: StreamName,
    /// Where it comes from, or goes.
    pub url: String,
    /// `starting`, `running`, `retrying`, `ended` or `stopped`.
    pub state: &'static str,
    /// For how long.
    pub seconds: f64,
    /// Why it failed, or what it waits for, as a sentence.
    pub reason: Option<String>,
    /// When it is started again.
    pub retry_in_seconds: Option<f64>,
    /// How often it has failed.
    pub restarts: u64,
    /// Messages that have passed.
    pub adus: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a stream carries, in its source's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DescriptionStatus {
    /// How its ADUs are encoded, such as `mpegts` or `json`; `None` if unknown.
    pub encoding: Option<String>,
    /// What is encoded; `None` if unknown.
    pub schema: Option<String>,
    /// Words by which it is found.
    pub labels: BTreeMap<String, String>,
}

impl From<&Description> for DescriptionStatus {
    fn from(description: &Description) -> Self {
        let stated = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        Self {
            encoding: stated(&description.encoding),
            schema: stated(&description.schema),
            labels: description.labels.clone(),
        }
    }
}

/// A stream without a deadline that is stalled by a subscriber.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StallStatus {
    /// The stalling sinks, and programs on this node: too slow, or unreachable.
    pub by: Vec<String>,
    /// How long it has been stalled.
    pub seconds: f64,
    /// Payload bytes kept meanwhile.
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
    /// Their payload bytes.
    pub waiting_bytes: u64,
    /// ADUs delivered to it.
    pub delivered: u64,
    /// ADUs that it missed: lost, expired before it took them, or dropped for lack of room.
    pub missed: u64,
    /// How long it has blocked its stream, if it does.
    pub blocking_seconds: Option<f64>,
    /// What it asked of its mailbox.
    pub mailbox: MailboxOptions,
}

/// The fate of a stream's ADUs on all nodes of its path. An ADU counts once for each plan under
/// which it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LedgerStatus {
    /// ADUs published by the producer.
    pub published: u64,
    /// ADUs delivered to subscribers.
    pub delivered: u64,
    /// ADUs on their way, or not yet reported to the publisher.
    pub pending: u64,
    /// Dropped ADUs.
    pub losses: Vec<LossStatus>,
}

/// ADUs that were dropped at one node for one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LossStatus {
    /// The name of the node; the drop was on it, or on its link to the next one.
    pub hop: String,
    /// The cause.
    pub cause: &'static str,
    /// The least and the largest importance of the band.
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
    /// The plan's epoch; 0 while none is in force.
    pub epoch: u32,
    /// `active`, `deploying` or `failed`.
    pub state: &'static str,
    /// Why it failed, or why only a part of the stream arrives, as a sentence.
    pub reason: Option<String>,
    /// The plan in force, unless the stream is unplanned.
    pub report: Option<Report>,
    /// The report as text.
    pub explanation: Option<String>,
}

/// A part of a plan that runs on this node.
#[derive(Clone, Debug, Serialize)]
pub struct RouteStatus {
    /// The stream's name.
    pub stream: StreamName,
    /// The plan's epoch.
    pub epoch: u32,
    /// The node from which ADUs arrive.
    pub previous: String,
    /// The node to which they go; `None` for subscribers here.
    pub next: Option<String>,
    /// The adapters in order.
    pub adapters: Vec<String>,
}
