//! How long a node takes to hand on what comes, and whether an ADU has that long left.
//!
//! *The idea.* A relay that has more copies to make than its processor can make falls behind, and what waits for it grows as
//! old as its deadline lets it. To copy that is worse than useless: it comes too late, and while it is copied the next grows
//! as old. So who has less time left than it takes to hand it on goes before any work is done for it, which costs next to
//! nothing, and what is taken next is fresh.
//!
//! What is taken in one go is a *round*; it is over when all who send have had their turns. A copy takes what one took in the
//! middle one of the last three, so that a moment in which the machine stood still costs nothing that comes after it. What is
//! read just after a round may have lain unread for as long as that took, which its deadline does not know.
//!
//! ```text
//!   unread        │ copied, handed to links
//!   the last round│ (copies taken in this one + its own) · a copy   ─► the path
//! ```
//!
//! What matters least must have twice the time for its copies that what matters most must: where not all can be copied, that
//! is what goes without.
//!
//! *What it does not do.* It does not measure: who carries ADUs does. It knows no path: what comes after this node is for the
//! outbox of each link.
//!
//! *Sources.* docs/outbox.md §8. Nichols and Jacobson, "Controlling Queue Delay", 2012, for judging a queue by the time in it.

#[cfg(test)]
mod tests;

use crate::adu::Importance;
use crate::time::{Duration, Instant};

/// Rounds that are remembered; with fewer nothing is judged.
const ROUNDS: usize = 3;

/// How long a round says something of the next.
const KEEP: Duration = Duration::from_secs(5);

/// What the last rounds took.
#[derive(Clone, Debug, Default)]
pub struct Lag {
    /// The newest last.
    rounds: [Round; ROUNDS],
    /// When the last one ended, and how long it took, whether anything was copied or not.
    ended: Instant,
    took: Duration,
    /// The one that goes on: when it began, and the copies so far.
    present: Option<(Instant, u32)>,
}

/// A round in which something was copied.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    ended: Instant,
    a_copy: Duration,
}

impl Lag {
    /// Takes in that an ADU is taken of which so many copies are made, none if it is dropped; a round begins if none goes on.
    pub fn handle_taken(&mut self, now: Instant, copies: u32) {
        let (_, ahead) = self.present.get_or_insert((now, 0));
        *ahead = ahead.saturating_add(copies);
    }

    /// Takes in that all who send have had their turns.
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
                a_copy: Duration::from_nanos(self.took.as_nanos() / u64::from(copies)),
            };
        }
    }

    /// Returns how much time an ADU of which so many copies are to be made must have left for that to be worth it.
    pub fn needed(&self, now: Instant, copies: u32, importance: Importance) -> Duration {
        let [oldest, ..] = self.rounds;
        let is_known = oldest.ended > Instant::ZERO && now.saturating_since(oldest.ended) <= KEEP;
        if !is_known {
            return Duration::ZERO;
        }
        let unread = self.took.saturating_sub(now.saturating_since(self.ended));
        let ahead = self.present.map_or(0, |(_, ahead)| ahead);
        let copies = u64::from(ahead) + u64::from(copies);
        let handing_on = self.a_copy().as_nanos().saturating_mul(copies);
        let more = handing_on / u64::from(u8::MAX) * u64::from(u8::MAX - importance.0);
        let sum = unread.as_nanos().saturating_add(handing_on);
        Duration::from_nanos(sum.saturating_add(more))
    }

    /// Returns how long a copy took in the middle one of the last rounds.
    fn a_copy(&self) -> Duration {
        let mut rounds = self.rounds.map(|round| round.a_copy);
        rounds.sort_unstable();
        rounds[ROUNDS / 2]
    }

    /// Returns whether a round goes on.
    pub const fn is_under_way(&self) -> bool {
        self.present.is_some()
    }

    /// Returns how long the last round took.
    pub const fn last(&self) -> Duration {
        self.took
    }
}
