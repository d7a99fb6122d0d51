//! The lots that the loop takes: an ADU for many links, as one entry and one wake-up.

use std::sync::Arc;

use super::marks::Marks;
use crate::lot::{Lot, LotQueue, TakesLots};

/// The lots that wait, and what wakes the loop for them.
pub(super) struct Lots {
    queue: LotQueue,
    marks: Arc<Marks>,
}

impl Lots {
    pub(super) fn new(marks: Arc<Marks>) -> Self {
        let queue = LotQueue::default();
        Self { queue, marks }
    }

    /// Takes the next lot.
    pub(super) fn next(&self) -> Option<Box<dyn Lot>> {
        self.queue.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes no more lots, and does those that wait.
    pub(super) fn close(&self) {
        self.queue.close();
    }
}

impl TakesLots for Lots {
    fn take(&self, lot: Box<dyn Lot>) -> Result<(), Box<dyn Lot>> {
        self.queue.push(lot)?;
        self.marks.wake();
        Ok(())
    }
}
