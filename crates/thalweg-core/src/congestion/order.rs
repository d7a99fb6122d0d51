//! How far packets overtake each other, which a queue does not let them.
//!
//! *The idea.* A queue keeps the order. So by how much a packet comes after one that left later, at least so much of its delay
//! was none of a queue's:
//!
//! ```text
//! sent      n   m
//! arrived           m ├── late ──┤ n        a queue would have let n come first
//! ```
//!
//! The greatest such lateness of the last rounds is how much of a delay is jitter. A line that keeps the order has none.
//!
//! A transport gives a packet up when three later ones have come, and does not say when such a packet comes
//! after all: only that all of them have. Without those, only what one or two packets overtook would be seen
//! late, which is least where jitter is widest. So with that word the last that was given up is late by the
//! time since a later one came.
//!
//! *What it does not do.* It sees no jitter that keeps the order, and of what a transport gave up only what
//! comes while nothing else is missing.
//!
//! *Sources.* RFC 8985 §6.2 (a reordering window that follows what is seen); Arun, Alizadeh, Balakrishnan: "Starvation in
//! End-to-End Congestion Control", SIGCOMM 2022 (who goes by delays must bear as much of them as is jitter).

use crate::time::{Duration, Instant};

/// Acknowledgements of a newest packet that are remembered: what was overtaken by more of them is late by these at least.
const MARKS: usize = 16;

/// Rounds for which a lateness holds, and up to twice as many: it is of few packets, so it is seen seldom.
const ROUNDS: u32 = 32;

/// What came in which order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// The newest packets that had come, and when, as a ring.
    marks: [(u64, Instant); MARKS],
    latest: usize,
    /// The greatest lateness of this span of rounds, and of the one before.
    late: [Duration; 2],
    rounds: u32,
    /// When a packet came that had left after the last one that was given up.
    given_up: Option<Instant>,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            marks: [(0, Instant::ZERO); MARKS],
            latest: 0,
            late: [Duration::ZERO; 2],
            rounds: 0,
            given_up: None,
        }
    }
}

impl Order {
    /// Takes in that a packet came, before [`Order::handle_newest`] of its batch.
    pub(super) fn handle_ack(&mut self, now: Instant, number: u64) {
        if number >= self.marks[self.latest].0 {
            return;
        }
        let overtook = self.marks.iter().filter(|mark| mark.0 > number);
        if let Some(first) = overtook.map(|mark| mark.1).min() {
            self.late[0] = self.late[0].max(now.saturating_since(first));
        }
    }

    /// Takes in that the transport gives a packet up.
    pub(super) fn handle_lost(&mut self, number: u64) {
        let overtook = self.marks.iter().filter(|mark| mark.0 > number);
        let first = overtook.map(|mark| mark.1).min();
        // Of several the last counts: whichever of them comes last, it is late by this at least.
        self.given_up = self.given_up.max(first);
    }

    /// Takes in that all packets that were given up have come, the last of them not before this moment.
    pub(super) fn handle_spurious(&mut self, now: Instant) {
        if let Some(first) = self.given_up.take() {
            self.late[0] = self.late[0].max(now.saturating_since(first));
        }
    }

    /// Takes in the newest packet of a batch.
    pub(super) fn handle_newest(&mut self, now: Instant, number: u64) {
        if number > self.marks[self.latest].0 {
            self.latest = (self.latest + 1) % MARKS;
            self.marks[self.latest] = (number, now);
        }
    }

    /// Takes in that packets are numbered anew.
    pub(super) fn forget_numbers(&mut self) {
        self.marks = [(0, Instant::ZERO); MARKS];
        self.given_up = None;
    }

    /// Takes in that a round trip has ended.
    pub(super) fn handle_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= ROUNDS {
            self.rounds = 0;
            self.late = [Duration::ZERO, self.late[0]];
        }
    }

    /// Returns by how much packets came late of late without a queue.
    pub(super) fn late(&self) -> Duration {
        self.late[0].max(self.late[1])
    }
}
