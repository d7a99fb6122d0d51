//! Which ADUs are traced at their source, and what has come of those whose way ends here.
//!
//! *The idea.* A source asks for each ADU whether it is one to mark: while nobody wants to know of any stream that is one
//! look at a flag. A sink leaves the stamps of what it delivers for the control task, no more of a stream than any source
//! would mark.
//!
//! *What it does not do.* It writes no stamp: the link's sender does, when the ADU leaves.
//!
//! *Sources.* docs/trace.md.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg_core::id::{Epoch, StreamId};
use thalweg_core::time::{Duration, Instant};
use thalweg_core::trace::{EVERY_MIN, Marking, Trace, Traced};
use tokio::sync::Notify;

/// Stamped ways that wait for the control task; what comes beyond is not told.
const FINISHED_MAX: usize = 64;

/// Plans whose stamped ways are told apart; where there are more, those that said something long ago are forgotten.
const PLANS_MAX: usize = 1024;

/// How much sooner than a source marks two ADUs the second may come, for lines are not even.
const TOLERANCE: Duration = Duration::from_millis(50);

/// What is traced by this node's data path.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// Whether any stream that is published here is traced.
    is_any: AtomicBool,
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    markings: HashMap<StreamId, Marking>,
    finished: VecDeque<Traced>,
    /// When the last way of each plan was told.
    told: HashMap<(StreamId, Epoch), Instant>,
}

impl Traces {
    /// Begins to mark ADUs of a stream that is published here, or goes on.
    pub(crate) fn begin(&self, stream: StreamId, marking: Marking) {
        let mut state = self.lock();
        state
            .markings
            .entry(stream)
            .and_modify(|known| known.renew(marking))
            .or_insert(marking);
        self.is_any.store(true, Relaxed);
    }

    /// Returns the trace of an ADU that is given now, if it is one to be traced.
    pub(crate) fn mark(&self, stream: StreamId, now: Instant) -> Option<Box<Trace>> {
        if !self.is_any.load(Relaxed) {
            return None;
        }
        let mut state = self.lock();
        state.markings.retain(|_, marking| !marking.is_over(now));
        if state.markings.is_empty() {
            self.is_any.store(false, Relaxed);
        }
        state.markings.get_mut(&stream)?.mark(now)
    }

    /// Takes the whole way of an ADU that was delivered here.
    pub(crate) fn finish(&self, traced: Traced, now: Instant) {
        let mut state = self.lock();
        let plan = (traced.stream, traced.epoch);
        let apart = EVERY_MIN.saturating_sub(TOLERANCE);
        let told = state.told.get(&plan);
        let is_soon = told.is_some_and(|told| now.saturating_since(*told) < apart);
        if is_soon || state.finished.len() >= FINISHED_MAX {
            return;
        }
        if state.told.len() >= PLANS_MAX {
            state
                .told
                .retain(|_, told| now.saturating_since(*told) < apart);
        }
        if state.told.len() < PLANS_MAX {
            state.told.insert(plan, now);
        }
        state.finished.push_back(traced);
        drop(state);
        self.ended.notify_one();
    }

    /// Waits until a way has ended here.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Takes the ways that have.
    pub(crate) fn take(&self) -> VecDeque<Traced> {
        std::mem::take(&mut self.lock().finished)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
