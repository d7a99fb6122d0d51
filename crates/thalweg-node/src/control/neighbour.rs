//! Links that come and go, and what they measure.

use std::collections::BTreeMap;

use thalweg_core::id::NodeId;
use thalweg_core::limits::NEIGHBOURS_MAX;
use thalweg_net::{Link, LinkEvent, Samples};
use tracing::{info, warn};

use super::Control;

/// A peer that is dialled, as long as there is no link with it.
#[derive(Clone, Debug)]
pub(super) enum PeerState {
    Connecting,
    Unreachable(String),
}

/// What is known of the peers that there is no link with.
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
                let said = self
                    .peer_states
                    .insert(peer, PeerState::Unreachable(reason.clone()));
                if !matches!(said, Some(PeerState::Unreachable(before)) if before == reason) {
                    warn!(peer = %self.name_of(peer), %reason, "peer unreachable; trying again");
                }
            }
            _ => {}
        }
    }

    fn link_up(&mut self, link: Link) {
        let (peer, sample) = (link.peer(), link.measure());
        if !self.controller.roll().admits(peer) {
            // It was let in by the network a moment before it was thrown out; said again, the link goes.
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
                "more links than a record names; the other neighbours are on the map by their own word"
            );
        }
    }

    fn link_down(&mut self, link: &Link, reason: &str) {
        let peer = link.peer();
        // A duplicate that ends after another has taken its place takes nothing away.
        if !self.is_present(link) {
            return;
        }
        info!(peer = %self.name_of(peer), %reason, "link down");
        self.forwarder.link_down(peer);
        let now = self.now();
        self.controller.handle_link_down(peer, now, &mut self.keys);
    }

    /// Brings what the links have measured to where records are made.
    pub(super) fn handle_measured(&mut self, samples: Samples) {
        let now = self.now();
        for (link, sample) in samples.links {
            // What a link has counted says nothing of the one that has taken its place.
            if self.is_present(&link) {
                let read = (samples.at, sample);
                self.controller
                    .handle_link_sample(link.peer(), read, now, &mut self.keys);
            }
        }
    }

    /// Returns whether a link is the one that is in use with its peer.
    fn is_present(&self, link: &Link) -> bool {
        let present = self.forwarder.link(link.peer());
        present.is_some_and(|present| present.is_same(link))
    }
}
