//! The part of a node's status that `thalweg top` shows.
//!
//! *The idea.* The shape is that of `thalweg_node::Status`, parsed leniently: a field that an older
//! node does not send has its default, and an unknown field is ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A node's status at one moment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Reading {
    pub node: Node,
    pub uptime_seconds: Option<f64>,
    pub links: Vec<Link>,
    pub streams: Vec<Stream>,
    pub routes: Vec<Route>,
    pub ends: Vec<End>,
}

/// An input or output of the node.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct End {
    pub kind: String,
    pub name: String,
    pub state: String,
    pub adus: u64,
    pub restarts: u64,
    pub reason: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    pub name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Link {
    pub key: String,
    pub name: String,
    pub state: String,
    pub reason: Option<String>,
    pub rtt_ms: Option<f64>,
    pub loss: Option<f64>,
    pub sent_bps: Option<u64>,
    pub outbox: Option<Outbox>,
}

/// The queue of a link.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Outbox {
    pub sendable_bps: Option<u64>,
    pub waiting_adus: u64,
    pub waiting_bytes: u64,
    pub by_importance: Vec<Band>,
    pub latency_ms: Option<Latency>,
    pub dropped: BTreeMap<String, u64>,
    pub flows: Vec<Flow>,
}

/// A band of importance, starting at `from`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Band {
    pub from: u8,
    pub adus: u64,
    pub bytes: u64,
}

/// From sending to acknowledgement, over the last ten seconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Latency {
    pub adus: u64,
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// A stream under one plan, in an outbox.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Flow {
    pub stream: String,
    pub epoch: u32,
    pub weight: u8,
    pub adus: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Stream {
    pub name: String,
    pub id: String,
    pub publisher: String,
    pub rate_bps: u64,
    pub counts: Counts,
    pub ledger: Option<Ledger>,
}

/// Counts of a stream's ADUs on this node since it was published.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Counts {
    pub sent: u64,
    pub acknowledged: u64,
    pub unconfirmed: u64,
    pub delivered: u64,
    pub dropped: BTreeMap<String, u64>,
}

/// Losses of a stream on all nodes of its path; known only at its source.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Ledger {
    pub losses: Vec<Loss>,
}

/// ADUs lost at one node, or on its link to the next one, for one cause; with their range of importance.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Loss {
    pub hop: String,
    pub cause: String,
    pub importance: [u8; 2],
    pub adus: u64,
}

/// A part of a plan on this node; without a next node the plan ends here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Route {
    pub stream: String,
    pub next: Option<String>,
}
