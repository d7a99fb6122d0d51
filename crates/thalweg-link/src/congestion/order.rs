//! Jitter measured by reordering, which a queue cannot cause.
//!
//! *The idea.* A queue keeps the order. So when a packet arrives after one that was sent later, at
//! least that much of its delay was not queueing:
//!
//! ```text
//! sent      n   m
//! arrived           m ├── late ──┤ n        a queue would have let n come first
//! ```
//!
//! The greatest such lateness of the last rounds is how much of a delay is jitter. A line that
//! keeps the order has none.
//!
//! A transport declares a packet lost once three later ones were acknowledged. If such packets
//! arrive after all, it reports only that all of them have. Ignoring those would leave the packets
//! that one or two others overtook, which are the least late where jitter is widest. So on that
//! report, the last packet declared lost is late by the time since a later one arrived.
//!
//! *What it does not do.* It sees no jitter that keeps the order, and of packets declared lost only
//! those that arrive while no other is missing.
//!
//! *Sources.* RFC 8985 §6.2 (a reordering window that adapts); Arun, Alizadeh, Balakrishnan:
//! "Starvation in End-to-End Congestion Control", SIGCOMM 2022 (a delay-based flow must tolerate as
//! much delay as jitter causes).

use thalweg_base::time::{Duration, Instant};

/// Remembered acknowledgements of a new newest packet: a packet overtaken by more is at least late
/// by these.
const MARKS: usize = 16;

/// Rounds for which a lateness holds, and up to twice as many: few packets show it, so it is seen
/// seldom.
const ROUNDS: u32 = 32;

/// The order in which packets arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// Packets that were the newest on arrival, and when they arrived: a ring.
    marks: [(u64, Instant); MARKS],
    latest: usize,
    /// The greatest lateness of this span of rounds, and of the one before.
    late: [Duration; 2],
    rounds: u32,
    /// When a packet arrived that was sent after the last one declared lost.
    overtaken_at: Option<Instant>,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            marks: [(0, Instant::ZERO); MARKS],
            latest: 0,
            late: [Duration::ZERO; 2],
            rounds: 0,
            overtaken_at: None,
        }
    }
}

impl Order {
    /// Handles the arrival of a packet, before [`Order::handle_newest`] of its batch.
    pub(super) fn handle_ack(&mut self, now: Instant, number: u64) {
        if number >= self.marks[self.latest].0 {
            return;
        }
        // Against the first packet that overtook this one: a queue would have delivered both in order.
        let overtook = self.marks.iter().filter(|mark| mark.0 > number);
        if let Some(first) = overtook.map(|mark| mark.1).min() {
            self.late[0] = self.late[0].max(now.saturating_since(first));
        }
    }

    /// Handles a packet that the transport declared lost.
    pub(super) fn handle_lost(&mut self, number: u64) {
        let overtook = self.marks.iter().filter(|mark| mark.0 > number);
        let first = overtook.map(|mark| mark.1).min();
        // Of several the last counts: whichever of them arrives last is late by this at least.
        self.overtaken_at = self.overtaken_at.max(first);
    }

    /// Handles that all packets declared lost have arrived, the last of them not before `now`.
    pub(super) fn handle_spurious(&mut self, now: Instant) {
        if let Some(first) = self.overtaken_at.take() {
            self.late[0] = self.late[0].max(now.saturating_since(first));
        }
    }

    /// Handles the newest packet of a batch.
    pub(super) fn handle_newest(&mut self, now: Instant, number: u64) {
        if number > self.marks[self.latest].0 {
            self.latest = (self.latest + 1) % MARKS;
            self.marks[self.latest] = (number, now);
        }
    }

    /// Handles that packet numbers start over.
    pub(super) fn forget_numbers(&mut self) {
        self.marks = [(0, Instant::ZERO); MARKS];
        self.overtaken_at = None;
    }

    /// Handles the end of a round trip.
    pub(super) fn handle_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= ROUNDS {
            self.rounds = 0;
            // Two spans, so that a lateness holds for 32 to 64 rounds.
            self.late = [Duration::ZERO, self.late[0]];
        }
    }

    /// Returns how late packets arrived recently for reasons other than a queue.
    pub(super) fn late(&self) -> Duration {
        self.late[0].max(self.late[1])
    }
}
