//! Flooding of records to all neighbours: one by one while they are rare, batched while they come
//! in bursts.
//!
//! *The idea.* A record goes to every neighbour except the one that it came from. The cost is less
//! its bytes than the sends: a write, a packet and a system call for each neighbour, however small
//! the record. This adds up at a node with many links when records come in bursts, as when hundreds
//! of nodes have joined and all have measured for the first time. So such a node floods an isolated
//! record at once, and batches what follows within a time span.
//!
//! ```text
//!  records that come   a  b c   d e f        g                          h
//!                      │  └┬────┘ └┬─────────┘                          │
//!  what is flooded     a   bcd     efg                                  h
//! ```
//!
//! | content of a record | minimum time after the last batch | at 200 links |
//! |---|---|---|
//! | a link or stream is gone, a link became insecure, a stream is new, the node has a new key | none | |
//! | a link is new or has become worse, or anything else | [`SOON`] per link | 50 ms |
//! | links have improved, or nothing has changed | [`LATE`] per link | 500 ms |
//!
//! The last row was observed for ten seconds before it was announced (`thalweg_link::gauge`), or
//! only shows that the node is alive. An urgent record takes the waiting ones along. So does any
//! other message to a neighbour: batching never leaves a neighbour with less knowledge than a later
//! message needs.
//!
//! *What it does not do.* It makes no frame of several records: the driver writes what goes to a
//! neighbour at one moment in one piece.
//!
//! *Sources.* docs/concepts/routing.md §2.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;
use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;
use thalweg_base::wire::record::{Neighbour, Record};

use crate::effect::{Flooding, Output};
use crate::facts::Links;

/// A node with more links than this batches records.
pub(crate) const LINKS_FEW: usize = 16;

/// Minimum interval of batches per link: at most 4,000 sends a second, whatever comes.
pub(crate) const SOON: Duration = Duration::from_micros(250);

/// The same for records that are not urgent: 400 sends a second.
pub(crate) const LATE: Duration = Duration::from_micros(2_500);

/// How long a record may wait for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// No delay.
    Now,
    /// For [`SOON`] per link.
    Soon,
    /// For [`LATE`] per link, or until another message goes.
    Late,
}

/// Records that have not been sent to all neighbours.
#[derive(Debug)]
pub(crate) struct Flood {
    /// In order of arrival.
    waiting: BTreeMap<u64, Waiting>,
    /// The position of each node's record in `waiting`; a newer one moves to the end.
    places: BTreeMap<NodeId, u64>,
    /// The position up to which a neighbour has been sent records, if ahead of the last batch.
    sent_up_to: BTreeMap<NodeId, u64>,
    /// The neighbours that are not flooded what they do not need ([`crate::records::leaves`]).
    leaves: BTreeSet<NodeId>,
    next: u64,
    /// When the last batch was sent.
    last: Option<Instant>,
    /// When the next batch is sent.
    due: Instant,
}

/// A record that waits for a batch.
#[derive(Debug)]
struct Waiting {
    node: NodeId,
    sequence: u64,
    frame: Bytes,
    /// It says nothing that leaves need, except these.
    is_leaf: bool,
    also_to: Vec<NodeId>,
    /// The neighbours that sent it.
    known_by: Vec<NodeId>,
}

impl Default for Flood {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            places: BTreeMap::new(),
            sent_up_to: BTreeMap::new(),
            leaves: BTreeSet::new(),
            next: 0,
            last: None,
            due: Instant::NEVER,
        }
    }
}

impl Flood {
    /// Returns when the next batch is to be sent.
    pub(crate) const fn poll_timeout(&self) -> Instant {
        self.due
    }

    fn add(&mut self, mut waiting: Waiting) {
        let before = self.places.insert(waiting.node, self.next);
        // A leaf that was to be sent the one before needs this one.
        if let Some(before) = before.and_then(|place| self.waiting.remove(&place)) {
            waiting.is_leaf &= before.is_leaf;
            waiting.also_to.extend(before.also_to);
        }
        self.waiting.insert(self.next, waiting);
        self.next += 1;
    }

    /// Handles a record for all neighbours but the one that sent it; returns whether all that wait
    /// go now.
    pub(super) fn handle_record(&mut self, flooding: Flooding, links: usize, now: Instant) -> bool {
        let Flooding {
            of: (node, sequence),
            frame,
            from,
            is_leaf,
            also_to,
            pace,
        } = flooding;
        self.add(Waiting {
            node,
            sequence,
            frame,
            is_leaf,
            also_to,
            known_by: from.into_iter().collect(),
        });
        let span = Duration::from_nanos(pace.as_nanos() * links as u64);
        let due = self.last.map(|last| last + span).filter(|due| *due > now);
        if let Some(due) = due {
            self.due = self.due.min(due);
        }
        due.is_none()
    }

    /// Sends the batch: all neighbours have everything then.
    pub(super) fn flush(&mut self, links: &Links, now: Instant) -> Vec<Output> {
        let sends = links.peers().flat_map(|peer| self.waiting_for(peer));
        let sends = sends.collect();
        self.clear(now);
        sends
    }

    /// Handles a neighbour that already has a record.
    pub(crate) fn handle_known(&mut self, node: NodeId, sequence: u64, peer: NodeId) {
        let place = self.places.get(&node);
        let waiting = place.and_then(|place| self.waiting.get_mut(place));
        if let Some(waiting) = waiting.filter(|waiting| waiting.sequence == sequence) {
            waiting.known_by.push(peer);
        }
    }

    /// Handles a neighbour that has been sent, or is being sent, all records.
    pub(crate) fn handle_synced(&mut self, peer: NodeId) {
        if !self.waiting.is_empty() {
            self.sent_up_to.insert(peer, self.next);
        }
    }

    /// Handles a neighbour that is a leaf from now on, or no longer.
    pub(super) fn set_leaf(&mut self, peer: NodeId, is_leaf: bool) {
        if is_leaf {
            self.leaves.insert(peer);
        } else {
            self.leaves.remove(&peer);
        }
    }

    /// Removes a record that no longer belongs here.
    pub(crate) fn remove(&mut self, node: NodeId) {
        let place = self.places.remove(&node);
        place.map(|place| self.waiting.remove(&place));
    }

    /// Returns the waiting records for a neighbour.
    pub(super) fn waiting_for(&self, peer: NodeId) -> impl Iterator<Item = Output> + '_ {
        let from = self.sent_up_to.get(&peer).copied().unwrap_or(0);
        let waiting = self.waiting.range(from..).map(|(_, waiting)| waiting);
        let is_to_leaf = self.leaves.contains(&peer);
        let is_needed = move |waiting: &&Waiting| {
            !is_to_leaf || !waiting.is_leaf || waiting.also_to.contains(&peer)
        };
        let waiting = waiting.filter(is_needed);
        let lacking = waiting.filter(move |waiting| !waiting.known_by.contains(&peer));
        lacking.map(move |waiting| Output::Send {
            to: peer,
            frame: waiting.frame.clone(),
        })
    }

    /// Handles the end of a batch: all neighbours have everything.
    fn clear(&mut self, now: Instant) {
        self.waiting.clear();
        self.places.clear();
        self.sent_up_to.clear();
        (self.last, self.due) = (Some(now), Instant::NEVER);
    }
}

impl Haste {
    /// Returns how long a record may wait, per link.
    pub(crate) const fn pace(self) -> Duration {
        match self {
            Self::Now => Duration::ZERO,
            Self::Soon => SOON,
            Self::Late => LATE,
        }
    }

    /// Returns how long a record may wait, compared with the one before of its node.
    pub(crate) fn of(before: Option<&Record>, after: &Record) -> Self {
        let Some(before) = before else {
            return if after.streams.is_empty() {
                Self::Soon
            } else {
                Self::Now
            };
        };
        if (&before.streams, before.box_key) != (&after.streams, after.box_key) {
            return Self::Now;
        }
        let links = after.neighbours.iter().map(|link| (link.node, link));
        let links: BTreeMap<NodeId, &Neighbour> = links.collect();
        let is_same_node = (&before.name, before.slots) == (&after.name, after.slots);
        let mut haste = if is_same_node && links.len() == before.neighbours.len() {
            Self::Late
        } else {
            Self::Soon
        };
        for was in &before.neighbours {
            match links.get(&was.node) {
                None => return Self::Now,
                Some(is) if was.secure && !is.secure => return Self::Now,
                Some(is) if is_worse(was, is) => haste = Self::Soon,
                Some(_) => {}
            }
        }
        haste
    }
}

/// Returns whether a link is worse than before in any respect. A known rate counts as worse than an
/// unknown one.
fn is_worse(was: &Neighbour, is: &Neighbour) -> bool {
    let rate = |link: &Neighbour| Some(link.rate).filter(|rate| *rate != Bitrate::ZERO);
    let is_slower = match (rate(was), rate(is)) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(was), Some(is)) => is < was,
    };
    is_slower || is.rtt > was.rtt || is.loss_ppm > was.loss_ppm
}
