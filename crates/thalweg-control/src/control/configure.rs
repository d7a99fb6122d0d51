//! Changes of the configured peers while the node runs.
//!
//! *The idea.* A peer is what the configuration says of it: name, trust, rate of the link. All of
//! it is read when it matters, so a changed peer replaces the old one, and what depends on it is
//! recomputed: the gauge of its link, this node's record, the plans of its sources.
//!
//! *What it does not do.* It admits no node and dials none: the driver does.

use thalweg_base::id::NodeId;
use thalweg_base::time::Instant;
use thalweg_base::units::Bitrate;

use super::{Controller, Keys, Peer};

impl Controller {
    /// Handles the configuration of a new or changed peer.
    pub fn handle_peer(&mut self, peer: Peer, now: Instant, keys: &mut dyn Keys) {
        let (key, rate) = (peer.key, peer.rate);
        self.peers.insert(key, peer);
        self.configure_link(key, rate, now, keys);
    }

    /// Handles the removal of a peer from the configuration.
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
