//! What one input or output does and has carried.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use thalweg_base::id::StreamName;

use super::EndKind;
use crate::status::EndStatus;

/// What an input or output does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is being opened, or waits for its first message.
    Starting,
    /// Messages pass.
    Running,
    /// It has failed and is started again then.
    Retrying(Instant),
    /// It has come to its end.
    Ended,
    /// It was stopped.
    Stopped,
}

/// The state and the counters of one input or output.
#[derive(Debug)]
pub(crate) struct Meter {
    kind: EndKind,
    name: StreamName,
    stream: StreamName,
    url: String,
    state: Mutex<State>,
    /// Whether the next message is the first of a run.
    is_starting: AtomicBool,
    adus: AtomicU64,
    bytes: AtomicU64,
    restarts: AtomicU64,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    since: Instant,
    /// Why it failed last, or what it said last.
    reason: Option<String>,
}

impl Meter {
    pub(crate) fn new(kind: EndKind, name: StreamName, stream: StreamName, url: String) -> Self {
        Self {
            kind,
            name,
            stream,
            url,
            state: Mutex::new(State {
                phase: Phase::Stopped,
                since: Instant::now(),
                reason: None,
            }),
            is_starting: AtomicBool::new(false),
            adus: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
        }
    }

    /// Records a new phase; the reason of a former one goes with it, unless it is about to retry.
    pub(crate) fn enter(&self, phase: Phase) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.phase == phase {
            return;
        }
        if matches!(phase, Phase::Running | Phase::Stopped) {
            state.reason = None;
        }
        self.is_starting.store(phase == Phase::Starting, Relaxed);
        (state.phase, state.since) = (phase, Instant::now());
    }

    /// Records a failure after which it is started again at a time.
    pub(crate) fn fail(&self, reason: &str, again: Instant) {
        self.say(reason);
        self.enter(Phase::Retrying(again));
        self.restarts.fetch_add(1, Relaxed);
    }

    /// Records a sentence.
    pub(crate) fn say(&self, reason: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.reason = Some(reason.into());
    }

    /// Forgets what was said: it no longer holds.
    pub(crate) fn quiet(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.reason = None;
    }

    /// Counts a message.
    pub(crate) fn count(&self, bytes: usize) {
        self.adus.fetch_add(1, Relaxed);
        if self.is_starting.swap(false, Relaxed) {
            self.enter(Phase::Running);
        }
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Returns whether it waits to be started again.
    pub(crate) fn is_retrying(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(state.phase, Phase::Retrying(_))
    }

    pub(crate) fn status(&self) -> EndStatus {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let again = match state.phase {
            Phase::Retrying(at) => Some(at.saturating_duration_since(now)),
            _ => None,
        };
        EndStatus {
            kind: self.kind.name(),
            name: self.name.clone(),
            stream: self.stream.clone(),
            url: self.url.clone(),
            state: match state.phase {
                Phase::Starting => "starting",
                Phase::Running => "running",
                Phase::Retrying(_) => "retrying",
                Phase::Ended => "ended",
                Phase::Stopped => "stopped",
            },
            seconds: now.saturating_duration_since(state.since).as_secs_f64(),
            reason: state.reason.clone(),
            retry_in_seconds: again.map(|after: Duration| after.as_secs_f64()),
            restarts: self.restarts.load(Relaxed),
            adus: self.adus.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }
}
