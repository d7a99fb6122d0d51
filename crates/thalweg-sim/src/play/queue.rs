//! The event queue of a run: events by time, and at one time in the order of scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thalweg_base::time::Instant;

/// A scheduled event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A direction of a link has packets to give out.
    Line(usize, usize),
    /// A host's timer is due.
    Host(usize),
    /// The world's event of this index happens.
    Weather(usize),
    /// The world's time is over.
    Over,
    /// Check whether the run has settled.
    Look,
}

/// The scheduled events, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    planned: u64,
}

impl Queue {
    /// Schedules an event, unless its time is never.
    pub(super) fn plan(&mut self, time: Instant, event: Event) {
        if !time.is_never() {
            self.planned += 1;
            self.heap.push(Reverse((time, self.planned, event)));
        }
    }

    /// Removes and returns the next event.
    pub(super) fn next(&mut self) -> Option<(Instant, Event)> {
        self.heap
            .pop()
            .map(|Reverse((time, _, event))| (time, event))
    }
}
