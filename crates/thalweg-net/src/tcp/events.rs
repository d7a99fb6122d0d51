//! What happens to what is sent, and to the session, for one who listens.
//!
//! *The idea.* It lies in a row under the session's lock, where it is put as it happens. Who listens is woken for the first and
//! takes all there is: acknowledgements of many streams come at once.
//!
//! *What it does not do.* It keeps nothing for one who has gone away.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use thalweg_core::pace::Event;

use super::shared::Shared;

/// What happens to what is sent, and to the session; to be drained, or dropped.
pub struct Events(Arc<Shared>);

/// What has happened and was not listened to.
pub(super) struct Told {
    events: VecDeque<Event>,
    /// Who listens.
    listener: Waker,
    /// Whether he has seen all, and is to be woken.
    is_waiting: bool,
    /// Whether nothing more is to be kept: nobody listens, or the session is over.
    is_closed: bool,
}

impl Events {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Returns what happens next; nothing once the session is over.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&self, context: &Context<'_>) -> Poll<Option<Event>> {
        let mut state = self.0.lock();
        let told = &mut state.told;
        match told.events.pop_front() {
            None if !told.is_closed => {
                told.wait(context);
                Poll::Pending
            }
            event => Poll::Ready(event),
        }
    }

    /// Appends all that has happened to `events`; who asks is woken when more has.
    pub(crate) fn take(&mut self, events: &mut VecDeque<Event>, context: &Context<'_>) {
        let mut state = self.0.lock();
        events.append(&mut state.told.events);
        state.told.wait(context);
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
            is_closed: false,
        }
    }

    pub(super) fn say(&mut self, event: Event) {
        if !self.is_closed {
            self.events.push_back(event);
            self.wake();
        }
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

    fn wait(&mut self, context: &Context<'_>) {
        if !self.listener.will_wake(context.waker()) {
            self.listener.clone_from(context.waker());
        }
        self.is_waiting = true;
    }
}
