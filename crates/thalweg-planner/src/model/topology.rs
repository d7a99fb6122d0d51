//! Nodes and links as dense indices, for planners.
//!
//! *The idea.* Names are looked up once; the search uses small integers and contiguous arrays.
//! Clones share these arrays until one is changed: planning a thousand streams, or a "what if"
//! question, copies no network of 100,000 links.

use alloc::sync::Arc;
use alloc::vec::Vec;

use thalweg_base::limits::ADAPTERS_PER_NODE_MAX;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize, Ratio};

use super::{AdapterName, NodeName};

/// A node's index in a [`Topology`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

/// A link's index in a [`Topology`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkIndex(pub u32);

/// A node of a topology.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Its name.
    pub name: NodeName,
    /// Number of adapters that a stream may run here, at most [`ADAPTERS_PER_NODE_MAX`].
    pub slots: u8,
    /// Whether it may see plaintext of a confidential stream.
    pub trusted: bool,
    /// The kinds of adapter that it holds; `None`: all.
    pub held: Option<Vec<AdapterName>>,
    /// CPU for the adapters of one stream, in cores; `None`: unlimited.
    pub cpu_cores: Option<f64>,
}

/// A link of a topology, symmetric in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// The two nodes that it joins.
    pub ends: [NodeIndex; 2],
    /// Rate, per direction.
    pub rate: Bitrate,
    /// Propagation delay, one way.
    pub delay: Duration,
    /// Share of packets lost.
    pub loss: Ratio,
    /// Whether it may carry plaintext of a confidential stream.
    pub secure: bool,
    /// Bytes queued before it drops packets.
    pub queue: DataSize,
    /// Whether the link is up.
    pub up: bool,
}

/// Nodes, and links between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    places: Arc<Vec<Place>>,
    edges: Arc<Vec<Edge>>,
}

impl Edge {
    /// The default queue of a link: the usual order of magnitude of a home router or shaper.
    pub const QUEUE_DEFAULT: DataSize = thalweg_netem::QUEUE_DEFAULT;

    /// Returns a link of this rate that is up, secure, without delay or loss, with the default
    /// queue.
    pub const fn new(ends: [NodeIndex; 2], rate: Bitrate) -> Self {
        Self {
            ends,
            rate,
            delay: Duration::ZERO,
            loss: Ratio::ZERO,
            secure: true,
            queue: Self::QUEUE_DEFAULT,
            up: true,
        }
    }

    /// Returns the end that is not `node`.
    pub fn far_end(&self, node: NodeIndex) -> NodeIndex {
        self.ends[usize::from(self.ends[0] == node)]
    }
}

impl Place {
    /// Returns whether the node can run an adapter of this kind.
    pub fn holds(&self, kind: AdapterName) -> bool {
        self.held.as_ref().is_none_or(|held| held.contains(&kind))
    }
}

impl Topology {
    /// Adds a node with all adapters and unlimited CPU; slots are capped at
    /// [`ADAPTERS_PER_NODE_MAX`].
    pub fn add_node(&mut self, name: NodeName, slots: u32, trusted: bool) -> NodeIndex {
        let slots = slots.min(ADAPTERS_PER_NODE_MAX as u32) as u8;
        Arc::make_mut(&mut self.places).push(Place {
            name,
            slots,
            trusted,
            held: None,
            cpu_cores: None,
        });
        NodeIndex(self.places.len() as u32 - 1)
    }

    /// Adds a link.
    ///
    /// Fails   panics if an end is not of this topology (a caller's bug)
    pub fn add_link(&mut self, edge: Edge) -> LinkIndex {
        let nodes = self.places.len();
        assert!(
            edge.ends.iter().all(|end| (end.0 as usize) < nodes),
            "link {:?} ends outside {nodes} nodes",
            edge.ends
        );
        Arc::make_mut(&mut self.edges).push(edge);
        LinkIndex(self.edges.len() as u32 - 1)
    }

    /// Returns all nodes, by index.
    pub fn nodes(&self) -> &[Place] {
        &self.places
    }

    /// Returns all links, by index.
    pub fn links(&self) -> &[Edge] {
        &self.edges
    }

    /// Returns all links, to be changed.
    pub fn links_mut(&mut self) -> &mut [Edge] {
        Arc::make_mut(&mut self.edges).as_mut_slice()
    }

    /// Returns a node.
    pub fn node(&self, index: NodeIndex) -> &Place {
        &self.places[index.0 as usize]
    }

    /// Returns a node, to be changed.
    pub fn node_mut(&mut self, index: NodeIndex) -> &mut Place {
        &mut Arc::make_mut(&mut self.places)[index.0 as usize]
    }

    /// Returns a link.
    pub fn link(&self, index: LinkIndex) -> &Edge {
        &self.edges[index.0 as usize]
    }

    /// Returns the node of this name.
    ///
    /// Cost    O(nodes)
    pub fn find(&self, name: &NodeName) -> Option<NodeIndex> {
        let at = self.places.iter().position(|place| place.name == *name)?;
        Some(NodeIndex(at as u32))
    }

    /// Returns whether a confidential stream must be sealed on a link: it is insecure, or an end is
    /// untrusted.
    ///
    /// Source  docs/concepts/planner.md §2
    pub fn must_seal(&self, edge: &Edge) -> bool {
        !edge.secure || edge.ends.iter().any(|end| !self.node(*end).trusted)
    }
}
