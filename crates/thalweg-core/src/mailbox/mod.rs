//! Puts ADUs that travelled on streams of their own back in sequence, waiting for a missing one only while it helps.
//!
//! *The idea.* ADUs arrive in any order. The next in sequence leaves at once. Behind a gap the rest waits, until the
//! deadline of the earliest waiting ADU: what is missing is older and so due no later, and to wait longer would make
//! the present late for the sake of the past. Without deadlines a gap is given [`PATIENCE`] if what is lost is sent again, for after
//! an outage what matters most comes first, and [`PATIENCE_ONCE`] if not. The buffer is bounded: when full, the gap is given up.
//!
//! On a slow line what matters least waits at its source for as long as the rest takes, and nothing is lost there. So while one plan
//! brings what left, what waits and all that comes, and some of that was overtaken by far, a gap is given as long as it may take until
//! the missing can have come behind all that may be under way ([`BACKLOG_BYTES`]). Where the plan has changed meanwhile, a way may have broken, and what was on it is
//! sent again soon or never. The end waits for as long as anything comes.
//!
//! *What it does not do.* It reads no clock and knows no subscriber: the [`Mailbox`] of one has it inside.
//!
//! *Sources.* RFC 3550 §A.8 on playout; docs/protocol.md §7.

use alloc::collections::BTreeMap;
use core::ops::Range;

use crate::adu::{Adu, Flags};
use crate::id::Epoch;
use crate::limits::MAILBOX_ADUS_MAX;
use crate::time::{Duration, Instant};

mod ending;
mod queue;
mod received;
mod seen;
#[cfg(test)]
mod tests;

pub use ending::Ending;
pub use queue::{Mail, Mailbox, Refusal, TAKE_GRACE};
pub use received::{News, Received};
pub use seen::{Held, Seen};

/// How long a gap is waited for when the ADUs behind it have no deadline, and what is lost is sent again: twice as long as its source
/// keeps it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The longest while one plan brings the stream: more is under way nowhere on lines of 67 kbit/s.
pub const PATIENCE_MAX: Duration = Duration::from_secs(600);

/// So much comes on a line at most before what was under way when the first of it came: four times the payload that a publisher has
/// under way, for a quarter of a stream may have to wait for the rest.
pub const BACKLOG_BYTES: u64 = 5_000_000;

/// So long is it believed that there is more behind the rest since an ADU came that was overtaken: what a plan leaves out on purpose
/// never comes.
pub const OVERTAKEN_PATIENCE: Duration = Duration::from_secs(120);

/// By so much an ADU was overtaken that waited at its source: longer than a repetition or two take.
pub const OVERTAKEN_LEAST: Duration = Duration::from_secs(1);

/// The same where each is sent once: what has not come by then is lost, or was long overtaken.
pub const PATIENCE_ONCE: Duration = Duration::from_secs(2);

/// How long one who joins late waits for what may have overtaken its predecessors; a stream's very first ADU ends it.
pub const START_PATIENCE: Duration = Duration::from_millis(200);

/// The same of a stream that has just begun for its first sink, so that its first ADUs may have been lost and be sent again: three
/// losses in a row over a round trip of 600 ms. What is sent once is given [`PATIENCE_ONCE`].
pub const BEGIN_PATIENCE: Duration = Duration::from_secs(5);

/// A stream has just begun if one of so many ADUs comes first, half a second of video with its sound, and by its first plan: who joins
/// later has another, and who is its first viewer later than that is not to wait for what was given before him.
pub const BEGIN_ADUS: u64 = 16;

/// The number of a stream's first plan.
pub const FIRST_PLAN: Epoch = Epoch(1);

/// Ranges of sequences of which it is remembered that they never come: what lies in further ones is waited for.
const GONE_RANGES_MAX: usize = 64;

/// How long the end of a stream waits for ADUs that are still missing, since one came.
pub const END_PATIENCE: Duration = Duration::from_secs(2);

/// What became of an ADU that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coming {
    /// It leaves when its turn comes.
    InTime,
    /// Its place had been given up, or it had left already: it is dropped.
    Late,
    /// It is older than the first that left: it is dropped.
    BeforeFirst,
    /// Its like waits: it is dropped.
    Twice,
}

/// Restores the sequence of one stream's ADUs.
#[derive(Debug, Default)]
pub struct Resequencer {
    /// The sequence that leaves next; unknown before the start.
    next: Option<u64>,
    /// The sequence that left first.
    first: u64,
    /// When the start is no longer waited for; unknown before the first ADU.
    start: Option<Instant>,
    /// What waits behind a gap.
    waiting: BTreeMap<u64, Waiting>,
    /// The plan that brought what left last, and the newest that brought anything.
    left: Epoch,
    newest: Epoch,
    /// Payload that has come, and when the last came.
    bytes: u64,
    came: Instant,
    /// When one came last that was overtaken by far.
    overtaken: Option<Instant>,
    skipped: u64,
    late: u64,
    /// What never comes, of what is missing: by its first sequence, none touching another.
    gone: BTreeMap<u64, u64>,
}

/// An ADU that waits.
#[derive(Debug)]
struct Waiting {
    adu: Adu,
    is_sent_again: bool,
    came: Instant,
    /// Payload that had come by then.
    bytes: u64,
}

impl Resequencer {
    /// Takes in an ADU, of a stream of which what is lost is sent again or not. One that is older than what has left is dropped and
    /// counted as late, as is one that comes twice.
    ///
    /// Cost    O(log waiting)
    pub fn handle_adu(&mut self, adu: Adu, is_sent_again: bool, now: Instant) -> Coming {
        let payload_bytes = adu.payload.len();
        self.handle_sized((adu, payload_bytes), is_sent_again, now)
    }

    /// Takes in an ADU that had so much payload.
    fn handle_sized(&mut self, sized: (Adu, usize), is_sent_again: bool, now: Instant) -> Coming {
        let coming = self.coming(sized.0.header.sequence.0);
        if coming == Coming::InTime {
            self.keep(sized, is_sent_again, now);
        } else {
            self.late += 1;
        }
        // That it was missing was not known.
        self.skipped += u64::from(coming == Coming::BeforeFirst);
        coming
    }

    /// Returns what would become of an ADU of this sequence.
    pub fn coming(&self, sequence: u64) -> Coming {
        match self.next {
            Some(_) if sequence < self.first => Coming::BeforeFirst,
            Some(next) if sequence < next => Coming::Late,
            _ if self.waiting.contains_key(&sequence) => Coming::Twice,
            _ => Coming::InTime,
        }
    }

    fn keep(&mut self, (adu, payload_bytes): (Adu, usize), is_sent_again: bool, now: Instant) {
        let has_begun = adu.header.sequence.0 < BEGIN_ADUS && adu.header.epoch == FIRST_PLAN;
        let patience = match has_begun {
            false => START_PATIENCE,
            true if is_sent_again => BEGIN_PATIENCE,
            true => PATIENCE_ONCE,
        };
        self.start
            .get_or_insert(adu.header.deadline.min(now + patience));
        let mut behind = self.waiting.range(adu.header.sequence.0..);
        if let Some((_, next)) = behind.next()
            && next.came + OVERTAKEN_LEAST <= now
        {
            self.overtaken = Some(now);
        }
        self.bytes += payload_bytes as u64;
        self.came = now;
        self.newest = self.newest.max(adu.header.epoch);
        let waiting = Waiting {
            is_sent_again,
            came: now,
            bytes: self.bytes,
            adu,
        };
        self.waiting.insert(waiting.adu.header.sequence.0, waiting);
    }

    /// Returns when a gap before this one is given up, as far as is known.
    fn patience(&self, waiting: &Waiting) -> Instant {
        let header = &waiting.adu.header;
        if header.flags.contains(Flags::END) {
            return self.came + END_PATIENCE;
        }
        let is_one_plan = self.left == header.epoch && self.newest == header.epoch;
        let is_backlog = is_one_plan && self.bytes - waiting.bytes < BACKLOG_BYTES;
        let until = match (waiting.is_sent_again, self.overtaken) {
            (true, Some(overtaken)) if is_backlog => {
                let most = waiting.came + PATIENCE_MAX;
                most.min(overtaken + OVERTAKEN_PATIENCE)
                    .max(waiting.came + PATIENCE)
            }
            (true, _) => waiting.came + PATIENCE,
            (false, _) => waiting.came + PATIENCE_ONCE,
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
            && self.is_waited_for(next..sequence, first, now)
        {
            return None;
        }
        self.take_waiting()
    }

    /// Returns whether what is missing before one that waits may come in time.
    fn is_waited_for(&self, missing: Range<u64>, first: &Waiting, now: Instant) -> bool {
        let is_full = self.waiting.len() > MAILBOX_ADUS_MAX;
        !is_full && self.patience(first) > now && !self.is_gone(missing)
    }

    /// Takes in that these sequences never come, if they have not: what waits behind them alone waits no longer.
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
        if self.gone.len() > GONE_RANGES_MAX {
            self.gone.pop_last();
        }
    }

    /// Returns whether none of these comes.
    fn is_gone(&self, missing: Range<u64>) -> bool {
        let before = self.gone.range(..=missing.start).next_back();
        missing.is_empty() || before.is_some_and(|(_, to)| *to >= missing.end)
    }

    /// Returns the first that waits, whatever is missing before it.
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
        self.left = adu.header.epoch;
        Some(adu)
    }

    /// Returns when a gap, or the start, is given up; `NEVER` if nothing waits.
    pub fn poll_timeout(&self) -> Instant {
        let Some((sequence, first)) = self.waiting.first_key_value() else {
            return Instant::NEVER;
        };
        match (self.next, self.start) {
            (None, Some(start)) => start,
            (Some(next), _) if self.is_gone(next..*sequence) => first.came,
            _ => self.patience(first),
        }
    }

    /// Returns how many ADUs wait for their turn.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether something is missing before the first that waits, and more than that has left.
    pub fn is_behind_gap(&self) -> bool {
        let first = self.waiting.first_key_value();
        let is_behind = |next: u64| first.is_some_and(|(first, _)| *first > next);
        self.next.is_some_and(is_behind)
    }

    /// Returns whether an ADU of this sequence is missing before one that waits, so that it makes others leave.
    pub fn lacks(&self, sequence: u64) -> bool {
        let first = self.waiting.first_key_value();
        first.is_some_and(|(first, _)| sequence < *first)
    }

    /// Returns how many sequences were given up.
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns how many ADUs came after their place had been given up, or twice.
    pub const fn late(&self) -> u64 {
        self.late
    }
}
