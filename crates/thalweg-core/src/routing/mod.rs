//! The directory: the newest record of every node, and the ways between them.
//!
//! *The idea.* Each node signs a record of itself and floods it; whoever holds the newest record of everyone holds the
//! same map. A link counts only if *both* ends list it, so one living end is enough to take a dead link off the map. A
//! record that is not refreshed ages out, so a dead node leaves it too.
//!
//! *What it does not do.* It checks no signature and sends nothing: the node floods what [`Directory::handle_record`]
//! calls news. Route choice by cost is the planner's; [`Directory::path`] only finds a way for control messages.
//!
//! *Sources.* docs/protocol.md §5; link-state routing (OSPF, RFC 2328 §13) without areas.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::id::{NodeId, StreamName};
use crate::limits::{PATH_NODES_MAX, RECORDS_MAX};
use crate::time::{Duration, Instant};
use crate::wire::control::SIGNATURE_BYTES;
use crate::wire::record::{Announced, Neighbour, Record};

pub mod pulse;
#[cfg(test)]
mod tests;

/// How often a node repeats its record although nothing changed.
pub const RECORD_REFRESH: Duration = Duration::from_secs(15);

/// After this long without news of it a node is off the map: four refreshes may be lost.
pub const RECORD_AGE_MAX: Duration = Duration::from_secs(4 * 15 + 5);

/// The age at which a record goes: right after the last moment of [`RECORD_AGE_MAX`].
const AGED: Duration = Duration::from_nanos(RECORD_AGE_MAX.as_nanos() + 1);

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
    /// Before this nobody's age is above the limit; so ages are looked at once an age, not once a record.
    aging: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Known {
    record: Record,
    signed: Signed,
    heard: Instant,
}

impl Directory {
    /// Takes in a record whose signature the caller has checked.
    ///
    /// Cost    O(log nodes) and a comparison with the record before
    pub fn handle_record(&mut self, record: Record, signed: Signed, now: Instant) -> News {
        let full = self.known.len() >= RECORDS_MAX;
        let news = match self.known.get(&record.node) {
            Some(known) if known.record.sequence >= record.sequence => return News::Old,
            None if full => return News::Full,
            Some(known) if same_but_for_weather(&known.record, &record) => News::Refreshed,
            _ => News::Changed,
        };
        self.known.insert(
            record.node,
            Known {
                record,
                signed,
                heard: now,
            },
        );
        self.aging = Some(self.poll_timeout().min(now + AGED));
        news
    }

    /// Forgets the nodes that have not been heard of for [`RECORD_AGE_MAX`], except `own`; says whether there were any.
    ///
    /// Cost    O(1) before [`Directory::poll_timeout`], then O(nodes)
    pub fn handle_timeout(&mut self, own: NodeId, now: Instant) -> bool {
        if now < self.poll_timeout() {
            return false;
        }
        let before = self.known.len();
        self.known
            .retain(|node, known| *node == own || now < known.heard + AGED);
        let others = self.known.iter().filter(|(node, _)| **node != own);
        self.aging = others.map(|(_, known)| known.heard + AGED).min();
        self.known.len() != before
    }

    /// Forgets a node that does not belong here any more.
    pub fn remove(&mut self, node: NodeId) {
        self.known.remove(&node);
    }

    /// Returns when [`Directory::handle_timeout`] may have something to do, `NEVER` while nobody else is known.
    pub fn poll_timeout(&self) -> Instant {
        self.aging.unwrap_or(Instant::NEVER)
    }

    /// Returns all records, ordered by key.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.known.values().map(|known| &known.record)
    }

    /// Returns all records as they were signed, for a new neighbour.
    pub fn signed(&self) -> impl Iterator<Item = &Signed> {
        self.known.values().map(|known| &known.signed)
    }

    /// Returns the record of a node.
    pub fn record(&self, node: NodeId) -> Option<&Record> {
        self.known.get(&node).map(|known| &known.record)
    }

    /// Returns the node that publishes a stream of this name; of several, the one of the smallest key.
    pub fn publisher(&self, name: &StreamName) -> Option<(NodeId, &Announced)> {
        self.records().find_map(|record| {
            let stream = record.streams.iter().find(|stream| stream.name == *name)?;
            Some((record.node, stream))
        })
    }

    /// Returns the links that both ends list, each once, with what each end says of it.
    pub fn links(&self) -> impl Iterator<Item = (&Record, &Neighbour, &Record, &Neighbour)> {
        self.records().flat_map(move |near| {
            near.neighbours
                .iter()
                .filter(|there| near.node < there.node)
                .filter_map(move |there| {
                    let far = self.record(there.node)?;
                    let back = far.neighbours.iter().find(|back| back.node == near.node)?;
                    Some((near, there, far, back))
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
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            if node == to {
                return walk_back(&came_from, from, to);
            }
            for next in self
                .mutual_neighbours(node)
                .filter(|next| is_taken([node, *next]))
            {
                came_from.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    node
                });
            }
        }
        None
    }

    /// Returns whether both of two nodes list the other.
    pub fn is_joined(&self, near: NodeId, far: NodeId) -> bool {
        let lists = |from, to| {
            let record = self.record(from);
            record.is_some_and(|record| record.neighbours.iter().any(|there| there.node == to))
        };
        lists(near, far) && lists(far, near)
    }

    fn mutual_neighbours(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let near = self
            .record(node)
            .map_or(&[][..], |record| &record.neighbours);
        near.iter().map(|there| there.node).filter(move |there| {
            self.record(*there)
                .is_some_and(|far| far.neighbours.iter().any(|b| b.node == node))
        })
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

/// Returns whether two records of a node differ in nothing that a plan stands on.
///
/// Round-trip times and losses move all the time; a plan is made anew only when links, rates, streams or slots change.
fn same_but_for_weather(before: &Record, after: &Record) -> bool {
    let still = |neighbour: &Neighbour| (neighbour.node, neighbour.rate, neighbour.secure);
    before
        .neighbours
        .iter()
        .map(still)
        .eq(after.neighbours.iter().map(still))
        && (&before.name, before.slots, before.box_key, &before.streams)
            == (&after.name, after.slots, after.box_key, &after.streams)
}
