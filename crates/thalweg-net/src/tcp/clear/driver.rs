//! The driver of a link's sender, run by the loop.
//!
//! *The idea.* Credit comes with what the loop reads, and what the driver writes goes to the socket in
//! the same turn. When the loop ends, a driver goes on as a task, to report what was lost.

use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::entry::{Entry, Next, Readiness};
use super::marks::Mark;

/// A driver: it ends some time after its session.
pub(super) struct Driver {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    waker: Waker,
}

impl Driver {
    /// Returns a driver that the mark wakes.
    pub(super) fn new(future: impl Future<Output = ()> + Send + 'static, mark: Arc<Mark>) -> Self {
        Self {
            future: Box::pin(future),
            waker: Waker::from(mark),
        }
    }
}

impl Entry for Driver {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn handle_ready(&mut self, _: Readiness) {}

    fn settle(&mut self, _: &mut [u8]) -> Next {
        let mut context = Context::from_waker(&self.waker);
        match self.future.as_mut().poll(&mut context) {
            Poll::Pending => Next::Event(None),
            Poll::Ready(()) => Next::Over,
        }
    }

    fn abandon(self: Box<Self>) {
        tokio::spawn(self.future);
    }
}
