//! A world: what planner, simulator, testbed and demo are given.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Catalogue, Edge, Event, NodeIndex, NodeName, Stream, Topology, Weights, text};
use crate::id::StreamName;
use crate::limits::ADAPTERS_PER_NODE_MAX;
use crate::time::Duration;
use crate::units::{Bitrate, DataSize, Ratio};

/// Nodes, links, streams, weights and events, by name, as a world file has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct World {
    /// What things cost.
    #[serde(default)]
    pub weights: Weights,
    /// The nodes by name.
    #[serde(rename = "node", default, deserialize_with = "text::read_nodes")]
    pub nodes: BTreeMap<NodeName, Node>,
    /// The links between them.
    #[serde(rename = "link", default)]
    pub links: Vec<Link>,
    /// The streams.
    #[serde(rename = "stream", default)]
    pub streams: Vec<Stream>,
    /// What changes while the world runs.
    #[serde(rename = "at", default)]
    pub events: Vec<Event>,
}

/// A node of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Node {
    /// How many adapters a stream may run here. Omitted: as many as a plan may place, for a world that does not speak
    /// of slots does not mean them to be scarce.
    pub slots: u32,
    /// Whether it may see plaintext of a confidential stream. Omitted: it may.
    pub trusted: bool,
}

/// A link of a world; it carries both ways alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The two nodes it joins.
    pub ends: [NodeName; 2],
    /// What it can carry, each way.
    pub rate: Bitrate,
    /// How long a bit takes, one way. Omitted: no time.
    #[serde(
        default,
        deserialize_with = "text::read_duration",
        serialize_with = "text::write_duration"
    )]
    pub delay: Duration,
    /// The share of packets it loses. Omitted: none.
    #[serde(default)]
    pub loss: Ratio,
    /// Whether it may carry plaintext of a confidential stream. Omitted: it may.
    #[serde(default = "yes")]
    pub secure: bool,
    /// What it queues before it drops. Omitted: [`Edge::QUEUE_DEFAULT`].
    #[serde(default = "queue_default")]
    pub queue: DataSize,
    /// Whether it works. Omitted: it does.
    #[serde(default = "yes")]
    pub up: bool,
}

/// What a planner is given: a network, the weights, one stream, and the adapters there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The network.
    pub topology: Topology,
    /// What things cost.
    pub weights: Weights,
    /// The stream to be planned.
    pub stream: Stream,
    /// The adapters there are.
    pub catalogue: Catalogue,
}

fn yes() -> bool {
    true
}

fn queue_default() -> DataSize {
    Edge::QUEUE_DEFAULT
}

impl Default for Node {
    fn default() -> Self {
        Self {
            slots: ADAPTERS_PER_NODE_MAX as u32,
            trusted: true,
        }
    }
}

impl Snapshot {
    /// Returns a snapshot with the standard adapters.
    pub fn new(topology: Topology, weights: Weights, stream: Stream) -> Self {
        let catalogue = Catalogue::standard(&weights, &stream);
        Self {
            topology,
            weights,
            stream,
            catalogue,
        }
    }

    /// Returns the same with one sink only, for a planner of paths.
    #[must_use]
    pub fn for_sink(mut self, sink: NodeName) -> Self {
        self.stream.to = alloc::vec![sink];
        self
    }
}

impl World {
    /// Returns the stream of this name.
    pub fn stream(&self, name: &StreamName) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.name == *name)
    }

    /// Returns the network; nodes are in the order of their names, links in the order of the world.
    ///
    /// A link whose end is no node of this world is left out: [`World::faults`] reports it.
    pub fn topology(&self) -> Topology {
        let mut topology = Topology::default();
        let mut places: BTreeMap<&NodeName, NodeIndex> = BTreeMap::new();
        for (name, node) in &self.nodes {
            places.insert(
                name,
                topology.add_node(name.clone(), node.slots, node.trusted),
            );
        }
        for link in &self.links {
            let [Some(a), Some(b)] = [&link.ends[0], &link.ends[1]].map(|end| places.get(end))
            else {
                continue;
            };
            topology.add_link(Edge {
                ends: [*a, *b],
                rate: link.rate,
                delay: link.delay,
                loss: link.loss,
                secure: link.secure,
                queue: link.queue,
                up: link.up,
            });
        }
        topology
    }

    /// Returns what a planner needs for one stream, or `None` if there is no stream of this name.
    pub fn snapshot(&self, name: &StreamName) -> Option<Snapshot> {
        let stream = self.stream(name)?.clone();
        Some(Snapshot::new(self.topology(), self.weights, stream))
    }

    /// Returns the world as its events have made it by a time after the start, that moment included.
    ///
    /// The events stay listed. Events of one moment apply in the order of the world.
    #[must_use]
    pub fn at(&self, time: Duration) -> Self {
        let mut world = self.clone();
        let mut due: Vec<&Event> = self
            .events
            .iter()
            .filter(|event| event.time <= time)
            .collect();
        due.sort_by_key(|event| event.time);
        for event in due {
            for link in &mut world.links {
                if link.joins(&event.link) {
                    link.apply(event);
                }
            }
        }
        world
    }
}

impl Link {
    /// Returns whether this link joins these two nodes, in either order.
    pub fn joins(&self, ends: &[NodeName; 2]) -> bool {
        let [a, b] = ends;
        self.ends == *ends || (self.ends[0] == *b && self.ends[1] == *a)
    }

    fn apply(&mut self, event: &Event) {
        let set = &event.set;
        self.rate = set.rate.unwrap_or(self.rate);
        self.delay = set.delay.unwrap_or(self.delay);
        self.loss = set.loss.unwrap_or(self.loss);
        self.up = set.up.unwrap_or(self.up);
    }
}
