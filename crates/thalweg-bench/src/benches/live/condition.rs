//! The line between the two ends: its round-trip time and its queue.
//!
//! The rate is always 10 Mbit/s in both directions. The drop-tail queue is sized in bandwidth-delay
//! products, the usual rule for routers: with five of them a full queue adds five round trips.

use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_planner::model::{Link, Node, NodeName, World};

/// Rate of the line in each direction: spec §3(b).
pub(super) const RATE: Bitrate = Bitrate::from_kbps(10_000);

/// The parameters of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Condition {
    /// Round-trip time of an empty line, ms.
    rtt_ms: u64,
    /// Size of the queue, in bandwidth-delay products.
    queue_bdp: u64,
}

impl Condition {
    /// The conditions of BM-L1.
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

    /// Returns the one-way propagation delay.
    pub(super) const fn delay(self) -> Duration {
        Duration::from_micros(self.rtt_ms * 500)
    }

    /// Returns the latency of an ADU of this length over the empty line: serialization delay, then
    /// propagation delay.
    pub(super) fn idle(self, bytes: usize) -> Duration {
        self.delay() + RATE.time_for(DataSize::from_bytes(bytes as u64))
    }

    /// Returns the size of the queue.
    pub(super) const fn queue(self) -> DataSize {
        DataSize::from_bytes(RATE.as_bps() / 8 * self.rtt_ms * self.queue_bdp / 1_000)
    }

    /// Returns a world of two nodes with this many such lines between them.
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

/// Returns the name of the sending node.
pub(super) fn sender() -> NodeName {
    "sender".parse().expect("a valid name")
}

/// Returns the name of the receiving node.
pub(super) fn receiver() -> NodeName {
    "receiver".parse().expect("a valid name")
}
