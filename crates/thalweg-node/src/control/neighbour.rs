//! Links that go up and down, and their measurements.

use std::collections::BTreeMap;

use thalweg_base::id::NodeId;
use thalweg_base::limits::NEIGHBOURS_MAX;
use thalweg_net::{Link, LinkEvent, Samples};
use tracing::{info, warn};

use super::Control;

/// The state of a peer that is being dialled and has no link yet.
#[derive(Clone, Debug)]
pub(super) enum PeerState {
    Connecting,
    Unreachable(String),
}

/// The states of peers without a link.
pub(super) type PeerStates = BTreeMap<NodeId, PeerState>;

impl Control {
    pub(super) fn handle_link(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up(link) => self.link_up(link),
            LinkEvent::Down { link, cause } => self.link_down(&link, &cause.to_string()),
            LinkEvent::Connecting(peer) => {
                self.peer_states
                    .entry(peer)
                    .or_insert(PeerState::Connecting);
            }
            LinkEvent::Unreachable { peer, reason } => {
                let reason = reason.to_string();
                let previous = self
                    .peer_states
                    .insert(peer, PeerState::Unreachable(reason.clone()));
                if !matches!(previous, Some(PeerState::Unreachable(before)) if before == reason) {
                    warn!(peer = %self.name_of(peer), %reason, "peer unreachable; trying again");
                }
            }
            _ => {}
        }
    }

    fn link_up(&mut self, link: Link) {
        let (peer, sample) = (link.peer(), link.measure());
        if !self.controller.roll().admits(peer) {
            // The network admitted the peer just before it was expelled. Revoking it again closes
            // the link.
            self.admission.revoke(peer);
        }
        info!(peer = %self.name_of(peer), "link up");
        self.peer_states.remove(&peer);
        self.forwarder.link_up(link);
        let now = self.now();
        self.controller
            .handle_link_up(peer, sample, now, &mut self.keys);
        let links = self.controller.links().count();
        if links == NEIGHBOURS_MAX + 1 {
            info!(
                named = NEIGHBOURS_MAX,
                "more links than a record lists; the other neighbours are on the map by their own records"
            );
        }
    }

    fn link_down(&mut self, link: &Link, reason: &str) {
        let peer = link.peer();
        // If another link has replaced this one, its end changes nothing.
        if !self.is_present(link) {
            return;
        }
        info!(peer = %self.name_of(peer), %reason, "link down");
        self.forwarder.link_down(peer);
        let now = self.now();
        self.controller.handle_link_down(peer, now, &mut self.keys);
    }

    /// Hands the links' samples to the controller, which puts them into the node's record.
    pub(super) fn handle_measured(&mut self, samples: Samples) {
        let now = self.now();
        for (link, sample) in samples.links {
            // A replaced link's sample does not describe its successor.
            if self.is_present(&link) {
                let read = (samples.at, sample);
                self.controller
                    .handle_link_sample(link.peer(), read, now, &mut self.keys);
            }
        }
    }

    /// Returns whether a link is the one in use with its peer.
    fn is_present(&self, link: &Link) -> bool {
        let present = self.forwarder.link(link.peer());
        present.is_some_and(|present| present.is_same(link))
    }
}
