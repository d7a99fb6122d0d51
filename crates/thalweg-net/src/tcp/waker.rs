//! Wakes a carrier from any thread: its task, or the loop that runs it.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::task::Context;

use futures_util::task::AtomicWaker;

use super::clear::Mark;

/// Wakes a carrier to look at its session.
#[derive(Clone, Debug)]
pub(super) enum CarrierWaker {
    Task(Arc<TaskWaker>),
    Loop(Arc<Mark>),
}

/// Wakes the task of a carrier.
#[derive(Debug, Default)]
pub(super) struct TaskWaker {
    waker: AtomicWaker,
    is_woken: AtomicBool,
}

impl CarrierWaker {
    pub(super) fn wake(&self) {
        match self {
            Self::Task(task) => task.wake(),
            Self::Loop(mark) => mark.set(),
        }
    }
}

impl TaskWaker {
    fn wake(&self) {
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
