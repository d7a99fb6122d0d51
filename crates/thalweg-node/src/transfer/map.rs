//! The part of a node's status that a transfer needs.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use serde::Deserialize;
use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::units::Bitrate;

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
    /// The rights of its grant; `None` in a fabric without an owner.
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

/// The plan of a stream of this node for one sink.
#[derive(Debug, Deserialize)]
struct Plan {
    stream: StreamName,
    sink: String,
    sink_key: NodeId,
    /// 0 while no plan is in force.
    epoch: u32,
    reason: Option<String>,
}

impl Map {
    /// Requests the status from a node.
    pub(super) async fn fetch(socket: &Path) -> Result<Self, LocalError> {
        let status = Client::connect(socket).await?.status().await?;
        serde_json::from_value(status).map_err(|error| LocalError::Gone(error.into()))
    }

    /// Returns the key of the node that was asked.
    pub(super) const fn own(&self) -> NodeId {
        self.node.key
    }

    /// Checks that the node may publish and subscribe, which both ends of a transfer do.
    pub(super) fn check_rights(&self) -> Result<(), TransferError> {
        let Some(rights) = &self.node.rights else {
            return Ok(());
        };
        let is_missing = |right: &&str| !rights.iter().any(|held| held == right);
        match ["publish", "subscribe"].into_iter().find(is_missing) {
            None => Ok(()),
            Some(right) => Err(TransferError::Rights { right }),
        }
    }

    /// Returns the key of a node, given by name or key.
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

    /// Returns a node's display name.
    pub(super) fn name(&self, key: NodeId) -> String {
        let node = self.nodes.iter().find(|node| node.key == key);
        node.map_or_else(|| key.short(), |node| node.name.clone())
    }

    /// Returns the announced streams.
    pub(super) fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Returns a stream by its id if it is announced under this name.
    pub(super) fn announced(&self, stream: StreamId, name: &StreamName) -> Option<&Stream> {
        let is_it = |there: &&Stream| there.id() == Some(stream) && there.name == *name;
        self.streams.iter().find(is_it)
    }

    /// Returns the id of a stream.
    pub(super) fn stream(&self, name: &StreamName, publisher: NodeId) -> Option<StreamId> {
        let is_it = |there: &&Stream| there.name == *name && there.publisher_key == publisher;
        self.streams.iter().find(is_it)?.id()
    }

    /// Returns the names of the sinks that have asked for a stream of this node and are not served,
    /// with the reasons.
    pub(super) fn unserved(&self, name: &StreamName) -> impl Iterator<Item = (&str, &str)> {
        let plans = self.plans.iter().filter(move |plan| plan.stream == *name);
        plans.filter_map(|plan| Some((plan.sink.as_str(), plan.reason.as_deref()?)))
    }

    /// Returns the sinks to which a stream of this node is sent now.
    pub(super) fn served(&self, name: &StreamName) -> impl Iterator<Item = NodeId> {
        let plans = self.plans.iter().filter(move |plan| plan.stream == *name);
        let in_force = plans.filter(|plan| plan.epoch > 0);
        in_force.map(|plan| plan.sink_key)
    }

    /// Returns whether a path of links leads to a node.
    pub(super) fn is_reached(&self, node: NodeId) -> bool {
        self.shortest_paths()
            .0
            .contains_key(self.name(node).as_str())
    }

    /// Returns the rates of the hops to a node. The rates of distant links are unknown here, so
    /// each hop is assumed to be as slow as the first. An unreachable node counts as a neighbour.
    pub(super) fn hops(&self, target: NodeId) -> Vec<Option<Bitrate>> {
        let (shortest_paths, _) = self.shortest_paths();
        self.hops_of(&shortest_paths, &self.name(target))
    }

    /// Returns the rates of the hops to the most distant node.
    pub(super) fn hops_longest(&self) -> Vec<Option<Bitrate>> {
        let (shortest_paths, last) = self.shortest_paths();
        self.hops_of(&shortest_paths, last)
    }

    /// Returns each reachable node's predecessor on a shortest path, and the most distant node.
    fn shortest_paths(&self) -> (BTreeMap<&str, &str>, &str) {
        let by_name: BTreeMap<&str, &Node> = self
            .nodes
            .iter()
            .map(|node| (node.name.as_str(), node))
            .collect();
        let mut last = self.node.name.as_str();
        let mut shortest_paths: BTreeMap<&str, &str> = BTreeMap::from([(last, "")]);
        let mut next = VecDeque::from([last]);
        while let Some(at) = next.pop_front() {
            last = at;
            for there in by_name
                .get(at)
                .into_iter()
                .flat_map(|node| &node.neighbours)
            {
                if !shortest_paths.contains_key(there.as_str()) {
                    shortest_paths.insert(there, at);
                    next.push_back(there);
                }
            }
        }
        (shortest_paths, last)
    }

    fn hops_of(&self, shortest_paths: &BTreeMap<&str, &str>, goal: &str) -> Vec<Option<Bitrate>> {
        let mut hops = 0;
        let (mut at, mut first) = (goal, goal);
        while let Some(before) = shortest_paths.get(at).filter(|before| !before.is_empty()) {
            hops += 1;
            first = at;
            at = before;
        }
        let link = self.links.iter().find(|link| link.name == first);
        vec![link.and_then(Link::rate); hops.max(1)]
    }
}

impl Link {
    /// Returns its configured rate, else the estimated one.
    fn rate(&self) -> Option<Bitrate> {
        let sendable = || self.outbox.as_ref().and_then(|outbox| outbox.sendable_bps);
        let rate = self.rate_bps.or_else(sendable).or(self.window_bps)?;
        Some(Bitrate::from_bps(rate))
    }
}

impl Stream {
    /// Returns its id: eight bytes on the wire.
    pub(super) fn id(&self) -> Option<StreamId> {
        u64::from_str_radix(&self.id, 16).ok().map(StreamId)
    }
}
