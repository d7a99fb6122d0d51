//! An alarm: of a link's driver for the deadline that comes first, of a payload that arrives for its own, of a TCP connection for
//! what its session is to do next.
//!
//! *The idea.* Deadlines come and go with every ADU; most pass long after their ADU was acknowledged. So the alarm is only
//! ever set to an earlier time, and stays when nothing is due any more. When it goes off its owner looks what is next: that
//! is once a deadline's length, and not once an ADU.
//!
//! *What it does not do.* It does not say what is due.

use std::pin::Pin;
use std::task::Context;

use thalweg_core::time::Instant;
use tokio::time::Sleep;

use crate::clock::Clock;

/// A timer that is set to earlier times only, until it has gone off.
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Clock,
    /// Made when it is first needed, and used again.
    sleep: Option<Pin<Box<Sleep>>>,
    /// When it goes off; never if it is not set.
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

    /// Sets it, in place of the time it had.
    ///
    /// Whoever sets it has to ask [`Alarm::has_gone_off`] then, or it wakes nobody.
    pub(crate) fn set(&mut self, at: Instant) {
        let timer = self.clock.timer(at);
        self.at = if timer.is_some() { at } else { Instant::NEVER };
        match (timer, &mut self.sleep) {
            (Some(timer), Some(sleep)) => sleep.as_mut().reset(timer),
            (Some(timer), none) => *none = Some(Box::pin(tokio::time::sleep_until(timer))),
            (None, _) => {}
        }
    }

    /// Returns whether its time has come, once; else it wakes who asks when that comes.
    pub(crate) fn has_gone_off(&mut self, context: &mut Context<'_>) -> bool {
        let sleep = self.sleep.as_mut().filter(|_| !self.at.is_never());
        let is_due = sleep.is_some_and(|sleep| sleep.as_mut().poll(context).is_ready());
        if is_due {
            self.at = Instant::NEVER;
        }
        is_due
    }

    /// Returns whether a time has come, or an earlier one that was waited for before and had not come: whoever waits looks what
    /// is due. If not, it wakes who asks when it does.
    pub(crate) fn is_due(&mut self, at: Instant, context: &mut Context<'_>) -> bool {
        if at < self.at {
            self.set(at);
        }
        self.has_gone_off(context)
    }
}
