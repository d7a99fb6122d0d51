//! Which ADUs are traced at their source, and the finished traces of ADUs that end here.
//!
//! *The idea.* The source asks for each ADU whether to mark it; while no stream is traced, that is
//! one relaxed load of a flag. The sink leaves the stamps of delivered ADUs for the control task,
//! at most as often per plan as a source may mark.
//!
//! *What it does not do.* It writes no stamps; the link's sender does when the ADU leaves.
//!
//! *Sources.* docs/concepts/trace.md.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::trace::{EVERY_MIN, Marking, Trace, Traced};
use tokio::sync::Notify;

/// Finished traces that wait for the control task; more are dropped.
const FINISHED_MAX: usize = 64;

/// Plans for which the time of the last report is remembered; beyond it, plans without a recent
/// report are forgotten.
const PLANS_MAX: usize = 1024;

/// How much earlier than a source's marking interval a second trace may arrive, to allow for
/// jitter.
const TOLERANCE: Duration = Duration::from_millis(50);

/// The traces of this node's data path.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// Whether any stream published here is traced.
    is_active: AtomicBool,
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    markings: HashMap<StreamId, Marking>,
    finished: VecDeque<Traced>,
    /// When a trace of each plan was last reported.
    last_reported: HashMap<(StreamId, Epoch), Instant>,
}

impl Traces {
    /// Starts or renews the marking of ADUs of a stream published here.
    pub(crate) fn start(&self, stream: StreamId, marking: Marking) {
        let mut state = self.lock();
        state
            .markings
            .entry(stream)
            .and_modify(|known| known.renew(marking))
            .or_insert(marking);
        self.is_active.store(true, Relaxed);
    }

    /// Returns the trace for an ADU published now, if it is to be traced.
    pub(crate) fn mark(&self, stream: StreamId, now: Instant) -> Option<Box<Trace>> {
        if !self.is_active.load(Relaxed) {
            return None;
        }
        let mut state = self.lock();
        state.markings.retain(|_, marking| !marking.is_over(now));
        if state.markings.is_empty() {
            self.is_active.store(false, Relaxed);
        }
        state.markings.get_mut(&stream)?.mark(now)
    }

    /// Handles the finished trace of an ADU that was delivered here.
    pub(crate) fn finish(&self, traced: Traced, now: Instant) {
        let mut state = self.lock();
        let plan = (traced.stream, traced.epoch);
        let apart = EVERY_MIN.saturating_sub(TOLERANCE);
        let reported = state.last_reported.get(&plan);
        let is_soon = reported.is_some_and(|at| now.saturating_since(*at) < apart);
        if is_soon || state.finished.len() >= FINISHED_MAX {
            return;
        }
        if state.last_reported.len() >= PLANS_MAX {
            state
                .last_reported
                .retain(|_, last_reported| now.saturating_since(*last_reported) < apart);
        }
        if state.last_reported.len() < PLANS_MAX {
            state.last_reported.insert(plan, now);
        }
        state.finished.push_back(traced);
        drop(state);
        self.ended.notify_one();
    }

    /// Waits until a trace has finished here.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Takes the finished traces.
    pub(crate) fn take(&self) -> VecDeque<Traced> {
        std::mem::take(&mut self.lock().finished)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
