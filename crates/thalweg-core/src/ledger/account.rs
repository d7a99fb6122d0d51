//! One node's account of one plan: what it counts itself, what the nodes behind it say, and when to tell the node before.
//!
//! *The idea.* The driver gives the node's own [`Counts`]; the next node's reports come by the control plane. From both
//! follows what got lost between the two. With *S* sent and not given up, *L* left (a while ago), *A* arrived at the next
//! node by its own word, and *lost* and *returned* what was concluded so far:
//!
//! ```text
//! lost     += L − A − (lost − returned)      if positive: it left a while ago, and the next node, asked just now, has it not
//! returned += A − S + (lost − returned)      if positive: more came than can have left, so what was given up came after all
//! ```
//!
//! Between the two lies what is on its way, so neither is said of an ADU that may still be crossing.
//!
//! *When:* a sink reports at once, and then [`EVERY`] after its last report. A relay does not report what it has counted
//! before [`SLACK`] has passed, in which the nodes behind it may speak; what they say is passed on at once, with its own,
//! unless the last report is younger than `EVERY − SLACK`. So one report runs up the path and collects what all have to
//! say, and a drop is known at the source after `EVERY + SLACK` and the time of the way, not after a second for each hop.
//!
//! The first report says that the node counts, and perhaps nothing else: of one that was never heard nothing is concluded,
//! for it may speak an earlier version.
//!
//! *What is believed:* what the plan's next node says over its authenticated link; but not that more arrived there than were
//! sent, nor, at the source, that a node lost or delivered more than were given.

use alloc::vec::Vec;

use super::entries::Entries;
use super::{BANDS, Band, Counts, What};
use crate::event::DropCause;
use crate::id::{Epoch, StreamId};
use crate::limits::LEDGER_BEHIND_MAX;
use crate::time::{Duration, Instant};
use crate::wire::account::Report;

/// How often a node reports at most.
pub const EVERY: Duration = Duration::from_millis(1_000);

/// How much sooner a report may follow if it passes on what nodes behind say: above the jitter of a path.
pub const SLACK: Duration = Duration::from_millis(250);

/// How long what has left may be on its way to the next node and be missing in a report; twice as long without one, for the
/// next node reports what changes within [`EVERY`], and the way takes a while.
pub const GRACE: Duration = Duration::from_millis(1_000);

/// Where a node is on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The source of a path of so many nodes.
    Source(usize),
    /// Between source and sink.
    Relay,
    /// The sink.
    Sink,
}

/// Why a report is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Disbelief {
    /// The path ends before the node that it speaks of.
    #[error("a node {distance} hops behind the next one is not on the path")]
    OffPath {
        /// How far behind.
        distance: u8,
    },
    /// More came than were sent.
    #[error("{arrived} ADUs are said to have arrived of {sent} that were sent")]
    Arrived {
        /// How many are said to have come.
        arrived: u64,
        /// How many were sent.
        sent: u64,
    },
    /// More were lost or delivered than were given.
    #[error("{ended} ADUs are said to have ended of {given} that were given")]
    Ended {
        /// How many are said to have ended.
        ended: u64,
        /// How many were given.
        given: u64,
    },
    /// More counters than are kept.
    #[error("{0} counters are above the limit of {LEDGER_BEHIND_MAX}")]
    Many(usize),
}

/// One node's account of one plan.
#[derive(Clone, Debug)]
pub struct Account {
    place: Place,
    counts: Counts,
    own: Entries,
    /// The next node and those behind it.
    behind: Vec<Entries>,
    /// What the next node had counted as arrived before this account began, having been restarted.
    unrelated: [u64; BANDS],
    lost: [u64; BANDS],
    returned: [u64; BANDS],
    /// The next node has said something.
    is_heard: bool,
    /// What had left at an instant, [`GRACE`] before that or earlier, and as long before that again.
    young: (Instant, [u64; BANDS]),
    aged: [u64; BANDS],
    old: [u64; BANDS],
    /// When to look again for what does not arrive.
    look: Instant,
    told: Option<Instant>,
    /// The next report says that this node counts, even if it has nothing to say.
    is_greeting: bool,
    due: Instant,
}

impl Account {
    /// Returns the account of a node that begins to count now; `since` is larger than that of each of its lives before.
    pub fn new(place: Place, since: u64, now: Instant) -> Self {
        Self {
            place,
            counts: Counts::default(),
            own: Entries::new(since),
            behind: Vec::new(),
            unrelated: [0; BANDS],
            lost: [0; BANDS],
            returned: [0; BANDS],
            is_heard: false,
            young: (now, [0; BANDS]),
            aged: [0; BANDS],
            old: [0; BANDS],
            look: Instant::NEVER,
            told: None,
            is_greeting: true,
            due: now,
        }
    }

    /// Takes in what this node has counted so far.
    pub fn handle_counts(&mut self, counts: &Counts, now: Instant) {
        self.counts.clone_from(counts);
        self.reckon(false, now);
        self.state(now);
    }

    /// Takes in what the next node says.
    ///
    /// Fails   if it cannot be; then nothing of it is kept
    pub fn handle_report(&mut self, report: &Report, now: Instant) -> Result<(), Disbelief> {
        let mut behind = self.behind.clone();
        for statement in &report.statements {
            let at = usize::from(statement.distance);
            if let Place::Source(nodes) = self.place
                && at + 1 >= nodes
            {
                let distance = statement.distance;
                return Err(Disbelief::OffPath { distance });
            }
            if behind.len() <= at {
                behind.resize_with(at + 1, Entries::default);
            }
            behind[at].merge(statement);
        }
        let kept = behind.iter().map(Entries::len).sum();
        if kept > LEDGER_BEHIND_MAX {
            return Err(Disbelief::Many(kept));
        }
        let unrelated = self.check(&behind)?;
        self.unrelated = unrelated;
        self.behind = behind;
        self.is_heard = true;
        self.reckon(true, now);
        self.state(now);
        if self.behind.iter().any(Entries::is_fresh) {
            let earliest = self
                .told
                .map_or(now, |told| told + EVERY.saturating_sub(SLACK));
            self.due = self.due.min(earliest.max(now));
        }
        Ok(())
    }

    /// Compares what is said with what was sent; returns what of it is from before this account.
    fn check(&self, behind: &[Entries]) -> Result<[u64; BANDS], Disbelief> {
        let mut unrelated = self.unrelated;
        for band in Band::all() {
            let at = band.index();
            let arrived = behind
                .first()
                .map_or(0, |next| next.of(What::Arrived, band));
            let sent = self.counts.sent[at];
            let known = self.behind.first();
            if known.is_none_or(|next| next.of(What::Arrived, band) == 0) {
                unrelated[at] = arrived.saturating_sub(sent);
            }
            let arrived = arrived.saturating_sub(unrelated[at]);
            if arrived > sent {
                return Err(Disbelief::Arrived { arrived, sent });
            }
            // Only a source knows for certain that all it hears of was its own.
            let given = self.counts.arrived[at];
            let ended = behind.iter().map(|node| ended(node, band)).max();
            if let (Place::Source(_), Some(ended)) = (self.place, ended)
                && ended > given
            {
                return Err(Disbelief::Ended { ended, given });
            }
        }
        Ok(unrelated)
    }

    /// Concludes what got lost on the way to the next node, and what did not after all.
    fn reckon(&mut self, is_fresh: bool, now: Instant) {
        if self.young.0 + GRACE <= now {
            self.old = self.aged;
            self.aged = self.young.1;
            self.young = (now, self.counts.left);
        }
        self.look = Instant::NEVER;
        let Some(next) = self.behind.first().filter(|_| self.is_heard) else {
            return;
        };
        // Without a fresh report: what left so long ago that the next node has said all that it had to say of it.
        let gone = if is_fresh { &self.aged } else { &self.old };
        let mut is_open = false;
        for band in Band::all() {
            let at = band.index();
            let arrived = next
                .of(What::Arrived, band)
                .saturating_sub(self.unrelated[at]);
            let sent = self.counts.sent[at].saturating_sub(self.counts.failed[at]);
            // What is concluded already has not arrived either, so that all three are compared with what has.
            let accounted = (arrived + self.lost[at]).saturating_sub(self.returned[at]);
            self.lost[at] += gone[at].saturating_sub(accounted);
            let excess = (arrived + self.lost[at]).saturating_sub(sent + self.returned[at]);
            self.returned[at] += excess;
            is_open |= self.counts.left[at] > accounted;
        }
        if is_open {
            self.look = (self.young.0 + GRACE).max(now + SLACK);
        }
    }

    /// Brings what this node says up to what it has counted and concluded.
    fn state(&mut self, now: Instant) {
        let mut has_grown = false;
        let mut say = |what: What, band: Band, count: u64| {
            has_grown |= self.own.raise(what.number(band), count);
        };
        for band in Band::all() {
            let at = band.index();
            for cause in DropCause::ALL {
                let mut dropped = self.counts.dropped[cause.index()][at];
                if cause == DropCause::PathLost {
                    dropped += self.lost[at];
                }
                say(What::Dropped(cause), band, dropped);
            }
            say(What::Arrived, band, self.counts.arrived[at]);
            say(What::Delivered, band, self.counts.delivered[at]);
            say(What::Returned, band, self.returned[at]);
        }
        if has_grown {
            // A relay lets the nodes behind speak first, so that it need not speak twice.
            let patience = match self.place {
                Place::Sink => Duration::ZERO,
                Place::Source(_) | Place::Relay => SLACK,
            };
            let earliest = self.told.map_or(now, |told| told + EVERY);
            self.due = self.due.min(earliest.max(now) + patience);
        }
    }

    /// Has everything told again, for the node before may have forgotten it.
    pub fn refresh(&mut self, now: Instant) {
        self.own.refresh();
        self.behind.iter_mut().for_each(Entries::refresh);
        self.is_greeting = true;
        self.due = now;
    }

    /// Does what is due but the report.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.look <= now {
            self.reckon(false, now);
            self.state(now);
        }
    }

    /// Returns when there is something to do.
    pub fn poll_timeout(&self) -> Instant {
        match self.place {
            Place::Source(_) => self.look,
            Place::Relay | Place::Sink => self.look.min(self.due),
        }
    }

    /// Waits with the report until [`Account::refresh`], for nobody can be told now.
    pub const fn hold(&mut self) {
        self.due = Instant::NEVER;
    }

    /// Returns what the node before is to be told now.
    pub fn poll_report(&mut self, stream: StreamId, epoch: Epoch, now: Instant) -> Option<Report> {
        if self.due > now || matches!(self.place, Place::Source(_)) {
            return None;
        }
        self.due = Instant::NEVER;
        let is_greeting = core::mem::take(&mut self.is_greeting);
        let own = self.own.take_fresh(0, |_| true);
        let own = own.or_else(|| is_greeting.then(|| self.own.greeting()));
        // How many arrived is for the node before alone.
        let is_told = |what| what != What::Arrived;
        let behind = self.behind.iter_mut().enumerate();
        let behind = behind.filter_map(|(at, node)| node.take_fresh(at + 1, is_told));
        let statements: Vec<_> = own.into_iter().chain(behind).collect();
        if statements.is_empty() {
            return None;
        }
        self.told = Some(now);
        Some(Report {
            stream,
            epoch,
            statements,
        })
    }

    /// Returns how many ADUs the producer gave; at the source only.
    pub(super) fn given(&self) -> u64 {
        self.counts.arrived.iter().sum()
    }

    /// Returns the counters of all nodes, by their place on the path.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, u8, u64)> + '_ {
        let nodes = core::iter::once(&self.own).chain(&self.behind);
        nodes
            .enumerate()
            .flat_map(|(at, node)| node.all().map(move |(number, count)| (at, number, count)))
    }
}

/// Returns how many ADUs of a band ended at a node, by its own word.
fn ended(node: &Entries, band: Band) -> u64 {
    let dropped = DropCause::ALL.map(|cause| node.of(What::Dropped(cause), band));
    let ended = dropped.into_iter().fold(0, u64::saturating_add);
    let ended = ended.saturating_sub(node.of(What::Returned, band));
    ended.saturating_add(node.of(What::Delivered, band))
}
