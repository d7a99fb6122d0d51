//! The one queue of a run: events by time, and at one time in the order in which they were planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thalweg_core::time::Instant;

/// Something that is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A direction of a road has something to give out.
    Line(usize, usize),
    /// A host has something to do.
    Host(usize),
    /// The world's event of this number happens.
    Weather(usize),
    /// The world's time is over.
    Over,
    /// Is all accounted for?
    Look,
}

/// What is to happen, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    planned: u64,
}

impl Queue {
    /// Plans an event; what is never, is not planned.
    pub(super) fn plan(&mut self, time: Instant, event: Event) {
        if !time.is_never() {
            self.planned += 1;
            self.heap.push(Reverse((time, self.planned, event)));
        }
    }

    /// Takes the next event.
    pub(super) fn next(&mut self) -> Option<(Instant, Event)> {
        self.heap
            .pop()
            .map(|Reverse((time, _, event))| (time, event))
    }
}
