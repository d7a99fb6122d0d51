//! Records on their way to all neighbours: one by one while they come seldom, together while they come in a swarm.
//!
//! *The idea.* A record goes to every neighbour but the one that it came from. What that costs is less its bytes than the
//! sending: a write, a packet and a call of the system for each neighbour, however small the record. A node of many links is
//! where that adds up, and where records come in swarms, as when hundreds of nodes have joined it and all have measured for
//! the first time. So it passes on what comes alone at once, and what follows within a span together, when the span is over.
//!
//! ```text
//!  records that come   a  b c   d e f        g                          h
//!                      │  └┬────┘ └┬─────────┘                          │
//!  what is passed on   a   bcd     efg                                  h
//! ```
//!
//! | what a record says | it waits, after the last | at 200 links |
//! |---|---|---|
//! | a link or a stream is gone, a link can be listened to, a stream is published, the node has another key | not at all | |
//! | a link has come or become worse, or anything else | [`SOON`] a link | 50 ms |
//! | links are better than they were, or all is as it was | [`LATE`] a link | 500 ms |
//!
//! The last is what has been watched for ten seconds before it is told (`routing::gauge`), or is told for nothing but that the
//! node lives. What goes at once takes along what waits; so does whatever else is sent to a neighbour, which therefore never
//! knows of less than it would have without this.
//!
//! *What it does not do.* It makes no frame of several records: who drives the node writes what goes to a neighbour at one
//! moment in one piece.
//!
//! *Sources.* docs/routing.md §2.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;

use super::{Controller, Output};
use crate::id::NodeId;
use crate::time::{Duration, Instant};
use crate::units::Bitrate;
use crate::wire::record::{Neighbour, Record};

/// A node of more links than this gathers what it passes on.
pub(super) const LINKS_FEW: usize = 16;

/// For each of its links it waits so long between two sendings, which makes 4,000 a second of them, whatever comes.
pub(super) const SOON: Duration = Duration::from_micros(250);

/// The same before what nobody waits for: 400 a second.
pub(super) const LATE: Duration = Duration::from_micros(2_500);

/// How long a record may wait to be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Haste {
    /// Not at all.
    Now,
    /// A little.
    Soon,
    /// Until something else goes, or for ten times as long.
    Late,
}

/// What has been flooded and has not gone to all neighbours.
#[derive(Debug)]
pub(super) struct Flood {
    /// In the order in which it came.
    waiting: BTreeMap<u64, Waiting>,
    /// Where the record of each node is among that: a newer one takes its place at the end.
    places: BTreeMap<NodeId, u64>,
    /// Up to where each neighbour has been sent it, if it has been sent something since the last time that all were.
    told: BTreeMap<NodeId, u64>,
    next: u64,
    /// When all neighbours were sent something last.
    last: Option<Instant>,
    /// When what waits goes.
    due: Instant,
}

/// A record that waits.
#[derive(Debug)]
struct Waiting {
    node: NodeId,
    sequence: u64,
    frame: Bytes,
    /// Which neighbours have sent it.
    had_by: Vec<NodeId>,
}

impl Default for Flood {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            places: BTreeMap::new(),
            told: BTreeMap::new(),
            next: 0,
            last: None,
            due: Instant::NEVER,
        }
    }
}

impl Flood {
    /// Returns when what waits is to be passed on.
    pub(super) const fn poll_timeout(&self) -> Instant {
        self.due
    }

    fn add(&mut self, waiting: Waiting) {
        let before = self.places.insert(waiting.node, self.next);
        before.map(|place| self.waiting.remove(&place));
        self.waiting.insert(self.next, waiting);
        self.next += 1;
    }

    /// Takes in that a neighbour has a record already.
    pub(super) fn handle_known(&mut self, node: NodeId, sequence: u64, peer: NodeId) {
        let place = self.places.get(&node);
        let waiting = place.and_then(|place| self.waiting.get_mut(place));
        if let Some(waiting) = waiting.filter(|waiting| waiting.sequence == sequence) {
            waiting.had_by.push(peer);
        }
    }

    /// Takes in that a neighbour is told, or has been, all that is known.
    pub(super) fn handle_told(&mut self, peer: NodeId) {
        if !self.waiting.is_empty() {
            self.told.insert(peer, self.next);
        }
    }

    /// Forgets a record that does not belong here any more.
    pub(super) fn remove(&mut self, node: NodeId) {
        let place = self.places.remove(&node);
        place.map(|place| self.waiting.remove(&place));
    }

    /// Returns what waits for a neighbour.
    fn of(&self, peer: NodeId) -> impl Iterator<Item = Output> + '_ {
        let from = self.told.get(&peer).copied().unwrap_or(0);
        let waiting = self.waiting.range(from..).map(|(_, waiting)| waiting);
        let lacking = waiting.filter(move |waiting| !waiting.had_by.contains(&peer));
        lacking.map(move |waiting| Output::Send {
            to: peer,
            frame: waiting.frame.clone(),
        })
    }

    /// Begins anew: all neighbours have everything.
    fn clear(&mut self, now: Instant) {
        self.waiting.clear();
        self.places.clear();
        self.told.clear();
        (self.last, self.due) = (Some(now), Instant::NEVER);
    }
}

impl Haste {
    /// Returns how long what a record says may wait, behind the one before of its node.
    pub(super) fn of(before: Option<&Record>, after: &Record) -> Self {
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

impl Controller {
    /// Returns how long what a record says may wait to be passed on from here.
    pub(super) fn haste(&self, record: &Record) -> Haste {
        let before = self.directory.record(record.node);
        let is_old = before.is_some_and(|before| before.sequence >= record.sequence);
        // Most of what comes in a swarm is known by then, and is not passed on at all.
        if is_old || self.links.len() <= LINKS_FEW {
            return Haste::Now;
        }
        Haste::of(before, record)
    }

    /// Passes a record on to all neighbours but the one that sent it; at once, or with others.
    pub(super) fn flood(
        &mut self,
        (node, sequence): (NodeId, u64),
        frame: Bytes,
        from: Option<NodeId>,
        haste: Haste,
        now: Instant,
    ) {
        self.flood.add(Waiting {
            node,
            sequence,
            frame,
            had_by: from.into_iter().collect(),
        });
        let links = self.links.len();
        let pace = match haste {
            Haste::Now => Duration::ZERO,
            Haste::Soon => SOON,
            Haste::Late => LATE,
        };
        let span = Duration::from_nanos(pace.as_nanos() * links as u64);
        match self.flood.last.map(|last| last + span) {
            Some(due) if due > now => self.flood.due = self.flood.due.min(due),
            _ => self.pour(now),
        }
    }

    /// Passes on what has waited for long enough.
    pub(super) fn time_flood(&mut self, now: Instant) {
        if self.flood.due <= now {
            self.pour(now);
        }
    }

    fn pour(&mut self, now: Instant) {
        for peer in self.links.keys() {
            self.outputs.extend(self.flood.of(*peer));
        }
        self.flood.clear(now);
    }

    /// Sends a neighbour what waits for it, before something else.
    pub(super) fn pour_to(&mut self, peer: NodeId) {
        self.outputs.extend(self.flood.of(peer));
        self.flood.handle_told(peer);
    }
}

/// Whether a link is in any way worse than it was; to know its rate is worse than not to.
fn is_worse(was: &Neighbour, is: &Neighbour) -> bool {
    let rate = |link: &Neighbour| Some(link.rate).filter(|rate| *rate != Bitrate::ZERO);
    let is_slower = match (rate(was), rate(is)) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(was), Some(is)) => is < was,
    };
    is_slower || is.rtt > was.rtt || is.loss_ppm > was.loss_ppm
}
