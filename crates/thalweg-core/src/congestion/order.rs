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
//! *What it does not do.* It sees no jitter that keeps the order, and of what a transport gave up only the least.
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
}

impl Default for Order {
    fn default() -> Self {
        Self {
            marks: [(0, Instant::ZERO); MARKS],
            latest: 0,
            late: [Duration::ZERO; 2],
            rounds: 0,
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
