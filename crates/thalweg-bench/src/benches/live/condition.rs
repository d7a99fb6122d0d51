//! The line between the two ends: its round trip and its queue.
//!
//! *The idea.* The rate is the same everywhere, 10 Mbit/s both ways. The queue is drop-tail and counted in
//! bandwidth-delay products, as routers are said to be built: with five of them a full queue adds five round trips.

use thalweg_core::model::{Link, Node, NodeName, World};
use thalweg_core::time::Duration;
use thalweg_core::units::{Bitrate, DataSize};

/// Of the line, each way: spec §3(b).
pub(super) const RATE: Bitrate = Bitrate::from_kbps(10_000);

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Condition {
    /// Round trip of an empty line, in milliseconds.
    rtt_ms: u64,
    /// Room of the queue, in bandwidth-delay products.
    queue_bdp: u64,
}

impl Condition {
    /// Those of BM-L1.
    pub(super) const ALL: [Self; 4] = [
        Self::new(50, 1),
        Self::new(50, 5),
        Self::new(100, 1),
        Self::new(100, 5),
    ];

    pub(super) const fn new(rtt_ms: u64, queue_bdp: u64) -> Self {
        Self { rtt_ms, queue_bdp }
    }

    /// Returns its name in metrics.
    pub(super) fn name(self) -> String {
        format!("rtt{}_bdp{}", self.rtt_ms, self.queue_bdp)
    }

    /// Returns what a bit takes from one end to the other.
    pub(super) const fn delay(self) -> Duration {
        Duration::from_micros(self.rtt_ms * 500)
    }

    /// Returns what an ADU of this length takes over the empty line: its bits, then the delay.
    pub(super) fn idle(self, bytes: usize) -> Duration {
        self.delay() + RATE.time_for(DataSize::from_bytes(bytes as u64))
    }

    /// Returns the queue's room.
    pub(super) const fn queue(self) -> DataSize {
        DataSize::from_bytes(RATE.as_bps() / 8 * self.rtt_ms * self.queue_bdp / 1_000)
    }

    /// Returns the world of two nodes and so many such lines between them.
    pub(super) fn world(self, lines: usize) -> World {
        let mut world = World::default();
        let ends = [sender(), receiver()];
        for node in &ends {
            world.nodes.insert(node.clone(), Node::default());
        }
        let mut link = Link::new(ends, RATE);
        link.delay = self.delay();
        link.queue = self.queue();
        world.links = vec![link; lines];
        world
    }
}

/// Returns the name of the node from which everything comes.
pub(super) fn sender() -> NodeName {
    "sender".parse().expect("a valid name")
}

/// Returns the name of the node to which everything goes.
pub(super) fn receiver() -> NodeName {
    "receiver".parse().expect("a valid name")
}
