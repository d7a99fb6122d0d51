//! What happens to what is sent, and to the session, for one who listens.
//!
//! *The idea.* It lies in a row under the session's lock, where it is put as it happens. Who listens is woken for the first and
//! takes all there is: acknowledgements of many streams come at once. Who is patient is not woken for those at all, and finds
//! them when something else has him look.
//!
//! *What it does not do.* It keeps nothing for one who has gone away.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use thalweg_core::pace::Event;
use thalweg_core::time::Instant;

use super::shared::Shared;

/// What happens to what is sent, and to the session; to be drained, or dropped.
pub struct Events(Arc<Shared>);

/// What has happened and was not listened to.
pub(super) struct Told {
    /// Each with the moment when it happened.
    events: VecDeque<(Event, Instant)>,
    /// Who listens.
    listener: Waker,
    /// Whether he has seen all, and is to be woken.
    is_waiting: bool,
    /// Whether acknowledgements are to wake nobody.
    is_patient: bool,
    /// Whether nothing more is to be kept: nobody listens, or the session is over.
    is_closed: bool,
}

impl Events {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Returns what happens next; nothing once the session is over.
    pub async fn next(&mut self) -> Option<Event> {
        self.happened().await;
        self.0.lock().told.pop().map(|(event, _)| event)
    }

    /// Waits until something has happened that was not taken, or the session is over.
    pub(super) async fn happened(&mut self) {
        poll_fn(|context| {
            let told = &mut self.0.lock().told;
            if !told.events.is_empty() || told.is_closed {
                return Poll::Ready(());
            }
            told.wait(context.waker());
            Poll::Pending
        })
        .await;
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.told.events.clear();
        state.told.is_closed = true;
    }
}

impl Told {
    pub(super) fn new() -> Self {
        Self {
            events: VecDeque::new(),
            listener: Waker::noop().clone(),
            is_waiting: false,
            is_patient: false,
            is_closed: false,
        }
    }

    pub(super) fn say(&mut self, event: Event, now: Instant) {
        if !self.is_closed {
            let can_wait = self.is_patient && matches!(event, Event::Acknowledged(_));
            self.events.push_back((event, now));
            if !can_wait {
                self.wake();
            }
        }
    }

    /// Returns what happened next, and when.
    pub(super) fn pop(&mut self) -> Option<(Event, Instant)> {
        self.events.pop_front()
    }

    /// Takes whether who listens is patient.
    pub(super) const fn set_patient(&mut self, is_patient: bool) {
        self.is_patient = is_patient;
    }

    /// Says that nothing more will happen.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.wake();
    }

    fn wake(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            self.listener.wake_by_ref();
        }
    }

    /// Takes whom to wake for what happens from now on.
    pub(super) fn wait(&mut self, listener: &Waker) {
        if !self.listener.will_wake(listener) {
            self.listener.clone_from(listener);
        }
        self.is_waiting = true;
    }
}
