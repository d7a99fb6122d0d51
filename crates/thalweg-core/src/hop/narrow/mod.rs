//! Paths on which full packets vanish while small ones pass.
//!
//! *The idea.* QUIC needs paths that carry datagrams of 1,200 bytes (RFC 9000 §14) and cannot send less in
//! one packet where it has more to send. On a path that became smaller than that, acknowledgements and the
//! tails of ADUs still pass, so the link looks alive, and nothing that needs a full packet ever arrives. The
//! transport reports each packet that was acknowledged or lost, with its size. A **streak** of lost full
//! packets ends as soon as one that was sent later is acknowledged:
//!
//! ```text
//! sent       1200  350  1200  350  1200  350
//!            lost  ✓    lost  ✓    lost  ✓     full packets vanish: the path is too small
//!            lost  ✓    ✓     ✓    lost  ✓     chance: the second full packet ended the streak
//! ```
//!
//! Packets above 1,200 bytes are not counted: the transport's own search lowers the packet size to that (RFC
//! 8899 §4.4).
//!
//! *What it does not do.* It says nothing of a path on which small packets are lost as well; that is an
//! outage or congestion. It ends no link: the driver does.
//!
//! *Sources.* RFC 8899 §4.4 (black hole detection); noq-proto 1.4 `connection/mtud.rs`.

use super::settings::MTU_BYTES_MIN;
use crate::time::{Duration, Instant};

/// A packet of at least this size counts as full. Half of the least that every path must carry: whatever is
/// smaller says more about the path's room for small packets.
const FULL_BYTES_MIN: u16 = MTU_BYTES_MIN / 2;

/// Full packets lost in a row before a path is suspected: at 30 % random loss one streak in 1,400 is as long.
/// However short the time: where all that is sent is full, their loss is found all at once, when a small
/// packet is acknowledged at last.
const SUSPECT_LOST: u32 = 6;

/// Full packets lost in a row before small packets that pass are proof: at 30 % random loss one streak in 1.9
/// million.
const CERTAIN_LOST: u32 = 12;

/// How long such a streak must last.
const CERTAIN_AFTER: Duration = Duration::from_secs(1);

/// Small packets that must have passed meanwhile, for each small one that was lost and in all.
const CERTAIN_PASSED: u32 = 3;

/// What is known of a path's room for full packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passage {
    /// Nothing speaks against it.
    #[default]
    Open,
    /// So many full packets were lost in a row that the path is worth a test.
    Suspect,
    /// Full packets vanish and small ones pass.
    Narrow,
}

/// Watches the sizes of what is acknowledged and lost on one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Narrow(Option<Streak>);

/// Full packets that were lost in a row, with what happened to small packets sent since the first of them.
#[derive(Clone, Copy, Debug)]
struct Streak {
    /// The number of the first lost packet.
    first: u64,
    /// When its loss was found.
    since: Instant,
    /// The smallest of the full packets lost.
    smallest: u16,
    lost: u32,
    small_passed: u32,
    small_lost: u32,
}

impl Narrow {
    /// Takes in that a packet was lost.
    pub fn handle_lost(&mut self, now: Instant, number: u64, bytes: u16) {
        if bytes > MTU_BYTES_MIN {
            return;
        }
        let is_full = bytes >= FULL_BYTES_MIN;
        match &mut self.0 {
            Some(streak) if is_full => {
                streak.lost = streak.lost.saturating_add(1);
                streak.smallest = streak.smallest.min(bytes);
            }
            Some(streak) => streak.small_lost = streak.small_lost.saturating_add(1),
            streak if is_full => {
                *streak = Some(Streak {
                    first: number,
                    since: now,
                    smallest: bytes,
                    lost: 1,
                    small_passed: 0,
                    small_lost: 0,
                });
            }
            _ => {}
        }
    }

    /// Takes in that a packet was acknowledged.
    pub fn handle_acknowledged(&mut self, number: u64, bytes: u16) {
        let Some(streak) = &mut self.0 else {
            return;
        };
        // What left before the streak says nothing about the path since then.
        if number <= streak.first {
            return;
        }
        if bytes >= streak.smallest {
            self.0 = None;
        } else {
            streak.small_passed = streak.small_passed.saturating_add(1);
        }
    }

    /// Returns what is known now.
    pub fn passage(&self, now: Instant) -> Passage {
        let passes = self.0.is_some_and(|streak| {
            streak.small_passed >= CERTAIN_PASSED
                && streak.small_passed / CERTAIN_PASSED >= streak.small_lost
        });
        let is_long = |streak: Streak| now >= streak.since + CERTAIN_AFTER;
        if passes && self.has_lost(CERTAIN_LOST) && self.0.is_some_and(is_long) {
            Passage::Narrow
        } else if self.has_lost(SUSPECT_LOST) {
            Passage::Suspect
        } else {
            Passage::Open
        }
    }

    /// Returns whether no full packet has been lost since one arrived.
    pub const fn is_clear(&self) -> bool {
        self.0.is_none()
    }

    fn has_lost(&self, packets: u32) -> bool {
        self.0.is_some_and(|streak| streak.lost >= packets)
    }
}

#[cfg(test)]
mod tests;
