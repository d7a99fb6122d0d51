//! What became of the ADUs of one plan on this node, by cause and band of importance: the node's part of the stream's ledger.
//!
//! *The idea.* The data path counts without a lock; now and then the control task reads what has changed and gives it to
//! the control plane, which tells the node before ([`thalweg_core::ledger`]). The rule is that of the ledger: the node that
//! had an ADU whole last accounts for it. So what is sent on while it still arrives is the node's before if the rest does
//! not come, and this one's if it comes, or if this node gives it up and wants no more of it.
//!
//! *What it does not do.* It tells nobody, and does not count what the end of a stream becomes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg_core::adu::{Flags, Header};
use thalweg_core::event::DropCause;
use thalweg_core::ledger::{BANDS, Band, Counts};
use thalweg_net::link::Rest;
use thalweg_net::{Outcome, Payload, StreamCode};

#[cfg(test)]
mod tests;

type Row = [AtomicU64; BANDS];

/// The counters of one plan on this node.
#[derive(Debug, Default)]
pub(crate) struct Account {
    arrived: Row,
    sent: Row,
    left: Row,
    failed: Row,
    delivered: Row,
    dropped: [Row; DropCause::ALL.len()],
    has_changed: AtomicBool,
    /// ADUs that were sent on before they were whole, by sequence.
    passing: Mutex<HashMap<u64, Passing>>,
}

/// An ADU that was sent on before it was whole.
#[derive(Debug)]
struct Passing {
    rest: Rest,
    /// Why it was given up, if it was.
    failed: Option<(Header, DropCause)>,
}

impl Account {
    fn count(&self, row: &Row, header: &Header) {
        if !header.flags.contains(Flags::END) {
            row[Band::of(header.importance).index()].fetch_add(1, Relaxed);
            self.has_changed.store(true, Relaxed);
        }
    }

    fn passing(&self) -> MutexGuard<'_, HashMap<u64, Passing>> {
        // No code that can panic runs under this lock.
        self.passing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An ADU is here whole, or a producer gives it.
    pub(crate) fn arrived(&self, header: &Header) {
        self.count(&self.arrived, header);
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

    /// An ADU is handed to the next link; one that still arrives is not this node's yet.
    pub(crate) fn sent(&self, header: &Header, payload: &mut Payload) {
        match payload {
            Payload::Arriving(body) if body.is_whole() => self.arrived(header),
            Payload::Arriving(body) => {
                let (rest, failed) = (body.rest(), None);
                let passing = Passing { rest, failed };
                self.passing().insert(header.sequence.0, passing);
            }
            Payload::Whole(_) => {}
        }
        self.count(&self.sent, header);
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
                if passing.is_some() {
                    self.arrived(header);
                }
                self.count(&self.left, header);
            }
        }
    }

    fn failed(&self, header: &Header, cause: DropCause) {
        self.count(&self.failed, header);
        self.dropped(header, cause);
    }

    /// Counts an ADU that was given up before it was whole, now that it is known whether the rest came.
    fn gave_up(&self, header: &Header, cause: DropCause, passing: &Passing) {
        if passing.rest.has_failed() == Some(true) {
            return self.count(&self.failed, header);
        }
        self.arrived(header);
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
        let sum = |row: &Row| row.iter().map(|count| count.load(Relaxed)).sum::<u64>();
        // What has ended is read first, so that no more seem to have ended than were sent.
        let ended = sum(&self.left) + sum(&self.failed);
        sum(&self.sent).saturating_sub(ended)
    }

    /// Returns the counters if they have changed since the last time.
    pub(crate) fn changed(&self) -> Option<Counts> {
        self.has_changed.swap(false, Relaxed).then(|| self.counts())
    }

    /// Returns the counters.
    pub(crate) fn counts(&self) -> Counts {
        self.settle();
        let read = |row: &Row| std::array::from_fn(|at| row[at].load(Relaxed));
        // What has ended is read before what was sent, so that no more seem to have ended than were sent.
        let (left, failed) = (read(&self.left), read(&self.failed));
        Counts {
            left,
            failed,
            dropped: std::array::from_fn(|at| read(&self.dropped[at])),
            delivered: read(&self.delivered),
            sent: read(&self.sent),
            arrived: read(&self.arrived),
        }
    }
}
