//! What other threads ask of the loop.
//!
//! *The idea.* One queue beside the marks, with the same bell. Requests are rare: a dial, the end.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::id::NodeId;
use tokio::sync::oneshot;

use super::connection::Connection;
use super::dial::DialError;
use super::marks::Marks;

/// The queue of requests.
pub(super) struct Inbox {
    queue: Mutex<Queue>,
    marks: Arc<Marks>,
}

#[derive(Default)]
struct Queue {
    requests: Vec<Request>,
    /// Whether the loop has ended.
    is_closed: bool,
}

/// A request to the loop.
pub(super) enum Request {
    Dial {
        peer: NodeId,
        address: SocketAddr,
        reply: oneshot::Sender<Result<Connection, DialError>>,
    },
    /// Close every connection, and end.
    Stop,
    /// End, and send nothing.
    Abort,
}

impl Inbox {
    pub(super) fn new(marks: Arc<Marks>) -> Self {
        let queue = Mutex::default();
        Self { queue, marks }
    }

    /// Queues a request; drops it if the loop has ended.
    pub(super) fn push(&self, request: Request) {
        let mut queue = self.lock();
        if !queue.is_closed {
            queue.requests.push(request);
        }
        drop(queue);
        self.marks.wake();
    }

    pub(super) fn take(&self) -> Vec<Request> {
        std::mem::take(&mut self.lock().requests)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().requests.is_empty()
    }

    /// Drops all requests, and those that follow.
    pub(super) fn close(&self) {
        *self.lock() = Queue {
            requests: Vec::new(),
            is_closed: true,
        };
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No code that can panic runs under this lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
