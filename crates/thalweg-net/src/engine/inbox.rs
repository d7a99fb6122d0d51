//! What other threads ask of the loop.
//!
//! *The idea.* Two queues beside the marks, with the same bell: requests, which are rare (a dial, the
//! end), and lots of ADUs for many connections.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::id::NodeId;
use tokio::sync::oneshot;

use super::connection::Connection;
use super::dial::DialError;
use super::marks::Marks;
use crate::lot::{Lot, LotQueue, TakesLots};

/// The queue of requests.
pub(super) struct Inbox {
    queue: Mutex<Queue>,
    lots: LotQueue,
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
        Self {
            queue: Mutex::default(),
            lots: LotQueue::default(),
            marks,
        }
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

    /// Takes the next lot.
    pub(super) fn next_lot(&self) -> Option<Box<dyn Lot>> {
        self.lots.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().requests.is_empty() && self.lots.is_empty()
    }

    /// Drops all requests, and those that follow; lots are done here, and then where they come from.
    pub(super) fn close(&self) {
        *self.lock() = Queue {
            requests: Vec::new(),
            is_closed: true,
        };
        self.lots.close();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No code that can panic runs under this lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TakesLots for Inbox {
    fn take(&self, lot: Box<dyn Lot>) -> Result<(), Box<dyn Lot>> {
        self.lots.push(lot)?;
        self.marks.wake();
        Ok(())
    }
}
