//! Work for many connections of one loop, handed over as one.
//!
//! *The idea.* A loop that drives many connections in its own thread takes *lots*: an ADU for many
//! links costs the task that has it one entry and one wake-up. The loop does a lot step by step, one
//! connection each, and sends what the step has written while the connection's state is in the
//! cache. A queue is bounded: what it does not take comes back, and the task does it itself.
//!
//! *What it does not do.* It knows neither links nor ADUs: `link::lots` does.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg_base::limits::{HANDED_ADUS_MAX, HANDED_BYTES_MAX};

/// Work for many connections. Dropping it undone does what is left of it.
pub(crate) trait Lot: Send {
    /// Returns what it occupies until it is done.
    fn size(&self) -> LotSize;

    /// Does the next connection's part; returns whether more are left.
    fn step(&mut self) -> bool;
}

/// What a lot occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LotSize {
    pub(crate) adus: usize,
    /// Bytes of payloads; each counts once, however many links it is for.
    pub(crate) bytes: usize,
}

/// A loop that takes lots.
pub(crate) trait TakesLots: Send + Sync {
    /// Takes a lot, which the loop does in its own thread, after those before.
    ///
    /// Fails   gives it back if too much waits, or the loop has ended
    fn take(&self, lot: Box<dyn Lot>) -> Result<(), Box<dyn Lot>>;
}

/// The lots that wait for a loop.
#[derive(Default)]
pub(crate) struct LotQueue(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    lots: VecDeque<Box<dyn Lot>>,
    size: LotSize,
    /// Whether the loop has ended.
    is_closed: bool,
}

impl LotQueue {
    /// Queues a lot.
    ///
    /// Fails   like [`TakesLots::take`]
    pub(crate) fn push(&self, lot: Box<dyn Lot>) -> Result<(), Box<dyn Lot>> {
        let mut waiting = self.lock();
        let size = waiting.size.plus(lot.size());
        if waiting.is_closed || !size.fits() {
            drop(waiting);
            return Err(lot);
        }
        waiting.size = size;
        waiting.lots.push_back(lot);
        Ok(())
    }

    /// Takes the next lot.
    pub(crate) fn pop(&self) -> Option<Box<dyn Lot>> {
        let mut waiting = self.lock();
        let lot = waiting.lots.pop_front()?;
        waiting.size = waiting.size.minus(lot.size());
        Some(lot)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().lots.is_empty()
    }

    /// Takes no more lots, and does those that wait.
    pub(crate) fn close(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        let lots = std::mem::take(&mut waiting.lots);
        drop(waiting);
        // Without the lock: they report outcomes, and what handles these may hand over more.
        drop(lots);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LotSize {
    const fn plus(self, other: Self) -> Self {
        Self {
            adus: self.adus + other.adus,
            bytes: self.bytes + other.bytes,
        }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            adus: self.adus - other.adus,
            bytes: self.bytes - other.bytes,
        }
    }

    const fn fits(self) -> bool {
        self.adus <= HANDED_ADUS_MAX && self.bytes as u64 <= HANDED_BYTES_MAX.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sized(LotSize);

    impl Lot for Sized {
        fn size(&self) -> LotSize {
            self.0
        }

        fn step(&mut self) -> bool {
            false
        }
    }

    fn push(queue: &LotQueue, adus: usize, bytes: usize) -> bool {
        queue.push(Box::new(Sized(LotSize { adus, bytes }))).is_ok()
    }

    #[test]
    fn queue_is_bounded_in_adus_and_bytes() {
        let queue = LotQueue::default();
        let bytes_max = HANDED_BYTES_MAX.as_bytes() as usize;
        assert!(push(&queue, HANDED_ADUS_MAX - 1, 7));
        assert!(!push(&queue, 2, 7), "too many");
        assert!(push(&queue, 1, bytes_max - 7));
        assert!(!push(&queue, 0, 1), "too many bytes");
        assert!(queue.pop().is_some());
        assert!(push(&queue, 2, 7), "the first has left");
        queue.close();
        assert!(queue.is_empty() && !push(&queue, 0, 0));
    }
}
