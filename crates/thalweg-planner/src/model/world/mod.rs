//! A world: the input of planner, simulator, testbed and demo.

mod check;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize};
use thalweg_base::id::StreamName;
use thalweg_base::limits::ADAPTERS_PER_NODE_MAX;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize, Ratio};

use super::{
    AdapterName, Catalogue, Change, Declaration, Edge, Event, LinkChange, NodeIndex, NodeName,
    Stream, Topology, Weights, text,
};

/// Nodes, links, streams, weights and events, by name, as in a world file.
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
    /// The weights of the cost.
    #[serde(default)]
    pub weights: Weights,
    /// The adapters declared beside the standard ones, by name.
    #[serde(
        rename = "adapter",
        default,
        deserialize_with = "read_adapters",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub adapters: BTreeMap<AdapterName, Declaration>,
    /// The nodes by name.
    #[serde(rename = "node", default, deserialize_with = "read_nodes")]
    pub nodes: BTreeMap<NodeName, Node>,
    /// The links between them.
    #[serde(rename = "link", default)]
    pub links: Vec<Link>,
    /// The streams.
    #[serde(rename = "stream", default)]
    pub streams: Vec<Stream>,
    /// Changes while the world runs.
    #[serde(rename = "at", default)]
    pub events: Vec<Event>,
}

/// A node of a world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Node {
    /// Number of adapters that a stream may run here. Omitted: the maximum, as a world without
    /// slots does not mean them to be scarce.
    pub slots: u32,
    /// Whether it may see plaintext of a confidential stream. Omitted: yes.
    pub trusted: bool,
    /// The kinds of adapter that it holds. Omitted: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapters: Option<Vec<AdapterName>>,
    /// CPU for the adapters of one stream, in cores. Omitted: unlimited.
    #[serde(rename = "cpu", skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<f64>,
    /// How far its clock is ahead of the world's. Omitted: not at all.
    #[serde(
        deserialize_with = "text::read_duration",
        serialize_with = "text::write_duration"
    )]
    pub clock_offset: Duration,
    /// How much faster its clock runs than the world's, in ppm; negative: slower. Omitted: 0.
    pub clock_drift_ppm: i32,
    /// How long its processor takes to hand one copy of an ADU to a link. Omitted: no time, and not
    /// written then, so that older readers accept the world.
    #[serde(
        deserialize_with = "text::read_duration",
        serialize_with = "text::write_duration",
        skip_serializing_if = "is_zero"
    )]
    pub copy_time: Duration,
}

/// A link of a world, symmetric in both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The two nodes that it joins.
    pub ends: [NodeName; 2],
    /// Rate, per direction.
    pub rate: Bitrate,
    /// Propagation delay, one way. Omitted: none.
    #[serde(
        default,
        deserialize_with = "text::read_duration",
        serialize_with = "text::write_duration"
    )]
    pub delay: Duration,
    /// Maximum extra delay of a packet, uniformly distributed. Omitted: none.
    #[serde(
        default,
        deserialize_with = "text::read_duration",
        serialize_with = "text::write_duration"
    )]
    pub jitter: Duration,
    /// Whether packets keep their order despite jitter. Omitted: yes, and not written then, so that
    /// older readers accept the world.
    #[serde(default = "default_true", skip_serializing_if = "is_true")]
    pub ordered: bool,
    /// The share of packets that are held back and overtaken. Omitted: none.
    #[serde(default)]
    pub reorder: Ratio,
    /// Mean share of packets lost. Omitted: none.
    #[serde(default)]
    pub loss: Ratio,
    /// Mean length of a burst of losses, in packets. Omitted: 1, so that losses are independent.
    #[serde(default = "one_packet")]
    pub burst: f64,
    /// The share of packets lost inside a burst. Omitted: all.
    #[serde(default = "all_lost")]
    pub burst_loss: Ratio,
    /// Whether it may carry plaintext of a confidential stream. Omitted: yes.
    #[serde(default = "default_true")]
    pub secure: bool,
    /// Bytes queued before it drops packets. Omitted: [`Edge::QUEUE_DEFAULT`].
    #[serde(default = "queue_default")]
    pub queue: DataSize,
    /// Whether the link is up. Omitted: yes.
    #[serde(default = "default_true")]
    pub up: bool,
}

/// A planner's input: a network, the weights, one stream, and the adapters.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The network.
    pub topology: Topology,
    /// The weights of the cost.
    pub weights: Weights,
    /// The stream to plan.
    pub stream: Stream,
    /// The adapters.
    pub catalogue: Catalogue,
}

/// Reads nodes by name; see [`text::read_unique`].
fn read_nodes<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<NodeName, Node>, D::Error> {
    text::read_unique(from, "node")
}

/// Reads declared adapters by name; see [`text::read_unique`].
fn read_adapters<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<AdapterName, Declaration>, D::Error> {
    text::read_unique(from, "adapter")
}

fn default_true() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(value: &Duration) -> bool {
    *value == Duration::ZERO
}

fn one_packet() -> f64 {
    1.0
}

fn all_lost() -> Ratio {
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
            copy_time: Duration::ZERO,
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

    /// Returns a snapshot with the standard and the declared adapters.
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

    /// Returns the snapshot with one sink only, for a path planner.
    #[must_use]
    pub fn for_sink(mut self, sink: NodeName) -> Self {
        self.stream.to = alloc::vec![sink];
        self
    }
}

impl World {
    /// The default length of a world: a second or two to set up, the rest to watch.
    pub const LENGTH_DEFAULT: Duration = Duration::from_secs(10);

    /// Returns how long the world runs.
    pub fn length(&self) -> Duration {
        self.length.unwrap_or(Self::LENGTH_DEFAULT)
    }

    /// Returns the stream of this name.
    pub fn stream(&self, name: &StreamName) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.name == *name)
    }

    /// Returns the network, with nodes in the order of their names and links in the order of the
    /// world.
    ///
    /// A link with an unknown end is left out: [`World::faults`] reports it.
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

    /// Returns the planner's input for one stream; `None` if there is no stream of this name.
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

    /// Returns the planner's input for each stream and sink, in their order; all share one network.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        let topology = self.topology();
        let apart = |stream: &Stream| {
            let snapshot = Snapshot::with_adapters(
                topology.clone(),
                self.weights,
                stream.clone(),
                &self.adapters,
            );
            let with_sink = |sink: &NodeName| snapshot.clone().for_sink(sink.clone());
            stream.to.iter().map(with_sink).collect::<Vec<_>>()
        };
        self.streams.iter().flat_map(apart).collect()
    }

    /// Returns the world after its events up to and including this time since the start.
    ///
    /// The events stay listed. Events of the same time apply in the order of the world. Events on
    /// nodes have no effect here: a planner learns of them through the links.
    #[must_use]
    pub fn at(&self, time: Duration) -> Self {
        let mut world = self.clone();
        let mut due: Vec<&Event> = self
            .events
            .iter()
            .filter(|event| event.time <= time)
            .collect();
        // Stable: events of the same time keep the world's order.
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

    /// Applies new values.
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
