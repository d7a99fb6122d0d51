//! What the owner says anew of the nodes that this one knows, while it runs.
//!
//! *The idea.* A peer is what the configuration says of it: a name, trust, the rate of the link. All of it is asked when it matters, so a
//! peer is put in the place of the one before, and what rests on it is made again: the gauge of its link, this node's record, the plans
//! of its sources.
//!
//! *What it does not do.* It lets nobody in and dials nobody: that is the driver's.

use super::{Controller, Keys, Peer};
use crate::id::NodeId;
use crate::time::Instant;
use crate::units::Bitrate;

impl Controller {
    /// Takes in what the owner says now of a node, which may be new.
    pub fn handle_peer(&mut self, peer: Peer, now: Instant, keys: &mut dyn Keys) {
        let (key, rate) = (peer.key, peer.rate);
        self.peers.insert(key, peer);
        self.configure_link(key, rate, now, keys);
    }

    /// Takes in that the owner says nothing more of a node.
    pub fn handle_peer_gone(&mut self, peer: NodeId, now: Instant, keys: &mut dyn Keys) {
        if self.peers.remove(&peer).is_some() {
            self.configure_link(peer, None, now, keys);
        }
    }

    fn configure_link(
        &mut self,
        peer: NodeId,
        rate: Option<Bitrate>,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let gauge = self.links.get_mut(&peer);
        if gauge.is_some_and(|gauge| gauge.set_ceiling(rate)) {
            self.announce(now, keys);
        }
        self.is_changed = true;
        self.settle(now, keys);
    }
}
