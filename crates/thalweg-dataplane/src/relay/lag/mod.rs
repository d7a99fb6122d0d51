//! How long a node takes to forward an ADU, and whether an ADU has that much time left.
//!
//! *The idea.* A relay with more copies to make than its processor can make falls behind, and its
//! backlog grows as old as the deadlines allow. Copying an old ADU is worse than useless: it
//! arrives too late, and meanwhile the next one grows as old. So an ADU with less time left than
//! its forwarding takes is dropped before any work is done, at next to no cost, and the next one
//! read is fresh.
//!
//! The ADUs read in one go are a *round*; it ends when every source link had its turn. The cost of
//! a copy is the median of the last three rounds, so that a single stall of the machine has no
//! effect. An ADU that is read just after a round may have lain unread for as long as that round
//! took, which its deadline does not show.
//!
//! ```text
//!   unread        │ copied, handed to links
//!   the last round│ (copies taken in this one + its own) · a copy   ─► the path
//! ```
//!
//! The least important ADU must have twice the time for its copies that the most important must:
//! where not all can be copied, it is dropped first.
//!
//! *What it does not do.* It does not measure: the driver does. It knows no path: what happens
//! after this node is for each link's outbox.
//!
//! *Sources.* docs/concepts/outbox.md §8. Nichols and Jacobson, "Controlling Queue Delay", 2012, for judging
//! a queue by the time in it.

#[cfg(test)]
mod tests;

use thalweg_base::adu::{Flags, Header, Importance};
use thalweg_base::time::{Duration, Instant};

/// Rounds remembered; with fewer, every ADU passes.
const ROUNDS: usize = 3;

/// How long a round predicts the next.
const KEEP: Duration = Duration::from_secs(5);

/// The duration of the last rounds.
#[derive(Clone, Debug, Default)]
pub struct Lag {
    /// Oldest first.
    rounds: [Round; ROUNDS],
    /// When the last round ended, and how long it took, with copies or without.
    ended: Instant,
    took: Duration,
    /// The round in progress: when it began, and its copies so far.
    present: Option<(Instant, u32)>,
}

/// A round in which something was copied.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    ended: Instant,
    copy_time: Duration,
}

impl Lag {
    /// Handles the arrival of an ADU of which `copies` are to be sent; returns whether its deadline
    /// leaves time for them. The end of a stream is always admitted, and what is not sent on.
    pub fn admits(&mut self, header: &Header, copies: usize, now: Instant) -> bool {
        if copies == 0 {
            return true;
        }
        let copies = u32::try_from(copies).unwrap_or(u32::MAX);
        let is_urgent = !header.deadline.is_never() && !header.flags.contains(Flags::END);
        let is_late = is_urgent
            && header.deadline.saturating_since(now) < self.needed(now, copies, header.importance);
        self.handle_taken(now, if is_late { 0 } else { copies });
        !is_late
    }

    /// Handles an ADU that is read and copied so often, zero if it is dropped; begins a round if
    /// none is in progress.
    pub fn handle_taken(&mut self, now: Instant, copies: u32) {
        let (_, ahead) = self.present.get_or_insert((now, 0));
        *ahead = ahead.saturating_add(copies);
    }

    /// Handles that every source link has had its turn.
    pub fn handle_end(&mut self, now: Instant) {
        let Some((begun, copies)) = self.present.take() else {
            return;
        };
        self.took = now.saturating_since(begun);
        self.ended = now;
        if copies > 0 {
            self.rounds.rotate_left(1);
            self.rounds[ROUNDS - 1] = Round {
                ended: now,
                copy_time: Duration::from_nanos(self.took.as_nanos() / u64::from(copies)),
            };
        }
    }

    /// Returns the time that an ADU with this many copies must have left to be worth copying.
    pub fn needed(&self, now: Instant, copies: u32, importance: Importance) -> Duration {
        let [oldest, ..] = self.rounds;
        // Three rounds, all of them recent.
        let is_known = oldest.ended > Instant::ZERO && now.saturating_since(oldest.ended) <= KEEP;
        if !is_known {
            return Duration::ZERO;
        }
        // An ADU read just after a round may have waited in the socket for all of it.
        let unread = self.took.saturating_sub(now.saturating_since(self.ended));
        let ahead = self.present.map_or(0, |(_, ahead)| ahead);
        let copies = u64::from(ahead) + u64::from(copies);
        let handing_on = self.copy_time().as_nanos().saturating_mul(copies);
        // Up to as much again for the least important.
        let more = handing_on / u64::from(u8::MAX) * u64::from(u8::MAX - importance.0);
        let sum = unread.as_nanos().saturating_add(handing_on);
        Duration::from_nanos(sum.saturating_add(more))
    }

    /// Returns the time of one copy: the median of the last rounds.
    fn copy_time(&self) -> Duration {
        let mut rounds = self.rounds.map(|round| round.copy_time);
        rounds.sort_unstable();
        rounds[ROUNDS / 2]
    }

    /// Returns whether a round is in progress.
    pub const fn is_under_way(&self) -> bool {
        self.present.is_some()
    }

    /// Returns how long the last round took.
    pub const fn last(&self) -> Duration {
        self.took
    }
}
