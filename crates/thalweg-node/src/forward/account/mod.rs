//! The counts of one plan's ADUs on this node, by cause and band of importance: the node's part of
//! the stream's ledger.
//!
//! *The idea.* What an event means for the counts is said by [`thalweg_dataplane::relay::Account`],
//! the same in the simulator. Here it has a lock of its own for each plan, and a list of the ADUs
//! that were sent on before they were whole, since the link that reads an ADU and the one that sends
//! it are joined below this node's tasks. Now and then the control task reads what has changed and
//! hands it to the control plane; when the mark of a plan's ADUs changes, it is woken.
//!
//! *What it does not do.* It reports nothing itself, and it does not count the end of a stream.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::adu::{Flags, Header, Mark};
use thalweg_base::count::{BANDS, Band, Counts, Marked};
use thalweg_base::event::DropCause;
use thalweg_base::time::{Duration, Instant};
use thalweg_dataplane::relay;
use thalweg_net::link::Rest;
use thalweg_net::{Outcome, Payload};
use tokio::sync::Notify;

use super::Map;

#[cfg(test)]
mod tests;

/// The counters of one plan on this node.
#[derive(Debug, Default)]
pub(crate) struct Account {
    state: Mutex<State>,
    /// Notified when the mark of the ADUs changes.
    mark_changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    account: relay::Account,
    /// Payload bytes handed to the next link.
    bytes: u64,
    /// When the counters were last read.
    read_at: Instant,
    /// ADUs sent cut-through, by sequence.
    cut_through: Map<u64, CutThrough>,
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
    /// Its header as sent and the drop cause, if it was given up.
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

impl State {
    /// Counts the ADUs that were given up and are now known to be whole or not; returns whether
    /// the mark has changed.
    fn settle(&mut self) -> bool {
        let is_known = |_: &u64, passing: &mut CutThrough| {
            passing.failed.is_some() && passing.rest.has_failed().is_some()
        };
        let mut is_mark_new = false;
        for (_, passing) in self.cut_through.extract_if(is_known) {
            if let Some((header, cause)) = passing.failed {
                is_mark_new |= passing.end(&mut self.account, &header, Err(cause));
            }
        }
        is_mark_new
    }

    /// Returns whether an ADU was given up that may still become whole.
    fn is_waiting(&self) -> bool {
        let mut all = self.cut_through.values();
        all.any(|passing| passing.failed.is_some())
    }
}

impl CutThrough {
    /// Counts how an ADU ended, by what is known of its rest; returns whether its mark is a new
    /// one.
    fn end(&self, account: &mut relay::Account, header: &Header, ended: relay::Ended) -> bool {
        if self.rest.has_failed() == Some(true) {
            return account.handle_void(self.came, header, ended);
        }
        let is_mark_new = account.handle_arrived(self.came, header);
        account.handle_ended(header, ended);
        is_mark_new
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

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify_if(&self, is_mark_new: bool) {
        if is_mark_new {
            self.mark_changed.notify_one();
        }
    }

    /// Sets an ADU's mark for the next hop: see [`relay::Account::outgoing_mark`].
    pub(crate) fn set_hop_mark(&self, header: &mut Header, is_acknowledged: bool) {
        let came = header.mark();
        header.set_mark(self.state().account.outgoing_mark(came, is_acknowledged));
    }

    /// Counts an ADU that is here whole, or that a producer publishes.
    pub(crate) fn arrived(&self, header: &Header) {
        let is_mark_new = self.state().account.handle_arrived(header.mark(), header);
        self.notify_if(is_mark_new);
    }

    /// Notes that an ADU was copied here for this plan. The stream's end is reported at once, for
    /// the source waits for the count up to it.
    pub(crate) fn copied(&self, header: &Header) {
        if header.flags.contains(Flags::END) {
            let is_urgent = self.state().account.handle_copied(header);
            self.notify_if(is_urgent);
        }
    }

    /// Counts an ADU that was here whole and is dropped.
    pub(crate) fn dropped(&self, header: &Header, cause: DropCause) {
        let count = |counts: &mut Counts, band| counts.give_up(band, cause);
        self.state().account.count(header, count);
    }

    /// Counts an ADU that is refused, whole or not.
    pub(crate) fn refused(&self, header: &Header, cause: DropCause) {
        self.arrived(header);
        self.dropped(header, cause);
    }

    /// Counts an ADU delivered to subscribers here.
    pub(crate) fn delivered(&self, header: &Header) {
        self.state().account.count(header, Counts::deliver);
    }

    /// Counts an ADU of this plan that the sink has confirmed.
    pub(crate) fn count_receipt(&self, band: Band) {
        self.state().account.count_in(band, Counts::have);
    }

    /// Counts an ADU of this plan that is resent under another.
    pub(crate) fn count_resent(&self, band: Band) {
        self.state().account.count_in(band, Counts::resend);
    }

    /// Counts an ADU handed to the next link; `came` is its mark on arrival. One that still arrives
    /// does not belong to this node yet.
    pub(crate) fn sent(&self, came: Mark, header: &Header, payload: &mut Payload) {
        let mut is_mark_new = false;
        let mut state = self.state();
        match payload {
            Payload::Arriving(body) if body.is_whole() => {
                is_mark_new = state.account.handle_arrived(came, header);
            }
            Payload::Arriving(body) => {
                let passing = CutThrough {
                    rest: body.rest(),
                    came,
                    failed: None,
                };
                state.cut_through.insert(header.sequence.0, passing);
            }
            Payload::Whole(_) => {}
        }
        state.bytes += payload.bytes() as u64;
        let mark = header.mark();
        let count = |counts: &mut Counts, band| counts.send(mark, band);
        state.account.count(header, count);
        drop(state);
        self.notify_if(is_mark_new);
    }

    /// Counts the outcome that a link reports.
    pub(crate) fn ended(&self, header: &Header, outcome: Outcome) {
        let cause = outcome.accounted_cause();
        let mut state = self.state();
        let passing = state.cut_through.remove(&header.sequence.0);
        let is_mark_new = match (cause, passing) {
            (Some(cause), Some(passing)) if passing.rest.has_failed().is_none() => {
                let failed = Some((*header, cause));
                let passing = CutThrough { failed, ..passing };
                state.cut_through.insert(header.sequence.0, passing);
                false
            }
            (cause, Some(passing)) => {
                let ended = cause.map_or(Ok(()), Err);
                passing.end(&mut state.account, header, ended)
            }
            (cause, None) => {
                let ended = cause.map_or(Ok(()), Err);
                state.account.handle_ended(header, ended);
                false
            }
        };
        drop(state);
        self.notify_if(is_mark_new);
    }

    /// Returns how many ADUs were sent and have no outcome yet.
    pub(crate) fn outstanding(&self) -> u64 {
        self.state().account.counts().outstanding()
    }

    /// Returns whether the counters have changed, and were last read at least `age` ago.
    pub(crate) fn is_stale(&self, now: Instant, age: Duration) -> bool {
        let state = self.state();
        state.read_at + age <= now && (state.account.has_changed() || state.is_waiting())
    }

    /// Returns the counters if they have changed since they were last read.
    pub(crate) fn changed(&self, now: Instant) -> Option<Counts> {
        let mut state = self.state();
        // A mark that becomes known by this is in the counts that are returned.
        state.settle();
        let counts = state.account.take_changed().cloned()?;
        state.read_at = now;
        Some(counts)
    }

    /// Returns the plan's load on its next link. Drops before the link count too.
    pub(crate) fn offered(&self) -> Offered {
        let state = self.state();
        let counts = state.account.counts();
        let sum = |rows: &Marked, at: usize| rows.iter().map(|row| row[at]).sum::<u64>();
        let given = std::array::from_fn(|at| {
            let all: u64 = counts.dropped.iter().map(|row| row[at]).sum();
            sum(&counts.sent, at) + all.saturating_sub(sum(&counts.failed, at))
        });
        Offered {
            bytes: state.bytes,
            given,
            dropped: counts.dropped,
        }
    }
}
