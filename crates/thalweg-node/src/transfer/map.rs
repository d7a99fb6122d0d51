//! What a node's status says that a transfer wants to know.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use serde::Deserialize;
use thalweg_core::id::{NodeId, StreamId, StreamName};
use thalweg_core::units::Bitrate;

use super::TransferError;
use crate::local::{Client, LocalError};

/// A node's view of the fabric.
#[derive(Debug, Deserialize)]
pub(super) struct Map {
    node: Node,
    nodes: Vec<Node>,
    links: Vec<Link>,
    streams: Vec<Stream>,
    plans: Vec<Plan>,
}

#[derive(Debug, Deserialize)]
struct Node {
    key: NodeId,
    name: String,
    /// What its grant gives it; none where the fabric has no owner.
    rights: Option<Vec<String>>,
    neighbours: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Link {
    name: String,
    rate_bps: Option<u64>,
    window_bps: Option<u64>,
    outbox: Option<Outbox>,
}

#[derive(Debug, Deserialize)]
struct Outbox {
    sendable_bps: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Stream {
    pub(super) name: StreamName,
    id: String,
    pub(super) publisher: String,
    pub(super) publisher_key: NodeId,
}

/// How a stream of this node reaches one sink.
#[derive(Debug, Deserialize)]
struct Plan {
    stream: StreamName,
    sink: String,
    sink_key: NodeId,
    /// 0 while none is in force.
    epoch: u32,
    reason: Option<String>,
}

impl Map {
    /// Asks a node.
    pub(super) async fn look(socket: &Path) -> Result<Self, LocalError> {
        let status = Client::connect(socket).await?.status().await?;
        serde_json::from_value(status).map_err(|error| LocalError::Gone(error.into()))
    }

    /// Returns the key of the node that was asked.
    pub(super) const fn own(&self) -> NodeId {
        self.node.key
    }

    /// Checks that the node that was asked may publish and subscribe: both ends of a transfer do both.
    pub(super) fn allow(&self) -> Result<(), TransferError> {
        let Some(rights) = &self.node.rights else {
            return Ok(());
        };
        let is_missing = |right: &&str| !rights.iter().any(|held| held == right);
        match ["publish", "subscribe"].into_iter().find(is_missing) {
            None => Ok(()),
            Some(right) => Err(TransferError::Rights { right }),
        }
    }

    /// Returns the key of a node by its name, or by its key.
    pub(super) fn find(&self, word: &str) -> Result<NodeId, TransferError> {
        let nodes = self.nodes.iter().map(|node| (node.key, &node.name));
        let sentence = match NodeId::meant(word, nodes)[..] {
            [key] => return Ok(key),
            [] => format!(
                "no node `{word}` is on the map: `thalweg ls` shows those that are, with their keys"
            ),
            _ => format!(
                "several nodes are called `{word}`: give the digits of the key that `thalweg ls` shows"
            ),
        };
        Err(TransferError::Node(sentence))
    }

    /// Returns what people call a node.
    pub(super) fn name(&self, key: NodeId) -> String {
        let node = self.nodes.iter().find(|node| node.key == key);
        node.map_or_else(|| key.short(), |node| node.name.clone())
    }

    /// Returns the streams that are announced.
    pub(super) fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Returns a stream by its id, if it is announced under this name.
    pub(super) fn announced(&self, stream: StreamId, name: &StreamName) -> Option<&Stream> {
        let is_it = |there: &&Stream| there.id() == Some(stream) && there.name == *name;
        self.streams.iter().find(is_it)
    }

    /// Returns the id of a stream.
    pub(super) fn stream(&self, name: &StreamName, publisher: NodeId) -> Option<StreamId> {
        let is_it = |there: &&Stream| there.name == *name && there.publisher_key == publisher;
        self.streams.iter().find(is_it)?.id()
    }

    /// Returns who has asked for a stream of this node and is not served, by their names, and why not.
    pub(super) fn unserved(&self, name: &StreamName) -> impl Iterator<Item = (&str, &str)> {
        let plans = self.plans.iter().filter(move |plan| plan.stream == *name);
        plans.filter_map(|plan| Some((plan.sink.as_str(), plan.reason.as_deref()?)))
    }

    /// Returns whom a stream of this node is sent to now.
    pub(super) fn served(&self, name: &StreamName) -> impl Iterator<Item = NodeId> {
        let plans = self.plans.iter().filter(move |plan| plan.stream == *name);
        let in_force = plans.filter(|plan| plan.epoch > 0);
        in_force.map(|plan| plan.sink_key)
    }

    /// Returns whether some way of links leads to a node.
    pub(super) fn is_reached(&self, node: NodeId) -> bool {
        self.ways().0.contains_key(self.name(node).as_str())
    }

    /// Returns the rates of the hops to a node, as far as they can be told: those of a further link are not known here, so
    /// it is taken to be as slow as the first. A node that is not to be reached is taken for a neighbour.
    pub(super) fn hops(&self, target: NodeId) -> Vec<Option<Bitrate>> {
        let (ways, _) = self.ways();
        self.hops_of(&ways, &self.name(target))
    }

    /// Returns the same of the way to the node furthest away.
    pub(super) fn hops_longest(&self) -> Vec<Option<Bitrate>> {
        let (ways, last) = self.ways();
        self.hops_of(&ways, last)
    }

    /// Returns over which neighbour each node is reached soonest, and the last that is.
    fn ways(&self) -> (BTreeMap<&str, &str>, &str) {
        let by_name: BTreeMap<&str, &Node> = self
            .nodes
            .iter()
            .map(|node| (node.name.as_str(), node))
            .collect();
        let mut last = self.node.name.as_str();
        let mut ways: BTreeMap<&str, &str> = BTreeMap::from([(last, "")]);
        let mut next = VecDeque::from([last]);
        while let Some(at) = next.pop_front() {
            last = at;
            for there in by_name
                .get(at)
                .into_iter()
                .flat_map(|node| &node.neighbours)
            {
                if !ways.contains_key(there.as_str()) {
                    ways.insert(there, at);
                    next.push_back(there);
                }
            }
        }
        (ways, last)
    }

    fn hops_of(&self, ways: &BTreeMap<&str, &str>, goal: &str) -> Vec<Option<Bitrate>> {
        let mut hops = 0;
        let (mut at, mut first) = (goal, goal);
        while let Some(before) = ways.get(at).filter(|before| !before.is_empty()) {
            hops += 1;
            first = at;
            at = before;
        }
        let link = self.links.iter().find(|link| link.name == first);
        vec![link.and_then(Link::rate); hops.max(1)]
    }
}

impl Link {
    /// Returns what it is configured to carry, else what it is estimated to.
    fn rate(&self) -> Option<Bitrate> {
        let sendable = || self.outbox.as_ref().and_then(|outbox| outbox.sendable_bps);
        let rate = self.rate_bps.or_else(sendable).or(self.window_bps)?;
        Some(Bitrate::from_bps(rate))
    }
}

impl Stream {
    /// Returns its eight bytes on the wire.
    pub(super) fn id(&self) -> Option<StreamId> {
        u64::from_str_radix(&self.id, 16).ok().map(StreamId)
    }
}
