//! The directory: the newest record of every node, and the paths between nodes.
//!
//! *The idea.* Each node signs a record of itself and floods it, so all nodes hold the same map. A
//! link counts only if *both* ends list it: one live end suffices to take a dead link off the map.
//! A node that no path has reached for [`UNREACHED_MAX`] leaves the map too; a reachable node stays
//! without repeating its record.
//!
//! A hub with a full record lists only some of its neighbours. The listing by those others
//! suffices, but only for themselves: such a *one-sided* link may begin or end a path and is never
//! inside one. A node that claims one falsely is reached by no node and carries no other traffic.
//!
//! The record of a node off the map stays hidden in the directory. Its sequence number still
//! rejects older records, and when a path leads there again the node is back at once, without a
//! message.
//!
//! | file | what it is |
//! |---|---|
//! | `changes` | which links of the map may have come or gone |
//! | `cadence` | how often a node may announce its record |
//!
//! *What it does not do.* It verifies no signature and sends nothing: the node floods what
//! [`Directory::handle_record`] reports as news. Choosing routes by cost is the planner's task;
//! [`Directory::path`] finds a path for control messages.
//!
//! *Sources.* docs/reference/protocol.md §5; docs/concepts/routing.md; link-state routing (OSPF, RFC 2328
//! §13) without
//! areas.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use thalweg_base::id::{NodeId, StreamName};
use thalweg_base::limits::{PATH_NODES_MAX, RECORDS_MAX};
use thalweg_base::time::{Due, Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_base::wire::SIGNATURE_BYTES;
use thalweg_base::wire::record::{Announced, Neighbour, Record};
use thalweg_base::wire::summary::Prefix;

pub mod cadence;
mod changes;
#[cfg(test)]
mod tests;

pub use changes::LinkChanges;

/// A node without a path to it leaves the map after this time; a link that breaks is redialled long
/// before.
pub const UNREACHED_MAX: Duration = Duration::from_secs(65);

/// A record that is not repeated expires after this time: four repetitions at the slowest cadence.
pub const RECORD_AGE_MAX: Duration = Duration::from_nanos(4 * cadence::REFRESH_MAX.as_nanos());

/// Time until a node leaves the map: the instant after [`UNREACHED_MAX`].
const UNREACHED: Duration = Duration::from_nanos(UNREACHED_MAX.as_nanos() + 1);

/// Age at which a record expires: the instant after [`RECORD_AGE_MAX`].
const EXPIRY: Duration = Duration::from_nanos(RECORD_AGE_MAX.as_nanos() + 1);

/// Bytes that signature and framing add to a record on the wire.
const FRAME_BYTES: u64 = SIGNATURE_BYTES as u64 + 8;

/// Delay from a change of the map to the next reachability search, as changes come in bursts.
const SEARCH_DELAY: Duration = Duration::from_secs(1);

/// A record as its node signed it, for forwarding unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The encoded record.
    pub record: Vec<u8>,
    /// The node's signature over these bytes.
    pub signature: [u8; SIGNATURE_BYTES],
}

/// The directory's verdict on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It changes the map or the published streams: flood it and plan again.
    Changed,
    /// It only proves that its node is alive: flood it.
    Refreshed,
    /// It is not newer than the known record: drop it.
    Old,
    /// The directory is full: drop it.
    Full,
}

/// The newest record of every node.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    known: BTreeMap<NodeId, Known>,
    /// The nodes that publish a stream: few, even on a large map.
    publishing: BTreeSet<NodeId>,
    /// The nodes that list several links: no path leads through another. Behind a hub with thousands
    /// of leaves they are few.
    passable: BTreeSet<NodeId>,
    /// Bytes of all records on the wire.
    size: DataSize,
    /// The earliest change of the map since the last reachability search.
    changed: Option<Instant>,
    /// Number of nodes off the map.
    hidden: usize,
    /// When to search again without any change.
    search_at: Due,
    /// The links that may have come or gone since they were last taken.
    link_changes: LinkChanges,
}

#[derive(Clone, Debug)]
struct Known {
    record: Record,
    signed: Signed,
    heard: Instant,
    /// Rates that the node announced earlier for links that it still has but now lists with an
    /// unknown rate. The planner tries these where there is no other path.
    former: Vec<(NodeId, Bitrate)>,
    /// Since when no path leads to the node.
    unreached: Option<Instant>,
    /// The node is off the map.
    is_hidden: bool,
}

impl Directory {
    /// Takes in a record with a verified signature.
    ///
    /// Cost    O(log nodes) and a comparison with the previous record; O(nodes) if the directory is full
    pub fn handle_record(&mut self, record: Record, signed: Signed, now: Instant) -> News {
        // A new node may displace one that is off the map.
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
        // Only the link ends affect reachability; their rates do not.
        let ends_differ =
            |known: &Known| known.is_hidden || !lists_same_neighbours(&known.record, &record);
        if news == News::Changed && before.is_none_or(ends_differ) {
            self.changed.get_or_insert(now);
            let before = before.map(|known| &known.record);
            self.link_changes.handle_record(before, &record);
        }
        // A new record alone does not bring a hidden node back: a path must lead there.
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
        if known.record.neighbours.len() > 1 {
            self.passable.insert(node);
        } else {
            self.passable.remove(&node);
        }
        self.search_at.handle(now + EXPIRY);
        if let Some(before) = self.known.insert(node, known) {
            self.size = self.size.saturating_sub(before.size());
        }
        news
    }

    /// Searches the nodes reachable from `own`: one unreached for [`UNREACHED_MAX`] leaves the map
    /// and returns when there is a path again. Returns whether the map has changed.
    ///
    /// Cost    O(1) before [`Directory::poll_timeout`], then O(nodes + links)
    pub fn handle_timeout(&mut self, own: NodeId, now: Instant) -> bool {
        if now < self.poll_timeout() {
            return false;
        }
        let reachable = self.reachable(own);
        // Unreachable since the change that triggered this search.
        let since = self.changed.take().unwrap_or(now);
        let mut has_changed = false;
        let mut next = Instant::NEVER;
        self.known.retain(|node, known| {
            let was_hidden = known.is_hidden;
            known.unreached = match known.unreached {
                _ if reachable.contains(node) => None,
                before => before.or(Some(since)),
            };
            let gone = known.unreached.map(|since| since + UNREACHED);
            let aged = known.heard + EXPIRY;
            known.is_hidden = gone.is_some_and(|gone| gone <= now);
            if known.is_hidden != was_hidden {
                has_changed = true;
                self.link_changes.handle_node(&known.record);
            }
            // The own record never expires.
            if *node == own {
                return true;
            }
            // The node's next event: it leaves the map, or its record expires.
            next = next
                .min(gone.filter(|gone| *gone > now).unwrap_or(aged))
                .min(aged);
            if now >= aged {
                self.link_changes.handle_node(&known.record);
            }
            now < aged
        });
        self.publishing.retain(|node| self.known.contains_key(node));
        self.passable.retain(|node| self.known.contains_key(node));
        let sizes = self.known.values().map(Known::size);
        let size = sizes.fold(DataSize::ZERO, |sum, size| sum + size);
        has_changed |= size != self.size;
        self.size = size;
        self.hidden = self.known.values().filter(|known| known.is_hidden).count();
        self.search_at = Due::new(next);
        has_changed
    }

    /// Removes a node that does not belong to the network any more.
    pub fn remove(&mut self, node: NodeId) {
        if let Some(known) = self.known.remove(&node) {
            self.link_changes.handle_node(&known.record);
            self.publishing.remove(&node);
            self.passable.remove(&node);
            self.hidden -= usize::from(known.is_hidden);
            self.size = self.size.saturating_sub(known.size());
        }
    }

    /// Returns the links that may have come or gone since the last call.
    pub fn take_link_changes(&mut self) -> LinkChanges {
        core::mem::take(&mut self.link_changes)
    }

    /// Removes the node that has been off the map for longest; returns whether there was one.
    fn make_room(&mut self) -> bool {
        let hidden = self.known.iter().filter(|(_, known)| known.is_hidden);
        let longest = hidden.min_by_key(|(_, known)| known.unreached);
        let longest = longest.map(|(node, _)| *node);
        longest.is_some_and(|node| {
            self.remove(node);
            true
        })
    }

    /// Returns when [`Directory::handle_timeout`] may have work; `NEVER` while no other node is
    /// known.
    pub fn poll_timeout(&self) -> Instant {
        // A hidden node may have come back: search at once.
        let after = [Duration::ZERO, SEARCH_DELAY][usize::from(self.hidden == 0)];
        let changed = self.changed.map(|changed| changed + after);
        changed.map_or(self.search_at.at(), |changed| {
            changed.min(self.search_at.at())
        })
    }

    /// Returns the bytes that all records take on the wire, each once.
    pub const fn size(&self) -> DataSize {
        self.size
    }

    /// Returns the nodes that paths lead to, also through nodes that were off the map until now.
    fn reachable(&self, own: NodeId) -> BTreeSet<NodeId> {
        let record = |node: NodeId| self.known.get(&node).map(|known| &known.record);
        let mut reachable = BTreeSet::from([own]);
        let mut queue = VecDeque::from([own]);
        while let Some(near) = queue.pop_front() {
            for there in record(near).into_iter().flat_map(|near| &near.neighbours) {
                let Some(far) = record(there.node) else {
                    continue;
                };
                // Listed by both ends, or a one-sided link at the start of the path.
                let is_joined = far.neighbour(near).is_some() || (near == own && far.is_full());
                if is_joined && reachable.insert(there.node) {
                    queue.push_back(there.node);
                }
            }
        }
        // A link that only its far end lists reaches no node but that end.
        let is_full = |node| reachable.contains(&node) && record(node).is_some_and(Record::is_full);
        let ends = self.known.iter().filter(|(node, known)| {
            !reachable.contains(node) && known.record.neighbours.iter().any(|hub| is_full(hub.node))
        });
        let ends: Vec<NodeId> = ends.map(|(node, _)| *node).collect();
        reachable.extend(ends);
        reachable
    }

    /// Returns the records on the map, ordered by key.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        let on_map = self.known.values().filter(|known| !known.is_hidden);
        on_map.map(|known| &known.record)
    }

    /// Returns whether exactly this signed record is held for the node.
    pub fn has(&self, node: NodeId, signed: &Signed) -> bool {
        self.known
            .get(&node)
            .is_some_and(|known| known.signed == *signed)
    }

    /// Returns all signed records, those off the map included.
    pub fn signed(&self) -> impl Iterator<Item = &Signed> {
        self.kept().map(|(_, signed)| signed)
    }

    /// Returns every record with its signature, those off the map included, ordered by key.
    pub fn kept(&self) -> impl Iterator<Item = (&Record, &Signed)> {
        let known = self.known.values();
        known.map(|known| (&known.record, &known.signed))
    }

    /// Returns the record of a node with its signature, also if it is off the map.
    pub fn newest(&self, node: NodeId) -> Option<(&Record, &Signed)> {
        let known = self.known.get(&node);
        known.map(|known| (&known.record, &known.signed))
    }

    /// Returns the signed records with this key prefix, and their sequence numbers.
    ///
    /// Cost    O(log nodes)
    pub fn signed_of(&self, prefix: Prefix) -> impl Iterator<Item = (&Signed, u64)> {
        let known = self.range_of(prefix);
        known.map(|(_, known)| (&known.signed, known.record.sequence))
    }

    /// Returns the nodes with a record and this key prefix.
    pub(crate) fn nodes_of(&self, prefix: Prefix) -> impl Iterator<Item = NodeId> {
        self.range_of(prefix).map(|(node, _)| *node)
    }

    /// Returns the record of a node, off the map or on it.
    pub(crate) fn known_record(&self, node: NodeId) -> Option<&Record> {
        self.known.get(&node).map(|known| &known.record)
    }

    fn range_of(&self, prefix: Prefix) -> impl Iterator<Item = (&NodeId, &Known)> {
        let mut first = NodeId([0; 32]);
        first.0[..prefix.0.len()].copy_from_slice(&prefix.0);
        let known = self.known.range(first..);
        known.take_while(move |(node, _)| Prefix::from(**node) == prefix)
    }

    /// Returns the record of a node on the map.
    pub fn record(&self, node: NodeId) -> Option<&Record> {
        let known = self.known.get(&node).filter(|known| !known.is_hidden);
        known.map(|known| &known.record)
    }

    /// Returns the rate that a node announced for a link before it announced the rate as unknown.
    pub fn former_rate(&self, from: NodeId, to: NodeId) -> Option<Bitrate> {
        let former = &self.known.get(&from)?.former;
        let (_, rate) = former.iter().find(|(node, _)| *node == to)?;
        Some(*rate)
    }

    /// Returns the node that publishes a stream of this name; of several, the one with the smallest
    /// key.
    pub fn publisher(&self, name: &StreamName) -> Option<(NodeId, &Announced)> {
        self.publishers(name).next()
    }

    /// Returns the nodes that publish a stream of this name, ordered by key, with every stream of
    /// that name in the order of the record: the open one first, then those that drain.
    pub fn publishers(&self, name: &StreamName) -> impl Iterator<Item = (NodeId, &Announced)> {
        self.publishing.iter().flat_map(move |node| {
            let streams = self.record(*node).map(|record| &record.streams[..]);
            let streams = streams.unwrap_or_default().iter();
            let streams = streams.filter(move |stream| stream.name == *name);
            streams.map(move |stream| (*node, stream))
        })
    }

    /// Returns the records on the map that a path between these ends may contain, ordered by key: theirs,
    /// and those of nodes with several links.
    ///
    /// Cost    O(those), with a logarithm
    pub fn between(&self, ends: [NodeId; 2]) -> impl Iterator<Item = &Record> {
        let mut nodes: BTreeSet<NodeId> = self.passable.clone();
        nodes.extend(ends);
        nodes.into_iter().filter_map(|node| self.record(node))
    }

    /// Returns the links on the map, each once, with both ends' entries.
    ///
    /// Cost    O(links), and per link O(neighbours)
    pub fn links(&self) -> impl Iterator<Item = MapLink<'_>> {
        self.links_among(self.records(), |_| true)
    }

    /// Returns the links of nodes with these records that have both ends among the nodes of which this
    /// is true.
    ///
    /// Cost    O(links of those nodes), and per link O(neighbours)
    pub fn links_among<'a>(
        &'a self,
        records: impl Iterator<Item = &'a Record>,
        is_among: impl Fn(NodeId) -> bool + Copy,
    ) -> impl Iterator<Item = MapLink<'a>> {
        records.flat_map(move |near| {
            let neighbours = near.neighbours.iter();
            let among = neighbours.filter(move |there| is_among(there.node));
            among.filter_map(move |there| {
                let far = self.record(there.node)?;
                let back = far.neighbour(near.node);
                let is_listing_end = match back {
                    Some(_) => near.node < far.node,
                    None => far.is_full(),
                };
                is_listing_end.then_some(MapLink {
                    near,
                    far,
                    there,
                    back,
                })
            })
        })
    }

    /// Returns a path with the fewest hops from `from` to `to`, both included.
    ///
    /// Cost    O(nodes + links)
    pub fn path(&self, from: NodeId, to: NodeId) -> Option<Vec<NodeId>> {
        self.path_by(from, to, |_| true)
    }

    /// Returns a path with the fewest hops from `from` to `to`, both included, over links that
    /// `is_taken` accepts, each given near end first.
    ///
    /// Cost    O(nodes + links)
    pub fn path_by(
        &self,
        from: NodeId,
        to: NodeId,
        is_taken: impl Fn([NodeId; 2]) -> bool,
    ) -> Option<Vec<NodeId>> {
        let mut previous = BTreeMap::from([(from, from)]);
        if from == to {
            return walk_back(&previous, from, to);
        }
        let end = self.record(to)?;
        // Where no link to the target is taken, as that of a sink which is silent, the search would visit
        // the whole map to find that out.
        let mut ends = end.neighbours.iter();
        if !end.is_full() && !ends.any(|there| is_taken([there.node, to])) {
            return None;
        }
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            // Search from the target first: it usually has few links, which avoids scanning a hub's
            // hundreds. And a link that a full record does not list is found only here.
            let is_end = if end.neighbour(node).is_some() {
                self.lists(node, to) || self.is_full(node)
            } else {
                node == from && end.is_full() && self.lists(node, to)
            };
            if is_end && is_taken([node, to]) {
                previous.insert(to, node);
                return walk_back(&previous, from, to);
            }
            // A node that was visited is skipped before its own list is searched: one with many
            // links would be searched once per link.
            for next in self.neighbours(node).filter(|next| *next != to) {
                let is_joined = || self.lists(next, node) || (node == from && self.is_full(next));
                if previous.contains_key(&next) || !is_joined() || !is_taken([node, next]) {
                    continue;
                }
                previous.insert(next, node);
                queue.push_back(next);
            }
        }
        None
    }

    /// Returns whether two nodes have a link: both list it, or one does and the other's record is
    /// full.
    pub fn is_joined(&self, near: NodeId, far: NodeId) -> bool {
        // The far end first: it is mostly a leaf, and the list of a full record is searched last.
        if self.lists(far, near) {
            self.is_full(near) || self.lists(near, far)
        } else {
            self.is_full(far) && self.lists(near, far)
        }
    }

    /// Returns whether a node lists a link to another.
    fn lists(&self, from: NodeId, to: NodeId) -> bool {
        self.record(from)
            .is_some_and(|record| record.neighbour(to).is_some())
    }

    /// Returns whether a node may have more links than its record can list.
    fn is_full(&self, node: NodeId) -> bool {
        self.record(node).is_some_and(Record::is_full)
    }

    /// Returns the neighbours that a node lists.
    fn neighbours(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let record = self.record(node);
        let neighbours = record.map_or(&[][..], |record| &record.neighbours);
        neighbours.iter().map(|there| there.node)
    }
}

/// A link on the map.
#[derive(Clone, Copy, Debug)]
pub struct MapLink<'a> {
    /// The end that lists [`MapLink::there`].
    pub near: &'a Record,
    /// The other end.
    pub far: &'a Record,
    /// The near end's entry.
    pub there: &'a Neighbour,
    /// The far end's entry; `None` if its record is full and does not list this link.
    pub back: Option<&'a Neighbour>,
}

impl MapLink<'_> {
    /// Returns whether a path between `ends` may use the link: always if both ends list it, else
    /// only if the path begins or ends at the listing end.
    pub fn is_for(&self, ends: [NodeId; 2]) -> bool {
        self.back.is_some() || ends.contains(&self.near.node)
    }
}

fn walk_back(previous: &BTreeMap<NodeId, NodeId>, from: NodeId, to: NodeId) -> Option<Vec<NodeId>> {
    let mut path = Vec::from([to]);
    while path[path.len() - 1] != from {
        path.push(previous[&path[path.len() - 1]]);
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

    /// Returns the rates that the next record lists as unknown, from this record or an earlier one.
    ///
    /// Cost    O(links with unknown rates · links)
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

/// Returns whether two records of a node list the same neighbours.
fn lists_same_neighbours(before: &Record, after: &Record) -> bool {
    let ends = [before, after].map(|record| record.neighbours.iter().map(|link| link.node));
    let [before, after] = ends;
    before.eq(after)
}

/// Returns whether two records of a node differ in nothing but their sequence numbers.
///
/// A node announces measurements only after a lasting change (`gauge`), so every difference counts.
fn is_same(before: &Record, after: &Record) -> bool {
    (&before.name, before.slots, before.box_key) == (&after.name, after.slots, after.box_key)
        && (&before.neighbours, &before.streams) == (&after.neighbours, &after.streams)
}
