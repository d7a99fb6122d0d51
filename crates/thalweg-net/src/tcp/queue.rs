//! The events of a session that its listener has not taken yet.

use std::collections::VecDeque;
use std::task::Waker;

use thalweg_base::time::Instant;
use thalweg_link::tcp_mux::Event;

/// The events that the listener has not taken yet.
pub(super) struct EventQueue {
    /// Each with the time at which it happened.
    pub(super) events: VecDeque<(Event, Instant)>,
    /// The listener's waker.
    listener: Waker,
    /// Whether the listener has taken everything and is to be woken.
    is_waiting: bool,
    /// Whether acknowledgements wake nothing.
    is_patient: bool,
    /// Whether nothing more is queued: the listener is gone, or the session is over.
    pub(super) is_closed: bool,
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
