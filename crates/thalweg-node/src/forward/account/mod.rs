//! The counts of one plan's ADUs on this node, by cause and band of importance: the node's part of
//! the stream's ledger.
//!
//! *The idea.* The data path counts without a lock. Now and then the control task reads what has
//! changed and hands it to the control plane, which reports it to the previous node
//! ([`thalweg_control::ledger`]). The ledger's rule: the last node that had an ADU whole accounts for
//! it. So an ADU sent cut-through belongs to the previous node if its rest never arrives, and to
//! this node once its rest arrives, or once this node gives it up and refuses the rest.
//!
//! *Marks.* An ADU in a datagram carries a mark ([`Mark`]) that alternates with time. The source
//! sets it, and each node forwards it unchanged, unless the next hop acknowledges ADUs. When the
//! mark changes, the control task is woken.
//!
//! *What it does not do.* It reports nothing itself, and it does not count the end of a stream.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::adu::{Flags, Header, Mark};
use thalweg_base::event::DropCause;
use thalweg_base::time::{Duration, Instant};
use thalweg_control::ledger::{BANDS, Band, Counts};
use thalweg_net::link::Rest;
use thalweg_net::{Outcome, Payload};
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
    /// Payload bytes handed to the next link.
    bytes: AtomicU64,
    delivered: Row,
    dropped: [Row; DropCause::ALL.len()],
    /// At the source: ADUs that the sink has confirmed, and ADUs resent under another plan.
    had: Row,
    resent: Row,
    /// Whether the end of the stream was copied for this plan.
    is_end_copied: AtomicBool,
    has_changed: AtomicBool,
    /// When the counters were last read, in nanoseconds of the node's clock.
    read_at: AtomicU64,
    /// The mark of the last ADU.
    mark: AtomicU8,
    /// Notified when the mark changes.
    mark_changed: Arc<Notify>,
    /// ADUs sent cut-through, by sequence.
    cut_through: Mutex<Map<u64, CutThrough>>,
}

/// A plan's load on its next link, and the part of it that was dropped here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offered {
    /// Payload bytes handed to the link.
    pub(crate) bytes: u64,
    /// ADUs meant for the link, by band.
    pub(crate) given: [u64; BANDS],
    /// The dropped ones among them, by cause and band.
    pub(crate) dropped: [[u64; BANDS]; DropCause::ALL.len()],
}

/// An ADU that was sent on before it was whole.
#[derive(Debug)]
struct CutThrough {
    rest: Rest,
    /// The mark with which it arrived.
    came: Mark,
    /// Its header and the drop cause, if it was given up.
    failed: Option<(Header, DropCause)>,
}

impl Offered {
    /// Returns the number of ADUs meant for the link.
    pub(crate) fn adus(&self) -> u64 {
        self.given.iter().sum()
    }

    /// Adds the counts of another plan.
    pub(crate) fn add(&mut self, other: &Self) {
        self.join(other, u64::saturating_add);
    }

    /// Subtracts an earlier reading.
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
    /// Returns counters that notify `mark_changed` when the mark changes.
    pub(crate) fn new(mark_changed: Arc<Notify>) -> Self {
        Self {
            mark_changed,
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

    /// Counts by the mark that an ADU carries to the next node.
    fn count_marked(&self, rows: &Marked, header: &Header) {
        self.count(&rows[header.mark().index()], header);
    }

    fn arrived_with(&self, came: Mark, header: &Header) {
        self.count(&self.arrived[came.index()], header);
        let mark = came.index() as u8;
        if self.mark.load(Relaxed) != mark {
            self.mark.store(mark, Relaxed);
            self.mark_changed.notify_one();
        }
    }

    /// Sets an ADU's mark for the next hop: none if the hop acknowledges ADUs; otherwise the mark
    /// with which it arrived, or the current one if it arrived without.
    pub(crate) fn set_hop_mark(&self, header: &mut Header, is_acknowledged: bool) {
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

    fn cut_through(&self) -> MutexGuard<'_, Map<u64, CutThrough>> {
        // No code that can panic runs under this lock.
        self.cut_through
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an ADU that is here whole, or that a producer publishes.
    pub(crate) fn arrived(&self, header: &Header) {
        self.arrived_with(header.mark(), header);
    }

    /// Notes that an ADU was copied here for this plan. The stream's end is reported at once, for
    /// the source waits for the count up to it.
    pub(crate) fn copied(&self, header: &Header) {
        if header.flags.contains(Flags::END) {
            self.is_end_copied.store(true, Relaxed);
            self.has_changed.store(true, Relaxed);
            self.mark_changed.notify_one();
        }
    }

    /// Counts an ADU that was here whole and is dropped.
    pub(crate) fn dropped(&self, header: &Header, cause: DropCause) {
        self.count(&self.dropped[cause.index()], header);
    }

    /// Counts an ADU that is refused, whole or not.
    pub(crate) fn refused(&self, header: &Header, cause: DropCause) {
        self.arrived(header);
        self.dropped(header, cause);
    }

    /// Counts an ADU delivered to subscribers here.
    pub(crate) fn delivered(&self, header: &Header) {
        self.count(&self.delivered, header);
    }

    /// Counts an ADU of this plan that the sink has confirmed.
    pub(crate) fn count_receipt(&self, band: Band) {
        self.count_in(&self.had, band);
    }

    /// Counts an ADU of this plan that is resent under another.
    pub(crate) fn count_resent(&self, band: Band) {
        self.count_in(&self.resent, band);
    }

    /// Counts an ADU handed to the next link; `came` is its mark on arrival. One that still arrives
    /// does not belong to this node yet.
    pub(crate) fn sent(&self, came: Mark, header: &Header, payload: &mut Payload) {
        match payload {
            Payload::Arriving(body) if body.is_whole() => self.arrived_with(came, header),
            Payload::Arriving(body) => {
                let passing = CutThrough {
                    rest: body.rest(),
                    came,
                    failed: None,
                };
                self.cut_through().insert(header.sequence.0, passing);
            }
            Payload::Whole(_) => {}
        }
        self.bytes.fetch_add(payload.bytes() as u64, Relaxed);
        self.count_marked(&self.sent, header);
    }

    /// Counts the outcome that a link reports.
    pub(crate) fn ended(&self, header: &Header, outcome: Outcome) {
        let cause = outcome.accounted_cause();
        let mut all = self.cut_through();
        let passing = all.remove(&header.sequence.0);
        match (cause, passing) {
            (Some(cause), Some(passing)) if passing.rest.has_failed().is_none() => {
                let failed = Some((*header, cause));
                all.insert(header.sequence.0, CutThrough { failed, ..passing });
                self.has_changed.store(true, Relaxed);
            }
            (Some(cause), Some(passing)) => self.count_given_up(header, cause, &passing),
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

    /// Counts an ADU that was given up before it was whole, once it is known whether its rest
    /// arrived.
    fn count_given_up(&self, header: &Header, cause: DropCause, passing: &CutThrough) {
        if passing.rest.has_failed() == Some(true) {
            return self.count_marked(&self.failed, header);
        }
        self.arrived_with(passing.came, header);
        self.failed(header, cause);
    }

    /// Counts the ADUs that were given up and now known to be whole or not.
    fn settle(&self) {
        let is_known = |_: &u64, passing: &mut CutThrough| {
            passing.failed.is_some() && passing.rest.has_failed().is_some()
        };
        let mut all = self.cut_through();
        for (_, passing) in all.extract_if(is_known) {
            if let Some((header, cause)) = &passing.failed {
                self.count_given_up(header, *cause, &passing);
            }
        }
        if all.values().any(|passing| passing.failed.is_some()) {
            self.has_changed.store(true, Relaxed);
        }
    }

    /// Returns how many ADUs were sent and have no outcome yet.
    pub(crate) fn outstanding(&self) -> u64 {
        let sum = |rows: &Marked| {
            let counts = rows.iter().flatten();
            counts.map(|count| count.load(Relaxed)).sum::<u64>()
        };
        // Outcomes are read before sends, so that they never exceed them.
        let ended = sum(&self.left) + sum(&self.failed);
        sum(&self.sent).saturating_sub(ended)
    }

    /// Returns whether the counters have changed, and were last read at least `age` ago.
    pub(crate) fn is_stale(&self, now: Instant, age: Duration) -> bool {
        let read = Instant::from_nanos(self.read_at.load(Relaxed));
        read + age <= now && self.has_changed.load(Relaxed)
    }

    /// Returns the counters if they have changed since they were last read.
    pub(crate) fn changed(&self, now: Instant) -> Option<Counts> {
        let has_changed = self.has_changed.swap(false, Relaxed);
        has_changed.then(|| self.counts(now))
    }

    /// Returns the plan's load on its next link. Drops before the link count too.
    pub(crate) fn offered(&self) -> Offered {
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
        Offered {
            bytes: self.bytes.load(Relaxed),
            given,
            dropped,
        }
    }

    /// Returns the counters.
    fn counts(&self, now: Instant) -> Counts {
        self.read_at.store(now.as_nanos(), Relaxed);
        self.settle();
        let row = |row: &Row| std::array::from_fn(|at| row[at].load(Relaxed));
        let read = |rows: &Marked| std::array::from_fn(|mark| row(&rows[mark]));
        // Read first: whatever arrived before the end was copied is then in the counts below.
        let is_end_copied = self.is_end_copied.load(Relaxed);
        // Outcomes are read before sends, so that they never exceed them.
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
