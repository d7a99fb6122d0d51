//! Leaves at a hub: what one needs at once of the map, and when it is sent the rest.
//!
//! *The idea.* A *leaf* has one link at most and publishes nothing: most viewers are leaves. Nothing
//! passes through a leaf, and only sources look for sinks, so a leaf needs no record of another. Were
//! each of 800 leaves at a hub flooded the records of all, 640,000 signatures would be verified. So a
//! node with more than [`LINKS_FEW`] links floods the record of a leaf to all neighbours but leaves,
//! and sends those what was withheld in turns, at a rate that does not grow with their number. Its own
//! record waits likewise while it differs in links with leaves only: a leaf needs the link of its own,
//! and those that lead on.
//!
//! ```text
//!  leaf K ── record ──► hub ── at once ──► neighbours that publish or have more links
//!                        └─── in turns, TURN_RECORDS each TURN ──► other leaves
//! ```
//!
//! So the maps of leaves are complete too, later. A leaf that publishes a stream or has another link
//! is one no longer, and is sent the rest before anything else.
//!
//! *What it does not do.* It withholds no record that may matter to a subscriber: that of a node
//! that publishes, has stopped publishing just now, or has two links.
//!
//! *Sources.* docs/reference/protocol.md §5, "Flooding"; docs/concepts/routing.md §2.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::record::{Neighbour, Record};

use super::{Records, frame};
use crate::effect::{Effect, Flooding, Turn};
use crate::facts::Local;
use crate::mail::flood::LINKS_FEW;

/// Interval of turns.
pub(crate) const TURN: Duration = Duration::from_millis(50);

/// Records that all leaves together are sent in a turn: 1,000 a second, which 100 leaves that come at
/// once have after 10 s.
pub(crate) const TURN_RECORDS: usize = 50;

/// The neighbours that are leaves, and what was withheld from them.
#[derive(Debug)]
pub(super) struct Leaves {
    /// Up to which place each leaf has everything; `None` if it was not sent the records of other
    /// leaves since its link came up.
    peers: BTreeMap<NodeId, Option<u64>>,
    /// Records of leaves that were withheld, in the order of their arrival.
    withheld: BTreeMap<u64, NodeId>,
    /// The place of each in `withheld`.
    places: BTreeMap<NodeId, u64>,
    next: u64,
    /// The last leaf that had its turn.
    last: Option<NodeId>,
    due: Instant,
    /// Records sent beyond what turns allowed; further turns wait for them.
    debt: usize,
}

/// What a leaf is sent in its turn.
#[derive(Debug)]
enum Rest {
    /// These records, and what it then has everything up to.
    Records(Vec<NodeId>, u64),
    /// A summary of the records of all leaves.
    Summary,
}

impl Default for Leaves {
    fn default() -> Self {
        Self {
            peers: BTreeMap::new(),
            withheld: BTreeMap::new(),
            places: BTreeMap::new(),
            next: 0,
            last: None,
            due: Instant::NEVER,
            debt: 0,
        }
    }
}

/// Returns whether nothing passes through the node of a record, and nothing comes from it.
pub(super) fn is_leaf(record: &Record) -> bool {
    record.neighbours.len() <= 1 && record.streams.is_empty()
}

impl Leaves {
    pub(super) const fn poll_timeout(&self) -> Instant {
        self.due
    }

    /// Returns whether a neighbour is a leaf from which records are withheld.
    pub(super) fn has(&self, peer: NodeId) -> bool {
        self.peers.contains_key(&peer)
    }

    /// Handles a neighbour that is a leaf from now on; `is_met` if it was sent everything.
    fn insert(&mut self, peer: NodeId, is_met: bool, now: Instant) {
        self.peers.insert(peer, is_met.then_some(self.next));
        if !is_met {
            self.wake(now);
        }
    }

    /// Handles a neighbour that is no leaf, or no neighbour, any more.
    pub(super) fn remove(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
        if self.peers.is_empty() {
            *self = Self {
                next: self.next,
                ..Self::default()
            };
        }
    }

    /// Handles the record of a leaf, which is flooded to no other.
    pub(super) fn withhold(&mut self, node: NodeId, now: Instant) {
        self.handle_flooded(node);
        if !self.peers.is_empty() {
            self.withheld.insert(self.next, node);
            self.places.insert(node, self.next);
            self.next += 1;
            self.wake(now);
        }
    }

    /// Handles a record that all neighbours are flooded.
    pub(super) fn handle_flooded(&mut self, node: NodeId) {
        let place = self.places.remove(&node);
        place.map(|place| self.withheld.remove(&place));
    }

    /// Handles records that a leaf is sent because it asked for them.
    pub(super) const fn handle_asked(&mut self, records: usize) {
        self.debt = self.debt.saturating_add(records);
    }

    fn wake(&mut self, now: Instant) {
        self.due = self.due.min(now + TURN);
    }

    /// Returns the nodes of the records that were withheld since a place, and their end.
    fn since(&self, place: u64, count: usize) -> (Vec<NodeId>, u64) {
        let mut waiting = self.withheld.range(place..);
        let nodes = waiting.by_ref().take(count).map(|(_, node)| *node);
        let nodes = nodes.collect();
        let end = waiting.next().map_or(self.next, |(place, _)| *place);
        (nodes, end)
    }

    /// Returns the leaf that is next, with what it is sent.
    ///
    /// Cost    O(leaves) if none lacks anything
    fn next_turn(&self, room: usize) -> Option<(NodeId, Rest)> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let round = self.peers.range((after, Bound::Unbounded));
        let mut round = round.chain(self.peers.iter());
        round.find_map(|(peer, place)| {
            let Some(place) = place else {
                return Some((*peer, Rest::Summary));
            };
            let (nodes, end) = self.since(*place, room);
            (!nodes.is_empty()).then_some((*peer, Rest::Records(nodes, end)))
        })
    }
}

impl Records {
    /// Returns whether a neighbour is not known to be more than a leaf.
    pub(super) fn is_leaf(&self, peer: NodeId) -> bool {
        let newest = self.directory.newest(peer);
        newest.is_none_or(|(record, _)| is_leaf(record))
    }

    /// Handles a new neighbour that is not known to be more than a leaf; returns whether the records
    /// of leaves are withheld from it.
    pub(super) fn withholds_from(
        &mut self,
        turn: &mut Turn<'_>,
        local: &Local<'_>,
        peer: NodeId,
    ) -> bool {
        let withholds = local.links.count() > LINKS_FEW && self.is_leaf(peer);
        if withholds {
            self.leaves.insert(peer, false, turn.now);
            turn.push(Effect::Leaf(peer, true));
        }
        withholds
    }

    /// Handles a new record of a neighbour: it may be a leaf now, or one no longer.
    pub(super) fn handle_neighbour(
        &mut self,
        turn: &mut Turn<'_>,
        local: &Local<'_>,
        peer: NodeId,
    ) {
        let is_leaf_now = self.is_leaf(peer);
        if is_leaf_now == self.leaves.has(peer) || !local.links.has(peer) {
            return;
        }
        if !is_leaf_now {
            turn.push(Effect::Leaf(peer, false));
            match self.leaves.peers.get(&peer).copied().flatten() {
                Some(place) => {
                    let (nodes, _) = self.leaves.since(place, usize::MAX);
                    self.send_of(turn, peer, &nodes);
                }
                None => self.send_kept(turn, peer, is_leaf),
            }
            self.leaves.remove(peer);
            self.flood_own(turn, local.id());
        } else if local.links.count() > LINKS_FEW {
            turn.push(Effect::Leaf(peer, true));
            self.leaves.insert(peer, true, turn.now);
        }
    }

    /// Returns the leaves that need this node's new record at once, if others need it only later: it
    /// differs from the one before in links with leaves, and those whose link is new need it.
    ///
    /// Without this, 700 leaves that come one after another would each be sent a record of 12 kB for each
    /// batch of links behind its own.
    pub(super) fn needing_own(&self, record: &Record) -> Option<Vec<NodeId>> {
        let (before, _) = self.directory.newest(record.node)?;
        let is_same = (&before.name, before.slots, before.box_key, &before.streams)
            == (&record.name, record.slots, record.box_key, &record.streams);
        // A full record does not name all links: a leaf that it does not name is served as well.
        let is_as_full = before.is_full() == record.is_full();
        if !is_same || !is_as_full || self.leaves.peers.is_empty() {
            return None;
        }
        let of = |record: &Record| -> BTreeMap<NodeId, Neighbour> {
            let links = record.neighbours.iter();
            links.map(|link| (link.node, *link)).collect()
        };
        let (before, after) = (of(before), of(record));
        let mut changed = before
            .iter()
            .filter(|(node, link)| after.get(node) != Some(link));
        let new = after.keys().filter(|node| !before.contains_key(node));
        let new: Vec<NodeId> = new.copied().collect();
        let are_leaves = |node: &NodeId| self.leaves.has(*node) || self.is_leaf(*node);
        if !changed.all(|(node, _)| are_leaves(node)) {
            return None;
        }
        new.iter().all(are_leaves).then_some(new)
    }

    /// Floods this node's record to the leaves that it was withheld from: one of those that it names is
    /// no leaf any more, so that paths may lead there.
    fn flood_own(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        if !self.leaves.places.contains_key(&id) {
            return;
        }
        self.leaves.handle_flooded(id);
        if let Some((record, signed)) = self.directory.newest(id) {
            turn.push(Effect::Flood(Flooding {
                of: (id, record.sequence),
                frame: frame(signed),
                from: None,
                is_leaf: false,
                also_to: Vec::new(),
                pace: Duration::ZERO,
            }));
        }
    }

    /// Sends leaves in turn what was withheld from them.
    pub(crate) fn handle_leaves(&mut self, turn: &mut Turn<'_>) {
        if self.leaves.due > turn.now {
            return;
        }
        let mut room = TURN_RECORDS.saturating_sub(self.leaves.debt);
        self.leaves.debt = self.leaves.debt.saturating_sub(TURN_RECORDS);
        while room > 0 {
            let Some((peer, rest)) = self.leaves.next_turn(room) else {
                self.leaves.due = Instant::NEVER;
                return;
            };
            let (sent, place) = match rest {
                Rest::Records(nodes, place) => (self.send_of(turn, peer, &nodes), place),
                // It may lack all of them: what it asks for counts before the next has its turn.
                Rest::Summary => {
                    self.send_kept(turn, peer, is_leaf);
                    (room, self.leaves.next)
                }
            };
            self.leaves.debt += sent.saturating_sub(room);
            room = room.saturating_sub(sent);
            self.leaves.peers.insert(peer, Some(place));
            self.leaves.last = Some(peer);
        }
        self.leaves.due = turn.now + TURN;
    }
}
