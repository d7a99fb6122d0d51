//! Restores the sequence of ADUs that travelled on separate streams, waiting for a missing one only
//! while that helps.
//!
//! *The idea.* ADUs arrive in any order. The next in sequence leaves at once. Behind a gap, ADUs
//! wait until the deadline of the first of them: a missing ADU is older, so it is due no later, and
//! a longer wait would only make present ADUs late. Without deadlines, a gap is given [`PATIENCE`]
//! if lost ADUs are resent (after an outage, the most important come first), else
//! [`PATIENCE_ONCE`]. The buffer is bounded; when it is full, the gap is given up.
//!
//! On a slow link, the least important ADUs may queue at the source for as long as the rest takes,
//! without any loss. So while a single plan carries the stream and some ADU was overtaken by far, a
//! gap is given the time in which the missing ADU can arrive behind everything that may be in
//! flight ([`BACKLOG_BYTES`]). After a change of plan, a path may have broken, and what was on it
//! is resent soon or never.
//!
//! *What it does not do.* It reads no clock and knows no subscriber; the [`Mailbox`] of a
//! subscriber contains it.
//!
//! *Sources.* RFC 3550 §A.8 on playout; docs/reference/protocol.md §7.

use alloc::collections::BTreeMap;
use core::ops::Range;

use thalweg_base::adu::{Adu, Flags};
use thalweg_base::id::Epoch;
use thalweg_base::limits::{KEEP_ADUS_MAX, MAILBOX_ADUS_MAX};
use thalweg_base::time::{Duration, Instant};

mod ending;
mod queue;
mod received;
#[cfg(test)]
mod tests;

pub use ending::Ending;
pub use queue::{Mail, Mailbox, Refusal, TAKE_GRACE};
pub use received::Received;
pub use thalweg_base::limits::{BACKLOG_BYTES, PATIENCE_MAX};
pub use thalweg_base::mailbox::{Depth, MailboxOptions, Policy};
pub use thalweg_base::seen::{Held, News, Seen};

/// How long a gap is waited for if the ADUs behind it have no deadline and lost ADUs are resent:
/// twice as long as a source keeps them.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long after an overtaken ADU more of them are expected: what a plan leaves out on purpose
/// never arrives.
pub const OVERTAKEN_PATIENCE: Duration = Duration::from_secs(120);

/// How far an ADU must be overtaken to have queued at its source: longer than one or two
/// retransmissions take.
pub const OVERTAKEN_LEAST: Duration = Duration::from_secs(1);

/// The wait for a gap if each ADU is sent once: by then it is lost, or was overtaken long ago.
pub const PATIENCE_ONCE: Duration = Duration::from_secs(2);

/// How long a subscriber that joins late waits for ADUs that were overtaken; a stream's very first
/// ADU ends this wait.
pub const START_PATIENCE: Duration = Duration::from_millis(200);

/// The same for a stream that has just started for its first sink, so that its first ADUs may have
/// been lost and be resent: three losses in a row over a round trip of 600 ms. ADUs that are sent
/// once are given [`PATIENCE_ONCE`].
pub const BEGIN_PATIENCE: Duration = Duration::from_secs(5);

/// A stream has just started if the first ADU to arrive has a sequence below this (half a second of
/// video with sound) and comes by the first plan. A later subscriber has another plan; the first
/// viewer of a stream that started long before need not wait for earlier ADUs.
pub const BEGIN_ADUS: u64 = 16;

/// The epoch of a stream's first plan.
pub const FIRST_PLAN: Epoch = Epoch(1);

/// Maximum number of ranges remembered that never arrive; further ones are waited for.
const GONE_RANGES_MAX: usize = 64;

/// The same for ranges of ADUs that waited and were removed: one between any two that wait, and as many
/// that something else divides.
const REMOVED_RANGES_MAX: usize = 2 * MAILBOX_ADUS_MAX;

/// How long after the last arrival the end of a stream waits for missing ADUs.
pub const END_PATIENCE: Duration = Duration::from_secs(2);

/// The verdict on an ADU that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coming {
    /// It leaves in its turn.
    InTime,
    /// Its place was given up, or it has left already: it is dropped.
    Late,
    /// It precedes the first ADU that left: it is dropped.
    BeforeFirst,
    /// A copy of it waits: it is dropped.
    Twice,
}

/// Restores the sequence of one stream's ADUs.
#[derive(Debug, Default)]
pub struct Resequencer {
    /// The next sequence to leave; unknown before the start.
    next: Option<u64>,
    /// The first sequence that left.
    first: u64,
    /// When to stop waiting for the start; unknown before the first ADU.
    start: Option<Instant>,
    /// ADUs behind a gap.
    waiting: BTreeMap<u64, Waiting>,
    /// The plan of the last ADU that left, and the newest plan of any ADU.
    delivered_epoch: Epoch,
    newest_epoch: Epoch,
    /// Payload bytes that have arrived, and when the last ADU did.
    bytes: u64,
    arrived: Instant,
    /// When an ADU last arrived that was overtaken by far.
    last_overtaken: Option<Instant>,
    skipped: u64,
    late: u64,
    /// Missing ranges that never arrive (start to end), disjoint and not adjacent.
    gone: BTreeMap<u64, u64>,
    /// Whether a gap is waited for while all that a source keeps waits behind it.
    is_patient: bool,
    /// Whether ADUs that waited were removed: each is a range that never arrives.
    has_removed: bool,
}

/// An ADU that waits.
#[derive(Debug)]
struct Waiting {
    adu: Adu,
    is_resent: bool,
    arrived: Instant,
    /// Payload bytes that had arrived by then.
    bytes: u64,
}

impl Resequencer {
    /// Waits for a gap while no more wait behind it than a source keeps, for every ADU of the stream
    /// is promised: its source resends by importance, so what waits may be all that it keeps. Without
    /// that promise the missing ADU may have been dropped for lack of room, and never comes.
    pub const fn wait_for_kept(&mut self) {
        self.is_patient = true;
    }

    /// Handles an ADU; `is_resent` tells whether lost ADUs of its stream are resent. An ADU that
    /// comes too late or twice is dropped and counted as late.
    ///
    /// Cost    O(log waiting)
    pub fn handle_adu(&mut self, adu: Adu, is_resent: bool, now: Instant) -> Coming {
        let payload_bytes = adu.payload.len();
        self.handle_sized((adu, payload_bytes), is_resent, now)
    }

    /// Handles an ADU that had this much payload.
    fn handle_sized(&mut self, sized: (Adu, usize), is_resent: bool, now: Instant) -> Coming {
        let coming = self.coming(sized.0.header.sequence.0);
        if coming == Coming::InTime {
            self.enqueue(sized, is_resent, now);
        } else {
            self.late += 1;
        }
        // It was not known to be missing, so it has not been counted as skipped yet.
        self.skipped += u64::from(coming == Coming::BeforeFirst);
        coming
    }

    /// Returns the verdict on an ADU with this sequence.
    pub fn coming(&self, sequence: u64) -> Coming {
        match self.next {
            Some(_) if sequence < self.first => Coming::BeforeFirst,
            Some(next) if sequence < next => Coming::Late,
            _ if self.waiting.contains_key(&sequence) => Coming::Twice,
            _ => Coming::InTime,
        }
    }

    fn enqueue(&mut self, (adu, payload_bytes): (Adu, usize), is_resent: bool, now: Instant) {
        let has_begun = adu.header.sequence.0 < BEGIN_ADUS && adu.header.epoch == FIRST_PLAN;
        let patience = match has_begun {
            false => START_PATIENCE,
            true if is_resent => BEGIN_PATIENCE,
            true => PATIENCE_ONCE,
        };
        self.start
            .get_or_insert(adu.header.deadline.min(now + patience));
        let mut behind = self.waiting.range(adu.header.sequence.0..);
        if let Some((_, next)) = behind.next()
            && next.arrived + OVERTAKEN_LEAST <= now
        {
            self.last_overtaken = Some(now);
        }
        self.bytes += payload_bytes as u64;
        self.arrived = now;
        self.newest_epoch = self.newest_epoch.max(adu.header.epoch);
        let waiting = Waiting {
            is_resent,
            arrived: now,
            bytes: self.bytes,
            adu,
        };
        self.waiting.insert(waiting.adu.header.sequence.0, waiting);
    }

    /// Returns when a gap before this ADU is given up, as far as is known.
    fn patience(&self, waiting: &Waiting) -> Instant {
        let header = &waiting.adu.header;
        if header.flags.contains(Flags::END) {
            return self.arrived + END_PATIENCE;
        }
        let is_one_plan = self.delivered_epoch == header.epoch && self.newest_epoch == header.epoch;
        let is_backlog = is_one_plan && self.bytes - waiting.bytes < BACKLOG_BYTES;
        let until = match (waiting.is_resent, self.last_overtaken) {
            (true, Some(overtaken)) if is_backlog => {
                let most = waiting.arrived + PATIENCE_MAX;
                most.min(overtaken + OVERTAKEN_PATIENCE)
                    .max(waiting.arrived + PATIENCE)
            }
            (true, _) => waiting.arrived + PATIENCE,
            (false, _) => waiting.arrived + PATIENCE_ONCE,
        };
        header.deadline.min(until)
    }

    /// Returns the next ADU in sequence, or the first behind a gap that is not worth waiting for.
    pub fn poll_adu(&mut self, now: Instant) -> Option<Adu> {
        let (&sequence, first) = self.waiting.first_key_value()?;
        if self.next.is_none() && sequence > 0 && self.start.is_some_and(|start| start > now) {
            return None;
        }
        if let Some(next) = self.next
            && sequence > next
            && self.may_still_arrive(next..sequence, first, now)
        {
            return None;
        }
        self.take_waiting()
    }

    /// Returns whether ADUs that are missing before a waiting one may still arrive in time.
    fn may_still_arrive(&self, missing: Range<u64>, first: &Waiting, now: Instant) -> bool {
        let most = if self.is_patient {
            KEEP_ADUS_MAX
        } else {
            MAILBOX_ADUS_MAX
        };
        let is_full = self.waiting.len() > most;
        !is_full && self.patience(first) > now && !self.is_gone(missing)
    }

    /// Handles sequences that never arrive, unless they have: ADUs that wait only for them wait no longer.
    ///
    /// Cost    O(log ranges), and of those that touch
    pub fn handle_gone(&mut self, gone: Range<u64>) {
        let from = self.next.map_or(gone.start, |next| gone.start.max(next));
        if from >= gone.end {
            return;
        }
        let (mut start, mut end) = (from, gone.end);
        let before = self
            .gone
            .range(..=start)
            .next_back()
            .map(|(at, to)| (*at, *to));
        if let Some((at, to)) = before.filter(|(_, to)| *to >= start) {
            (start, end) = (at, end.max(to));
        }
        while let Some((at, to)) = self
            .gone
            .range(start..=end)
            .next()
            .map(|(at, to)| (*at, *to))
        {
            self.gone.remove(&at);
            end = end.max(to);
        }
        self.gone.insert(start, end);
        let most = if self.has_removed {
            GONE_RANGES_MAX + REMOVED_RANGES_MAX
        } else {
            GONE_RANGES_MAX
        };
        if self.gone.len() > most {
            self.gone.pop_last();
        }
    }

    /// Removes an ADU that waits, and waits for it no longer. If none has left yet, the first that is known
    /// counts as the start.
    ///
    /// Cost    O(log waiting)
    pub fn remove(&mut self, sequence: u64) -> Option<Adu> {
        if self.next.is_none()
            && let Some((first, _)) = self.waiting.first_key_value()
        {
            (self.next, self.first) = (Some(*first), *first);
        }
        let Waiting { adu, .. } = self.waiting.remove(&sequence)?;
        self.has_removed = true;
        self.handle_gone(sequence..sequence + 1);
        Some(adu)
    }

    /// Returns the next sequence to leave; `None` before the start.
    pub const fn next_sequence(&self) -> Option<u64> {
        self.next
    }

    /// Returns the first ADU that waits, whatever is missing before it.
    pub fn first(&self) -> Option<&Adu> {
        let (_, first) = self.waiting.first_key_value()?;
        Some(&first.adu)
    }

    /// Returns whether none of these arrives.
    fn is_gone(&self, missing: Range<u64>) -> bool {
        let before = self.gone.range(..=missing.start).next_back();
        missing.is_empty() || before.is_some_and(|(_, to)| *to >= missing.end)
    }

    /// Returns the first waiting ADU, whatever is missing before it.
    pub fn take_waiting(&mut self) -> Option<Adu> {
        let (sequence, Waiting { adu, .. }) = self.waiting.pop_first()?;
        match self.next {
            Some(next) => self.skipped += sequence - next,
            None => self.first = sequence,
        }
        self.next = Some(sequence + 1);
        if !self.gone.is_empty() {
            self.gone.retain(|_, to| *to > sequence);
        }
        self.delivered_epoch = adu.header.epoch;
        Some(adu)
    }

    /// Returns when a gap, or the start, is given up; `NEVER` if nothing waits.
    pub fn poll_timeout(&self) -> Instant {
        let Some((sequence, first)) = self.waiting.first_key_value() else {
            return Instant::NEVER;
        };
        match (self.next, self.start) {
            (None, Some(start)) => start,
            (Some(next), _) if self.is_gone(next..*sequence) => first.arrived,
            _ => self.patience(first),
        }
    }

    /// Returns the number of waiting ADUs.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether something has left, and something is missing before the first waiting ADU.
    pub fn is_behind_gap(&self) -> bool {
        let first = self.waiting.first_key_value();
        let is_behind = |next: u64| first.is_some_and(|(first, _)| *first > next);
        self.next.is_some_and(is_behind)
    }

    /// Returns whether an ADU with this sequence would fill a gap before a waiting one.
    pub fn lacks(&self, sequence: u64) -> bool {
        let first = self.waiting.first_key_value();
        first.is_some_and(|(first, _)| sequence < *first)
    }

    /// Returns how many sequences were given up.
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns how many ADUs arrived after their place was given up, or twice.
    pub const fn late(&self) -> u64 {
        self.late
    }
}
