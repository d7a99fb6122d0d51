//! A world: what planner, simulator, testbed and demo are given.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{
    AdapterName, Catalogue, Change, Declaration, Edge, Event, LinkChange, NodeIndex, NodeName,
    Stream, Topology, Weights, text,
};
use crate::id::StreamName;
use crate::limits::ADAPTERS_PER_NODE_MAX;
use crate::time::Duration;
use crate::units::{Bitrate, DataSize, Ratio};

/// Nodes, links, streams, weights and events, by name, as a world file has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct World {
    /// How long it runs. Omitted: [`World::LENGTH_DEFAULT`].
    #[serde(
        default,
        with = "text::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub length: Option<Duration>,
    /// What things cost.
    #[serde(default)]
    pub weights: Weights,
    /// The adapters that are declared beside the standard ones, by name.
    #[serde(
        rename = "adapter",
        default,
        deserialize_with = "text::read_adapters",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub adapters: BTreeMap<AdapterName, Declaration>,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Node {
    /// How many adapters a stream may run here. Omitted: as many as a plan may place, for a world that does not speak
    /// of slots does not mean them to be scarce.
    pub slots: u32,
    /// Whether it may see plaintext of a confidential stream. Omitted: it may.
    pub trusted: bool,
    /// The kinds of adapter that it holds. Omitted: every one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapters: Option<Vec<AdapterName>>,
    /// The processor cores that the adapters of one stream may take here. Omitted: as many as they want.
    #[serde(rename = "cpu", skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<f64>,
    /// How far its clock is ahead of the world's. Omitted: not at all.
    #[serde(
        deserialize_with = "text::read_duration",
        serialize_with = "text::write_duration"
    )]
    pub clock_offset: Duration,
    /// How much faster its clock runs than the world's, in millionths; negative: slower. Omitted: 0.
    pub clock_drift_ppm: i32,
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
    /// Up to how much longer a packet takes, evenly distributed. Omitted: nothing.
    #[serde(
        default,
        deserialize_with = "text::read_duration",
        serialize_with = "text::write_duration"
    )]
    pub jitter: Duration,
    /// Whether packets keep their order whatever the jitter. Omitted: they do; who reads worlds need not know the word otherwise.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub ordered: bool,
    /// The share of packets that are held back and so overtaken. Omitted: none.
    #[serde(default)]
    pub reorder: Ratio,
    /// The share of packets it loses in the mean. Omitted: none.
    #[serde(default)]
    pub loss: Ratio,
    /// How many packets a burst of losses lasts in the mean. Omitted: 1, each packet is lost or not by itself.
    #[serde(default = "one")]
    pub burst: f64,
    /// The share of packets lost inside a burst. Omitted: all.
    #[serde(default = "all")]
    pub burst_loss: Ratio,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

fn one() -> f64 {
    1.0
}

fn all() -> Ratio {
    Ratio::ONE
}

fn queue_default() -> DataSize {
    Edge::QUEUE_DEFAULT
}

impl Default for Node {
    fn default() -> Self {
        Self {
            slots: ADAPTERS_PER_NODE_MAX as u32,
            trusted: true,
            adapters: None,
            cpu_cores: None,
            clock_offset: Duration::ZERO,
            clock_drift_ppm: 0,
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

    /// Returns a snapshot with the standard adapters and those that are declared.
    pub fn with_adapters(
        topology: Topology,
        weights: Weights,
        stream: Stream,
        declarations: &BTreeMap<AdapterName, Declaration>,
    ) -> Self {
        let catalogue = Catalogue::declared(&weights, &stream, declarations);
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
    /// How long a world runs that does not say so: a second or two to set up, the rest to see.
    pub const LENGTH_DEFAULT: Duration = Duration::from_secs(10);

    /// Returns how long it runs.
    pub fn length(&self) -> Duration {
        self.length.unwrap_or(Self::LENGTH_DEFAULT)
    }

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
            let index = topology.add_node(name.clone(), node.slots, node.trusted);
            let place = topology.node_mut(index);
            place.held.clone_from(&node.adapters);
            place.cpu_cores = node.cpu_cores;
            places.insert(name, index);
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
        let (topology, weights) = (self.topology(), self.weights);
        Some(Snapshot::with_adapters(
            topology,
            weights,
            stream,
            &self.adapters,
        ))
    }

    /// Returns what a planner needs for each stream and each of its sinks, in their order; all share one network.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        let topology = self.topology();
        let apart = |stream: &Stream| {
            let snapshot = Snapshot::with_adapters(
                topology.clone(),
                self.weights,
                stream.clone(),
                &self.adapters,
            );
            let one = |sink: &NodeName| snapshot.clone().for_sink(sink.clone());
            stream.to.iter().map(one).collect::<Vec<_>>()
        };
        self.streams.iter().flat_map(apart).collect()
    }

    /// Returns the world as its events have made it by a time after the start, that moment included.
    ///
    /// The events stay listed. Events of one moment apply in the order of the world. What happens to nodes is not shown:
    /// a planner learns of it by their links.
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
            let Change::Link { ends, set } = &event.change else {
                continue;
            };
            for link in &mut world.links {
                if link.joins(ends) {
                    link.apply(set);
                }
            }
        }
        world
    }
}

impl Link {
    /// Returns a link of this rate with every default.
    pub const fn new(ends: [NodeName; 2], rate: Bitrate) -> Self {
        Self {
            ends,
            rate,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            ordered: true,
            reorder: Ratio::ZERO,
            loss: Ratio::ZERO,
            burst: 1.0,
            burst_loss: Ratio::ONE,
            secure: true,
            queue: Edge::QUEUE_DEFAULT,
            up: true,
        }
    }

    /// Returns whether this link joins these two nodes, in either order.
    pub fn joins(&self, ends: &[NodeName; 2]) -> bool {
        let [a, b] = ends;
        self.ends == *ends || (self.ends[0] == *b && self.ends[1] == *a)
    }

    /// Takes on new values.
    pub fn apply(&mut self, set: &LinkChange) {
        self.rate = set.rate.unwrap_or(self.rate);
        self.delay = set.delay.unwrap_or(self.delay);
        self.jitter = set.jitter.unwrap_or(self.jitter);
        self.reorder = set.reorder.unwrap_or(self.reorder);
        self.loss = set.loss.unwrap_or(self.loss);
        self.burst = set.burst.unwrap_or(self.burst);
        self.up = set.up.unwrap_or(self.up);
    }
}
