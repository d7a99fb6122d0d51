//! The event queue of a session, for one listener.
//!
//! *The idea.* Events are queued under the session's lock as they happen. The listener is woken for
//! the first and takes all there are: acknowledgements of many streams arrive together. A *patient*
//! listener is not woken for acknowledgements at all, and finds them when something else wakes it.
//!
//! *What it does not do.* It queues nothing for a listener that is gone.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use thalweg_base::time::Instant;
use thalweg_link::tcp_mux::Event;

use super::shared::Shared;

/// The events of a session; the holder must drain or drop it.
pub struct Events(Arc<Shared>);

/// The events that the listener has not taken yet.
pub(super) struct EventQueue {
    /// Each with the time at which it happened.
    events: VecDeque<(Event, Instant)>,
    /// The listener's waker.
    listener: Waker,
    /// Whether the listener has taken everything and is to be woken.
    is_waiting: bool,
    /// Whether acknowledgements wake nothing.
    is_patient: bool,
    /// Whether nothing more is queued: the listener is gone, or the session is over.
    is_closed: bool,
}

impl Events {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Returns the next event; `None` once the session is over.
    pub async fn next(&mut self) -> Option<Event> {
        self.happened().await;
        self.0.lock().events.pop().map(|(event, _)| event)
    }

    /// Waits until there is an event, or the session is over.
    pub(super) async fn happened(&mut self) {
        poll_fn(|context| {
            let queue = &mut self.0.lock().events;
            if !queue.events.is_empty() || queue.is_closed {
                return Poll::Ready(());
            }
            queue.listen(context.waker());
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
        state.events.events.clear();
        state.events.is_closed = true;
    }
}

impl EventQueue {
    pub(super) fn new() -> Self {
        Self {
            events: VecDeque::new(),
            listener: Waker::noop().clone(),
            is_waiting: false,
            is_patient: false,
            is_closed: false,
        }
    }

    pub(super) fn push(&mut self, event: Event, now: Instant) {
        if !self.is_closed {
            let can_wait = self.is_patient && matches!(event, Event::Acknowledged(_));
            self.events.push_back((event, now));
            if !can_wait {
                self.wake();
            }
        }
    }

    /// Takes the next event with its time.
    pub(super) fn pop(&mut self) -> Option<(Event, Instant)> {
        self.events.pop_front()
    }

    /// Sets whether the listener is patient.
    pub(super) const fn set_patient(&mut self, is_patient: bool) {
        self.is_patient = is_patient;
    }

    /// Closes the queue: nothing more will happen.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.wake();
    }

    fn wake(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            self.listener.wake_by_ref();
        }
    }

    /// Registers the listener to be woken by the next event.
    pub(super) fn listen(&mut self, listener: &Waker) {
        if !self.listener.will_wake(listener) {
            self.listener.clone_from(listener);
        }
        self.is_waiting = true;
    }
}
