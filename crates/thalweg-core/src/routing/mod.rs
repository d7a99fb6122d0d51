//! The directory: the newest record of every node, and the ways between them.
//!
//! *The idea.* Each node signs a record of itself and floods it; whoever holds the newest record of everyone holds the
//! same map. A link counts only if *both* ends list it, so one living end is enough to take a dead link off the map. A
//! node to which no way has led for a while leaves the map too; nobody need repeat himself to stay on it.
//!
//! A hub whose record is full names only some of its neighbours. The others name it, and that has to do, but for them alone:
//! such a *one-sided* link begins or ends a way and is never within it. Who claims one falsely is reached by nobody, and
//! carries nothing of others.
//!
//! The record of a node that has left is kept out of sight: its number still refuses what is older, and when a way leads
//! there again, the node is back without a word of it being sent.
//!
//! | file | what it is |
//! |---|---|
//! | `gauge` | what a link carries, and when that is worth telling |
//! | `cadence` | how often a node may speak of itself |
//! | `pulse` | whether a neighbour answers |
//!
//! *What it does not do.* It checks no signature and sends nothing: the node floods what [`Directory::handle_record`]
//! calls news. Route choice by cost is the planner's; [`Directory::path`] only finds a way for control messages.
//!
//! *Sources.* docs/protocol.md §5; docs/routing.md; link-state routing (OSPF, RFC 2328 §13) without areas.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::id::{NodeId, StreamName};
use crate::limits::{PATH_NODES_MAX, RECORDS_MAX};
use crate::time::{Due, Duration, Instant};
use crate::units::{Bitrate, DataSize};
use crate::wire::control::SIGNATURE_BYTES;
use crate::wire::record::{Announced, Neighbour, Record};
use crate::wire::summary::Prefix;

pub mod cadence;
pub mod gauge;
pub mod pulse;
#[cfg(test)]
mod tests;

/// After this long without a way to it a node is off the map: a link that breaks and is dialled again is back long before.
pub const UNREACHED_MAX: Duration = Duration::from_secs(65);

/// After this long a record that nobody repeated is forgotten: four repetitions at their slowest.
pub const RECORD_AGE_MAX: Duration = Duration::from_nanos(4 * cadence::REFRESH_MAX.as_nanos());

/// The time after which a node leaves the map: right after the last moment of [`UNREACHED_MAX`].
const UNREACHED: Duration = Duration::from_nanos(UNREACHED_MAX.as_nanos() + 1);

/// The age at which a record goes: right after the last moment of [`RECORD_AGE_MAX`].
const AGED: Duration = Duration::from_nanos(RECORD_AGE_MAX.as_nanos() + 1);

/// What a record's signature and frame add to it on the wire.
const FRAME_BYTES: u64 = SIGNATURE_BYTES as u64 + 8;

/// How long after a change of the map it is looked at who is still on it: changes come in swarms.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// A record as its node signed it, to be passed on unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The encoded record.
    pub record: Vec<u8>,
    /// Its node's signature over these bytes.
    pub signature: [u8; SIGNATURE_BYTES],
}

/// What a record meant to the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It changes the map or what is published: flood it, and think again.
    Changed,
    /// It says nothing new but that its node lives: flood it.
    Refreshed,
    /// It is not newer than what is known: drop it.
    Old,
    /// The directory is full: drop it.
    Full,
}

/// The newest record of every node.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    known: BTreeMap<NodeId, Known>,
    /// Those of them that publish something: of a large map few.
    publishing: BTreeSet<NodeId>,
    /// The bytes of all records on the wire.
    size: DataSize,
    /// When the map changed first since it was looked at who is on it.
    changed: Option<Instant>,
    /// How many are out of sight.
    hidden: usize,
    /// When to look at that again although nothing changes.
    look: Due,
}

#[derive(Clone, Debug)]
struct Known {
    record: Record,
    signed: Signed,
    heard: Instant,
    /// What its links carried that it says so no more of, as long as it has them: it knows no better, so that is to be tried where
    /// there is nothing else.
    former: Vec<(NodeId, Bitrate)>,
    /// Since when no way leads to it.
    unreached: Option<Instant>,
    /// It is off the map.
    is_hidden: bool,
}

impl Directory {
    /// Takes in a record whose signature the caller has checked.
    ///
    /// Cost    O(log nodes) and a comparison with the record before; of a full directory O(nodes)
    pub fn handle_record(&mut self, record: Record, signed: Signed, now: Instant) -> News {
        let is_room = self.known.len() < RECORDS_MAX
            || self.known.contains_key(&record.node)
            || self.make_room();
        let news = match self.known.get(&record.node) {
            _ if !is_room => return News::Full,
            Some(known) if known.record.sequence >= record.sequence => return News::Old,
            Some(known) if !known.is_hidden && is_same(&known.record, &record) => News::Refreshed,
            _ => News::Changed,
        };
        let before = self.known.get(&record.node);
        // What links are like says nothing of where they lead.
        let is_elsewhere =
            |known: &Known| known.is_hidden || !has_same_ends(&known.record, &record);
        if news == News::Changed && before.is_none_or(is_elsewhere) {
            self.changed.get_or_insert(now);
        }
        // What was out of sight is not for being heard again: a way must lead there.
        let known = Known {
            heard: now,
            former: before.map_or_else(Vec::new, |known| known.former(&record)),
            unreached: before.and_then(|known| known.unreached),
            is_hidden: before.is_some_and(|known| known.is_hidden),
            record,
            signed,
        };
        self.size += known.size();
        let node = known.record.node;
        let published = before.is_some_and(|known| !known.record.streams.is_empty());
        match (published, !known.record.streams.is_empty()) {
            (false, true) => _ = self.publishing.insert(node),
            (true, false) => _ = self.publishing.remove(&node),
            _ => {}
        }
        self.look.handle(now + AGED);
        if let Some(before) = self.known.insert(node, known) {
            self.size = self.size.saturating_sub(before.size());
        }
        news
    }

    /// Looks to whom a way leads from `own`: who was without one for [`UNREACHED_MAX`] is taken off the map, and comes back
    /// when there is one; says whether the map has changed.
    ///
    /// Cost    O(1) before [`Directory::poll_timeout`], then O(nodes + links)
    pub fn handle_timeout(&mut self, own: NodeId, now: Instant) -> bool {
        if now < self.poll_timeout() {
            return false;
        }
        let reached = self.reached(own);
        let since = self.changed.take().unwrap_or(now);
        let mut has_changed = false;
        let mut next = Instant::NEVER;
        self.known.retain(|node, known| {
            let was_hidden = known.is_hidden;
            known.unreached = match known.unreached {
                _ if reached.contains(node) => None,
                before => before.or(Some(since)),
            };
            let gone = known.unreached.map(|since| since + UNREACHED);
            let aged = known.heard + AGED;
            known.is_hidden = gone.is_some_and(|gone| gone <= now);
            has_changed |= known.is_hidden != was_hidden;
            if *node == own {
                return true;
            }
            next = next
                .min(gone.filter(|gone| *gone > now).unwrap_or(aged))
                .min(aged);
            now < aged
        });
        self.publishing.retain(|node| self.known.contains_key(node));
        let sizes = self.known.values().map(Known::size);
        let size = sizes.fold(DataSize::ZERO, |sum, size| sum + size);
        has_changed |= size != self.size;
        self.size = size;
        self.hidden = self.known.values().filter(|known| known.is_hidden).count();
        self.look = Due::new(next);
        has_changed
    }

    /// Forgets a node that does not belong here any more.
    pub fn remove(&mut self, node: NodeId) {
        if let Some(known) = self.known.remove(&node) {
            self.publishing.remove(&node);
            self.hidden -= usize::from(known.is_hidden);
            self.size = self.size.saturating_sub(known.size());
        }
    }

    /// Forgets a node that is off the map, of several the one that has been for the longest; says whether there was one.
    fn make_room(&mut self) -> bool {
        let hidden = self.known.iter().filter(|(_, known)| known.is_hidden);
        let longest = hidden.min_by_key(|(_, known)| known.unreached);
        let longest = longest.map(|(node, _)| *node);
        longest.is_some_and(|node| {
            self.remove(node);
            true
        })
    }

    /// Returns when [`Directory::handle_timeout`] may have something to do, `NEVER` while nobody else is known.
    pub fn poll_timeout(&self) -> Instant {
        // Who comes back is wanted at once.
        let after = [Duration::ZERO, LOOK_AFTER][usize::from(self.hidden == 0)];
        let changed = self.changed.map(|changed| changed + after);
        changed.map_or(self.look.at(), |changed| changed.min(self.look.at()))
    }

    /// Returns what all records take on the wire, each once.
    pub const fn size(&self) -> DataSize {
        self.size
    }

    /// Returns those to whom ways lead, also over nodes that were off the map until now.
    fn reached(&self, own: NodeId) -> BTreeSet<NodeId> {
        let record = |node: NodeId| self.known.get(&node).map(|known| &known.record);
        let mut reached = BTreeSet::from([own]);
        let mut queue = VecDeque::from([own]);
        while let Some(near) = queue.pop_front() {
            for there in record(near).into_iter().flat_map(|near| &near.neighbours) {
                let Some(far) = record(there.node) else {
                    continue;
                };
                let is_joined = far.neighbour(near).is_some() || (near == own && far.is_full());
                if is_joined && reached.insert(there.node) {
                    queue.push_back(there.node);
                }
            }
        }
        // Over a link that only its far end names nobody is reached but that end.
        let is_full = |node| reached.contains(&node) && record(node).is_some_and(Record::is_full);
        let ends = self.known.iter().filter(|(node, known)| {
            !reached.contains(node) && known.record.neighbours.iter().any(|hub| is_full(hub.node))
        });
        let ends: Vec<NodeId> = ends.map(|(node, _)| *node).collect();
        reached.extend(ends);
        reached
    }

    /// Returns the records of all who are on the map, ordered by key.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        let on_map = self.known.values().filter(|known| !known.is_hidden);
        on_map.map(|known| &known.record)
    }

    /// Returns whether a node's record is kept as it was signed here, to the byte.
    pub fn has(&self, node: NodeId, signed: &Signed) -> bool {
        self.known
            .get(&node)
            .is_some_and(|known| known.signed == *signed)
    }

    /// Returns all records as they were signed, also of who is off the map, for a new neighbour.
    pub fn signed(&self) -> impl Iterator<Item = &Signed> {
        self.known.values().map(|known| &known.signed)
    }

    /// Returns whose records are kept, and their numbers.
    pub fn sequences(&self) -> impl Iterator<Item = (NodeId, u64)> {
        let known = self.known.iter();
        known.map(|(node, known)| (*node, known.record.sequence))
    }

    /// Returns the records, as they were signed, of all whose keys begin so, and their numbers.
    ///
    /// Cost    O(log nodes)
    pub fn signed_of(&self, prefix: Prefix) -> impl Iterator<Item = (&Signed, u64)> {
        let mut first = NodeId([0; 32]);
        first.0[..prefix.0.len()].copy_from_slice(&prefix.0);
        let known = self.known.range(first..);
        known
            .take_while(move |(node, _)| Prefix::from(**node) == prefix)
            .map(|(_, known)| (&known.signed, known.record.sequence))
    }

    /// Returns the record of a node that is on the map.
    pub fn record(&self, node: NodeId) -> Option<&Record> {
        let known = self.known.get(&node).filter(|known| !known.is_hidden);
        known.map(|known| &known.record)
    }

    /// Returns what a node has said that its link to another carries, if it has and says now that it does not know.
    pub fn former_rate(&self, from: NodeId, to: NodeId) -> Option<Bitrate> {
        let former = &self.known.get(&from)?.former;
        let (_, rate) = former.iter().find(|(node, _)| *node == to)?;
        Some(*rate)
    }

    /// Returns the node that publishes a stream of this name; of several, the one of the smallest key.
    pub fn publisher(&self, name: &StreamName) -> Option<(NodeId, &Announced)> {
        self.publishers(name).next()
    }

    /// Returns the nodes that publish a stream of this name, ordered by key, each with every stream of the
    /// name that it announces, in its record's order: the open one first, then those that drain.
    pub fn publishers(&self, name: &StreamName) -> impl Iterator<Item = (NodeId, &Announced)> {
        self.publishing.iter().flat_map(move |node| {
            let streams = self.record(*node).map(|record| &record.streams[..]);
            let streams = streams.unwrap_or_default().iter();
            let streams = streams.filter(move |stream| stream.name == *name);
            streams.map(move |stream| (*node, stream))
        })
    }

    /// Returns the links on the map, each once, with what each end says of it.
    ///
    /// Cost    O(links), and of each link O(neighbours)
    pub fn links(&self) -> impl Iterator<Item = Joint<'_>> {
        self.records().flat_map(move |near| {
            near.neighbours.iter().filter_map(move |there| {
                let far = self.record(there.node)?;
                let back = far.neighbour(near.node);
                let is_it = match back {
                    Some(_) => near.node < far.node,
                    None => far.is_full(),
                };
                is_it.then_some(Joint {
                    near,
                    far,
                    there,
                    back,
                })
            })
        })
    }

    /// Returns a way of the fewest hops from `from` to `to`, both included.
    ///
    /// Cost    O(nodes + links)
    pub fn path(&self, from: NodeId, to: NodeId) -> Option<Vec<NodeId>> {
        self.path_by(from, to, |_| true)
    }

    /// Returns a way of the fewest hops from `from` to `to`, both included, by these links only, each said from the near end.
    ///
    /// Cost    O(nodes + links)
    pub fn path_by(
        &self,
        from: NodeId,
        to: NodeId,
        is_taken: impl Fn([NodeId; 2]) -> bool,
    ) -> Option<Vec<NodeId>> {
        let mut came_from = BTreeMap::from([(from, from)]);
        if from == to {
            return walk_back(&came_from, from, to);
        }
        let end = self.record(to)?;
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            // The end is asked first, who mostly has few links: of a hub's hundreds no other is looked at then. And one that a
            // full record does not name is found here only.
            let is_end = if end.neighbour(node).is_some() {
                self.lists(node, to) || self.is_full(node)
            } else {
                node == from && end.is_full() && self.lists(node, to)
            };
            if is_end && is_taken([node, to]) {
                came_from.insert(to, node);
                return walk_back(&came_from, from, to);
            }
            // Who was met already is not asked for his side: a node of many links would be searched once for each of them.
            for next in self.neighbours(node).filter(|next| *next != to) {
                let is_joined = || self.lists(next, node) || (node == from && self.is_full(next));
                if came_from.contains_key(&next) || !is_joined() || !is_taken([node, next]) {
                    continue;
                }
                came_from.insert(next, node);
                queue.push_back(next);
            }
        }
        None
    }

    /// Returns whether two nodes have a link: both name the other, or one does and the other's record is full.
    pub fn is_joined(&self, near: NodeId, far: NodeId) -> bool {
        match (self.lists(near, far), self.lists(far, near)) {
            (true, true) => true,
            (true, false) => self.is_full(far),
            (false, true) => self.is_full(near),
            (false, false) => false,
        }
    }

    /// Returns whether a node says that it has a link with another.
    fn lists(&self, from: NodeId, to: NodeId) -> bool {
        self.record(from)
            .is_some_and(|record| record.neighbour(to).is_some())
    }

    /// Returns whether a node may have more links than its record names.
    fn is_full(&self, node: NodeId) -> bool {
        self.record(node).is_some_and(Record::is_full)
    }

    /// Returns with whom a node says that it has a link.
    fn neighbours(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let record = self.record(node);
        let neighbours = record.map_or(&[][..], |record| &record.neighbours);
        neighbours.iter().map(|there| there.node)
    }
}

/// A link on the map.
#[derive(Clone, Copy, Debug)]
pub struct Joint<'a> {
    /// The end that says [`Joint::there`].
    pub near: &'a Record,
    /// The other end.
    pub far: &'a Record,
    /// What the near end says of it.
    pub there: &'a Neighbour,
    /// What the far end says of it; nothing if its record is full and does not name this link.
    pub back: Option<&'a Neighbour>,
}

impl Joint<'_> {
    /// Returns whether a way between two nodes may lead over it: always if both ends name it, else only if it is the end that
    /// does where the way begins or ends.
    pub fn is_for(&self, ends: [NodeId; 2]) -> bool {
        self.back.is_some() || ends.contains(&self.near.node)
    }
}

fn walk_back(
    came_from: &BTreeMap<NodeId, NodeId>,
    from: NodeId,
    to: NodeId,
) -> Option<Vec<NodeId>> {
    let mut path = Vec::from([to]);
    while path[path.len() - 1] != from {
        path.push(came_from[&path[path.len() - 1]]);
        if path.len() > PATH_NODES_MAX {
            return None;
        }
    }
    path.reverse();
    Some(path)
}

impl Known {
    fn size(&self) -> DataSize {
        DataSize::from_bytes(self.signed.record.len() as u64 + FRAME_BYTES)
    }

    /// Returns what links carried of which the next record does not say it any more.
    ///
    /// Cost    O(links whose rates are not known · links)
    fn former(&self, next: &Record) -> Vec<(NodeId, Bitrate)> {
        let unknown = next.neighbours.iter();
        let unknown = unknown.filter(|link| link.rate == Bitrate::ZERO);
        let former = unknown.filter_map(|link| {
            let before = self.record.neighbour(link.node)?.rate;
            let known = Some((link.node, before)).filter(|(_, rate)| *rate > Bitrate::ZERO);
            known.or_else(|| {
                let mut former = self.former.iter();
                former.find(|(node, _)| *node == link.node).copied()
            })
        });
        former.collect()
    }
}

/// Returns whether two records of a node differ in nothing but their numbers.
///
/// What a node says of its links it says only when it has changed for good (`gauge`), so every difference counts.
/// Returns whether two records of a node name the same neighbours.
fn has_same_ends(before: &Record, after: &Record) -> bool {
    let ends = [before, after].map(|record| record.neighbours.iter().map(|link| link.node));
    let [before, after] = ends;
    before.eq(after)
}

fn is_same(before: &Record, after: &Record) -> bool {
    (&before.name, before.slots, before.box_key) == (&after.name, after.slots, after.box_key)
        && (&before.neighbours, &before.streams) == (&after.neighbours, &after.streams)
}
