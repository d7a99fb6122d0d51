//! What became of the ADUs of one plan on this node, by cause and band of importance: the node's part of the stream's ledger.
//!
//! *The idea.* The data path counts without a lock; now and then the control task reads what has changed and gives it to
//! the control plane, which tells the node before ([`thalweg_core::ledger`]). The rule is that of the ledger: the node that
//! had an ADU whole last accounts for it. So what is sent on while it still arrives is the node's before if the rest does
//! not come, and this one's if it comes, or if this node gives it up and wants no more of it.
//!
//! *Marks.* What goes by datagram bears a mark ([`Mark`]), which takes turns with time; the source paints it, and whoever sends
//! it on leaves it, unless the hop acknowledges what it carries. When another mark comes, the control task is woken.
//!
//! *What it does not do.* It tells nobody, and does not count what the end of a stream becomes.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_core::adu::{Flags, Header, Mark};
use thalweg_core::event::DropCause;
use thalweg_core::ledger::{BANDS, Band, Counts};
use thalweg_core::time::{Duration, Instant};
use thalweg_net::link::Rest;
use thalweg_net::{Outcome, Payload, StreamCode};
use tokio::sync::Notify;

use super::Map;

#[cfg(test)]
mod tests;

type Row = [AtomicU64; BANDS];
type Marked = [Row; Mark::COUNT];

/// The counters of one plan on this node.
#[derive(Debug, Default)]
pub(crate) struct Account {
    arrived: Marked,
    sent: Marked,
    left: Marked,
    failed: Marked,
    /// The bytes of the payloads handed to the next link.
    bytes: AtomicU64,
    delivered: Row,
    dropped: [Row; DropCause::ALL.len()],
    /// At the source: those that the sink says that it has, and those that were given again under another plan.
    had: Row,
    resent: Row,
    /// The end of the stream was copied for this plan.
    is_end_copied: AtomicBool,
    has_changed: AtomicBool,
    /// When the counters were read last, in nanoseconds of the node's clock.
    read: AtomicU64,
    /// The mark that came last.
    mark: AtomicU8,
    /// Told when that is another.
    turned: Arc<Notify>,
    /// ADUs that were sent on before they were whole, by sequence.
    passing: Mutex<Map<u64, Passing>>,
}

/// What a plan asked of its next link, and what was dropped of that here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Bytes of payloads handed to the link.
    pub(crate) bytes: u64,
    /// ADUs that were to go over it, by band.
    pub(crate) given: [u64; BANDS],
    /// Of those, given up, by cause and band.
    pub(crate) dropped: [[u64; BANDS]; DropCause::ALL.len()],
}

/// An ADU that was sent on before it was whole.
#[derive(Debug)]
struct Passing {
    rest: Rest,
    /// The mark that it came with.
    came: Mark,
    /// Why it was given up, if it was.
    failed: Option<(Header, DropCause)>,
}

impl Passed {
    /// Returns how many ADUs were to go over the link.
    pub(crate) fn adus(&self) -> u64 {
        self.given.iter().sum()
    }

    /// Adds what was counted of another plan.
    pub(crate) fn add(&mut self, other: &Self) {
        self.join(other, u64::saturating_add);
    }

    /// Leaves what was counted since the counters were these.
    pub(crate) fn subtract(&mut self, before: &Self) {
        self.join(before, u64::saturating_sub);
    }

    fn join(&mut self, other: &Self, with: impl Fn(u64, u64) -> u64) {
        self.bytes = with(self.bytes, other.bytes);
        let own = self
            .given
            .iter_mut()
            .chain(self.dropped.iter_mut().flatten());
        let others = other.given.iter().chain(other.dropped.iter().flatten());
        for (own, other) in own.zip(others) {
            *own = with(*own, *other);
        }
    }
}

impl Account {
    /// Returns counters; who is given is told when another mark comes.
    pub(crate) fn new(turned: Arc<Notify>) -> Self {
        Self {
            turned,
            ..Self::default()
        }
    }

    fn count(&self, row: &Row, header: &Header) {
        if !header.flags.contains(Flags::END) {
            self.count_in(row, Band::of(header.importance));
        }
    }

    fn count_in(&self, row: &Row, band: Band) {
        row[band.index()].fetch_add(1, Relaxed);
        self.has_changed.store(true, Relaxed);
    }

    /// Counts by the mark that an ADU bears on its way to the next node.
    fn count_marked(&self, rows: &Marked, header: &Header) {
        self.count(&rows[header.mark().index()], header);
    }

    fn arrived_with(&self, came: Mark, header: &Header) {
        self.count(&self.arrived[came.index()], header);
        let mark = came.index() as u8;
        if self.mark.load(Relaxed) != mark {
            self.mark.store(mark, Relaxed);
            self.turned.notify_one();
        }
    }

    /// Paints an ADU for the next hop: one that is acknowledged there bears no mark, one that is not bears that which it came
    /// with, or, if it came with none, that which is in use.
    pub(crate) fn paint(&self, header: &mut Header, is_acknowledged: bool) {
        if is_acknowledged {
            header.set_mark(Mark::NONE);
        } else if header.mark() == Mark::NONE {
            let last = Mark::from_index(self.mark.load(Relaxed));
            header.set_mark(if last == Mark::NONE {
                last.next()
            } else {
                last
            });
        }
    }

    fn passing(&self) -> MutexGuard<'_, Map<u64, Passing>> {
        // No code that can panic runs under this lock.
        self.passing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An ADU is here whole, or a producer gives it.
    pub(crate) fn arrived(&self, header: &Header) {
        self.arrived_with(header.mark(), header);
    }

    /// An ADU is copied here for this plan; its end is to be known at once, for the source waits for what was copied by then.
    pub(crate) fn copied(&self, header: &Header) {
        if header.flags.contains(Flags::END) {
            self.is_end_copied.store(true, Relaxed);
            self.has_changed.store(true, Relaxed);
            self.turned.notify_one();
        }
    }

    /// An ADU that was here whole goes no further.
    pub(crate) fn dropped(&self, header: &Header, cause: DropCause) {
        self.count(&self.dropped[cause.index()], header);
    }

    /// An ADU is refused, whether it is here whole or not.
    pub(crate) fn refused(&self, header: &Header, cause: DropCause) {
        self.arrived(header);
        self.dropped(header, cause);
    }

    /// Subscribers here are given an ADU.
    pub(crate) fn delivered(&self, header: &Header) {
        self.count(&self.delivered, header);
    }

    /// The sink says that it has an ADU that went by this plan.
    pub(crate) fn had(&self, band: Band) {
        self.count_in(&self.had, band);
    }

    /// An ADU that went by this plan is given again under another.
    pub(crate) fn resent(&self, band: Band) {
        self.count_in(&self.resent, band);
    }

    /// An ADU that came with a mark is handed to the next link; one that still arrives is not this node's yet.
    pub(crate) fn sent(&self, came: Mark, header: &Header, payload: &mut Payload) {
        match payload {
            Payload::Arriving(body) if body.is_whole() => self.arrived_with(came, header),
            Payload::Arriving(body) => {
                let passing = Passing {
                    rest: body.rest(),
                    came,
                    failed: None,
                };
                self.passing().insert(header.sequence.0, passing);
            }
            Payload::Whole(_) => {}
        }
        self.bytes.fetch_add(payload.bytes() as u64, Relaxed);
        self.count_marked(&self.sent, header);
    }

    /// A link says what became of an ADU.
    pub(crate) fn ended(&self, header: &Header, outcome: Outcome) {
        let cause = match outcome {
            // Who does not know the plan cannot account for its ADUs, and a deadline is passed here first.
            Outcome::Refused(StreamCode::UnknownStream | StreamCode::Expired) => {
                outcome.drop_cause()
            }
            // Who refuses an ADU accounts for it.
            Outcome::Refused(_) => None,
            _ => outcome.drop_cause(),
        };
        let mut all = self.passing();
        let passing = all.remove(&header.sequence.0);
        match (cause, passing) {
            (Some(cause), Some(passing)) if passing.rest.has_failed().is_none() => {
                let failed = Some((*header, cause));
                all.insert(header.sequence.0, Passing { failed, ..passing });
                self.has_changed.store(true, Relaxed);
            }
            (Some(cause), Some(passing)) => self.gave_up(header, cause, &passing),
            (Some(cause), None) => self.failed(header, cause),
            (None, passing) => {
                if let Some(passing) = passing {
                    self.arrived_with(passing.came, header);
                }
                self.count_marked(&self.left, header);
            }
        }
    }

    fn failed(&self, header: &Header, cause: DropCause) {
        self.count_marked(&self.failed, header);
        self.dropped(header, cause);
    }

    /// Counts an ADU that was given up before it was whole, now that it is known whether the rest came.
    fn gave_up(&self, header: &Header, cause: DropCause, passing: &Passing) {
        if passing.rest.has_failed() == Some(true) {
            return self.count_marked(&self.failed, header);
        }
        self.arrived_with(passing.came, header);
        self.failed(header, cause);
    }

    /// Counts what was given up and of which it is known by now whether the rest came.
    fn settle(&self) {
        let is_known = |_: &u64, passing: &mut Passing| {
            passing.failed.is_some() && passing.rest.has_failed().is_some()
        };
        let mut all = self.passing();
        for (_, passing) in all.extract_if(is_known) {
            if let Some((header, cause)) = &passing.failed {
                self.gave_up(header, *cause, &passing);
            }
        }
        if all.values().any(|passing| passing.failed.is_some()) {
            self.has_changed.store(true, Relaxed);
        }
    }

    /// Returns how many were sent of which the link has not said what became.
    pub(crate) fn under_way(&self) -> u64 {
        let sum = |rows: &Marked| {
            let counts = rows.iter().flatten();
            counts.map(|count| count.load(Relaxed)).sum::<u64>()
        };
        // What has ended is read first, so that no more seem to have ended than were sent.
        let ended = sum(&self.left) + sum(&self.failed);
        sum(&self.sent).saturating_sub(ended)
    }

    /// Returns whether the counters have changed since they were read, and that was so long ago.
    pub(crate) fn is_unread(&self, now: Instant, unread: Duration) -> bool {
        let read = Instant::from_nanos(self.read.load(Relaxed));
        read + unread <= now && self.has_changed.load(Relaxed)
    }

    /// Returns the counters if they have changed since they were read.
    pub(crate) fn changed(&self, now: Instant) -> Option<Counts> {
        let has_changed = self.has_changed.swap(false, Relaxed);
        has_changed.then(|| self.counts(now))
    }

    /// Returns what the plan has asked of its next link, and what was dropped of that: also what did not get
    /// as far as the link.
    pub(crate) fn passed(&self) -> Passed {
        let row = |row: &Row| -> [u64; BANDS] { std::array::from_fn(|at| row[at].load(Relaxed)) };
        let sum = |rows: &Marked, at: usize| -> u64 {
            rows.iter().map(|row| row[at].load(Relaxed)).sum()
        };
        let dropped: [[u64; BANDS]; _] = std::array::from_fn(|at| row(&self.dropped[at]));
        let given = std::array::from_fn(|at| {
            let all: u64 = dropped.iter().map(|row| row[at]).sum();
            let before = all.saturating_sub(sum(&self.failed, at));
            sum(&self.sent, at) + before
        });
        Passed {
            bytes: self.bytes.load(Relaxed),
            given,
            dropped,
        }
    }

    /// Returns the counters.
    fn counts(&self, now: Instant) -> Counts {
        self.read.store(now.as_nanos(), Relaxed);
        self.settle();
        let row = |row: &Row| std::array::from_fn(|at| row[at].load(Relaxed));
        let read = |rows: &Marked| std::array::from_fn(|mark| row(&rows[mark]));
        // What came before it was counted before.
        let is_end_copied = self.is_end_copied.load(Relaxed);
        // What has ended is read before what was sent, so that no more seem to have ended than were sent.
        let (left, failed) = (read(&self.left), read(&self.failed));
        Counts {
            left,
            failed,
            dropped: std::array::from_fn(|at| row(&self.dropped[at])),
            delivered: row(&self.delivered),
            sent: read(&self.sent),
            arrived: read(&self.arrived),
            is_end_copied,
            had: row(&self.had),
            resent: row(&self.resent),
        }
    }
}
