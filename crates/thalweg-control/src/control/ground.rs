//! What the controller knows: settings, links, and the owners of records and membership.
//!
//! *The idea.* All other owners read these four through [`Facts`]. They stand together so that a view
//! of them can be lent while another owner changes.

use alloc::collections::BTreeMap;

use thalweg_base::description::Description;
use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::time::Instant;
use thalweg_base::units::Bitrate;
use thalweg_link::gauge::Sample;

use crate::admission::Roll;
use crate::effect::{Effect, Turn};
use crate::facts::{Facts, Links, Local, Peer, Settings};
use crate::membership::Membership;
use crate::records::Records;

/// What the controller knows.
#[derive(Debug)]
pub(super) struct Ground {
    settings: Settings,
    /// The configured peers as they are now.
    peers: BTreeMap<NodeId, Peer>,
    pub(super) links: Links,
    records: Records,
    pub(super) membership: Membership,
}

impl Ground {
    pub(super) fn new(settings: Settings, roll: Roll) -> Self {
        let peers = settings.peers.iter();
        Self {
            peers: peers.map(|peer| (peer.key, peer.clone())).collect(),
            links: Links::default(),
            records: Records::default(),
            membership: Membership::new(&settings, roll),
            settings,
        }
    }

    /// Returns this node's key.
    pub(super) const fn id(&self) -> NodeId {
        self.settings.id
    }

    pub(super) const fn local(&self) -> Local<'_> {
        Local {
            settings: &self.settings,
            peers: &self.peers,
            links: &self.links,
            roll: self.membership.roll(),
        }
    }

    pub(super) const fn facts(&self) -> Facts<'_> {
        Facts {
            local: self.local(),
            directory: self.records.directory(),
        }
    }

    /// Returns what a stream of a node carries.
    pub(super) fn description(&self, node: NodeId, stream: StreamId) -> Option<&Description> {
        self.records.description(node, stream)
    }

    /// Returns the records, to be changed by what concerns this node.
    pub(super) const fn records(&mut self) -> (&mut Records, Local<'_>) {
        let local = Local {
            settings: &self.settings,
            peers: &self.peers,
            links: &self.links,
            roll: self.membership.roll(),
        };
        (&mut self.records, local)
    }

    /// Returns when a record, a link or a grant is due.
    pub(super) fn poll_timeout(&self) -> Instant {
        let records = self.records.poll_timeout(self.id());
        records
            .min(self.links.poll_timeout())
            .min(self.membership.poll_timeout())
    }

    /// Handles a new link: the neighbour is sent the grants and records that it lacks.
    pub(super) fn handle_link_up(&mut self, turn: &mut Turn<'_>, peer: NodeId, sample: Sample) {
        let rate = self.peers.get(&peer).and_then(|peer| peer.rate);
        self.links.handle_up(peer, (rate, sample), turn.now);
        self.membership.send_all(turn, peer);
        let (records, local) = self.records();
        records.send_directory(turn, &local, peer);
        records.announce_links(turn, &local);
    }

    /// Handles the loss of a link; returns whether there was one.
    pub(super) fn handle_link_down(&mut self, turn: &mut Turn<'_>, peer: NodeId) -> bool {
        self.records.handle_link_down(peer);
        let was_linked = self.links.handle_down(peer);
        if was_linked {
            let (records, local) = self.records();
            records.announce_links(turn, &local);
        }
        was_linked
    }

    /// Repeats this node's record if that is due.
    pub(super) fn handle_refresh(&self, turn: &mut Turn<'_>) {
        self.records.handle_refresh(turn, self.id());
    }

    /// Handles stale measurements, and announces what a limit held back.
    pub(super) fn handle_gauges(&mut self, turn: &mut Turn<'_>) {
        let has_forgotten = self.links.handle_timeout(turn.now);
        self.records.handle_gauges(turn, has_forgotten);
    }

    /// Removes from the map what is silent for too long.
    pub(super) fn handle_timeout(&mut self, turn: &mut Turn<'_>) {
        let id = self.id();
        self.records.handle_timeout(turn, id);
    }

    /// Handles the configuration of a new or changed peer. It is read when it matters, so what
    /// depends on it is computed again: the gauge of its link, this node's record, the plans of sources.
    pub(super) fn handle_peer(&mut self, turn: &mut Turn<'_>, peer: Peer) {
        let (key, rate) = (peer.key, peer.rate);
        self.peers.insert(key, peer);
        self.configure_link(turn, key, rate);
    }

    /// Handles the removal of a peer from the configuration; returns whether it was there.
    pub(super) fn handle_peer_gone(&mut self, turn: &mut Turn<'_>, peer: NodeId) -> bool {
        let was_there = self.peers.remove(&peer).is_some();
        if was_there {
            self.configure_link(turn, peer, None);
        }
        was_there
    }

    fn configure_link(&mut self, turn: &mut Turn<'_>, peer: NodeId, rate: Option<Bitrate>) {
        if self.links.set_ceiling(peer, rate) {
            turn.push(Effect::Announce);
        }
        turn.push(Effect::Changed);
    }
}
