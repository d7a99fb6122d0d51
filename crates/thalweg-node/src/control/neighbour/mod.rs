//! The neighbours: configured peers, links that go up and down, and their measurements.
//!
//! *What it does not do.* It moves no ADU: the forwarder has the links that are up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_base::id::NodeId;
use thalweg_base::limits::NEIGHBOURS_MAX;
use thalweg_net::{Admission, Endpoint, Link, LinkEvent, Samples};
use tracing::{info, warn};

use super::mind::Mind;
use crate::config::{Config, Peer};
use crate::forward::Forwarder;

mod reload;

pub(super) use reload::settings;
use reload::with_effective_security;

/// The state of a peer that is being dialled and has no link yet.
#[derive(Clone, Debug)]
pub(super) enum PeerState {
    Connecting,
    Unreachable(String),
}

/// The neighbours of this node.
pub(super) struct Neighbours {
    /// The configuration as last read; only its reloadable part takes effect without a restart.
    config: Config,
    peers: BTreeMap<NodeId, Peer>,
    /// The states of peers without a link.
    states: BTreeMap<NodeId, PeerState>,
    endpoint: Endpoint,
    admission: Admission,
    forwarder: Arc<Forwarder>,
}

impl Neighbours {
    pub(super) fn new(config: Config, endpoint: Endpoint, forwarder: Arc<Forwarder>) -> Self {
        let peers = config.peers.iter();
        let peers = peers.map(|peer| (peer.key, with_effective_security(peer, &config)));
        Self {
            peers: peers.collect(),
            config,
            states: BTreeMap::new(),
            admission: endpoint.admission().clone(),
            endpoint,
            forwarder,
        }
    }

    pub(super) fn handle_link(&mut self, event: LinkEvent, mind: &mut Mind) {
        match event {
            LinkEvent::Up(link) => self.link_up(link, mind),
            LinkEvent::Down { link, cause } => self.link_down(&link, &cause.to_string(), mind),
            LinkEvent::Connecting(peer) => {
                self.states.entry(peer).or_insert(PeerState::Connecting);
            }
            LinkEvent::Unreachable { peer, reason } => {
                let reason = reason.to_string();
                let previous = self
                    .states
                    .insert(peer, PeerState::Unreachable(reason.clone()));
                if !matches!(previous, Some(PeerState::Unreachable(before)) if before == reason) {
                    warn!(peer = %mind.name_of(peer), %reason, "peer unreachable; trying again");
                }
            }
            _ => {}
        }
    }

    fn link_up(&mut self, link: Link, mind: &mut Mind) {
        let (peer, sample) = (link.peer(), link.measure());
        if !mind.controller().roll().admits(peer) {
            // The network admitted the peer just before it was expelled. Revoking it again closes
            // the link.
            self.admission.revoke(peer);
        }
        info!(peer = %mind.name_of(peer), "link up");
        self.states.remove(&peer);
        self.forwarder.link_up(link);
        mind.drive(|controller, now, keys| controller.handle_link_up(peer, sample, now, keys));
        let links = mind.controller().links().count();
        if links == NEIGHBOURS_MAX + 1 {
            info!(
                named = NEIGHBOURS_MAX,
                "more links than a record lists; the other neighbours are on the map by their own records"
            );
        }
    }

    fn link_down(&self, link: &Link, reason: &str, mind: &mut Mind) {
        let peer = link.peer();
        // If another link has replaced this one, its end changes nothing.
        if !self.is_present(link) {
            return;
        }
        info!(peer = %mind.name_of(peer), %reason, "link down");
        self.forwarder.link_down(peer);
        mind.drive(|controller, now, keys| controller.handle_link_down(peer, now, keys));
    }

    /// Hands the links' samples to the controller, which puts them into the node's record.
    pub(super) fn handle_measured(&self, samples: Samples, mind: &mut Mind) {
        for (link, sample) in samples.links {
            // A replaced link's sample does not describe its successor.
            if self.is_present(&link) {
                let (peer, read) = (link.peer(), (samples.at, sample));
                mind.drive(|controller, now, keys| {
                    controller.handle_link_sample(peer, read, now, keys);
                });
            }
        }
    }

    /// Returns whether a link is the one in use with its peer.
    fn is_present(&self, link: &Link) -> bool {
        let present = self.forwarder.link(link.peer());
        present.is_some_and(|present| present.is_same(link))
    }

    /// Returns a configured peer.
    pub(super) fn peer(&self, key: NodeId) -> Option<&Peer> {
        self.peers.get(&key)
    }

    /// Returns the peers that this node dials or was dialling, each with its state if that is known.
    pub(super) fn dialled(&self) -> BTreeMap<NodeId, Option<&PeerState>> {
        let configured = self.peers.values().filter(|peer| peer.connect);
        let configured = configured.map(|peer| peer.key);
        // Peers dialled because this node joined through them are in no configuration.
        let keys: BTreeSet<NodeId> = self.states.keys().copied().chain(configured).collect();
        let state = |key: NodeId| (key, self.states.get(&key));
        keys.into_iter().map(state).collect()
    }
}
