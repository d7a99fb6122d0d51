//! One heap of timers for all connections.
//!
//! *The idea.* A connection has one entry that counts: the one at the time that its slot holds. An
//! earlier time adds an entry, and entries at other times are skipped when they come up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use noq_proto::ConnectionHandle;

#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(Instant, usize)>>);

impl Timers {
    /// Adds an entry.
    pub(super) fn set(&mut self, handle: ConnectionHandle, at: Instant) {
        self.0.push(Reverse((at, handle.0)));
    }

    /// Returns the number of entries.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the time of the first entry.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the first entry if it is due.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Instant, ConnectionHandle)> {
        self.next().filter(|at| *at <= now)?;
        let Reverse((at, handle)) = self.0.pop()?;
        Some((at, ConnectionHandle(handle)))
    }
}
