//! A timer for deadlines that mostly pass without effect: those of a link's driver, an arriving
//! payload, a TCP session.
//!
//! *The idea.* Deadlines come and go with every ADU; most of them pass long after their ADU was
//! acknowledged. So the alarm is only ever moved to an earlier time, and is left alone when its
//! deadline is cancelled. When it goes off, its owner looks for the next deadline: once per
//! deadline's length, not once per ADU.
//!
//! *What it does not do.* It does not know what is due.

use std::pin::Pin;
use std::task::Context;

use thalweg_base::time::Instant;
use tokio::time::Sleep;

use crate::clock::Clock;

/// A timer that only moves to earlier times until it has gone off.
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Clock,
    /// Allocated when it is first needed, then reused.
    sleep: Option<Pin<Box<Sleep>>>,
    /// When it goes off; [`Instant::NEVER`] if it is not set.
    at: Instant,
}

impl Alarm {
    pub(crate) const fn new(clock: Clock) -> Self {
        Self {
            clock,
            sleep: None,
            at: Instant::NEVER,
        }
    }

    /// Sets the time, in place of any earlier one.
    ///
    /// The caller must poll [`Alarm::has_fired`] afterwards: only that registers the waker.
    pub(crate) fn set(&mut self, at: Instant) {
        let timer = self.clock.timer(at);
        self.at = if timer.is_some() { at } else { Instant::NEVER };
        match (timer, &mut self.sleep) {
            (Some(timer), Some(sleep)) => sleep.as_mut().reset(timer),
            (Some(timer), none) => *none = Some(Box::pin(tokio::time::sleep_until(timer))),
            (None, _) => {}
        }
    }

    /// Returns true once when the time has come; until then it registers the task to be woken at
    /// that time.
    pub(crate) fn has_fired(&mut self, context: &mut Context<'_>) -> bool {
        let sleep = self.sleep.as_mut().filter(|_| !self.at.is_never());
        let is_due = sleep.is_some_and(|sleep| sleep.as_mut().poll(context).is_ready());
        if is_due {
            self.at = Instant::NEVER;
        }
        is_due
    }

    /// Returns whether `at` has come, or an earlier time that was set before; the caller then
    /// checks what is due. Until then it registers the task to be woken.
    pub(crate) fn is_due(&mut self, at: Instant, context: &mut Context<'_>) -> bool {
        if at < self.at {
            self.set(at);
        }
        self.has_fired(context)
    }
}
