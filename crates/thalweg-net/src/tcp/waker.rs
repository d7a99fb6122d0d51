//! Wakes a carrier's task from any other.

use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::task::Context;

use futures_util::task::AtomicWaker;

/// Wakes a carrier to look at its session.
#[derive(Debug, Default)]
pub(super) struct CarrierWaker {
    waker: AtomicWaker,
    is_woken: AtomicBool,
}

impl CarrierWaker {
    pub(super) fn wake(&self) {
        self.is_woken.store(true, Release);
        self.waker.wake();
    }

    /// Returns whether it was woken since the last call; a later wake wakes this task.
    pub(super) fn take(&self, context: &Context<'_>) -> bool {
        // Registered before the flag is read, so that a wake between the two is not lost.
        self.waker.register(context.waker());
        self.is_woken.swap(false, Acquire)
    }
}
