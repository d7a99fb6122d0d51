//! Detects paths on which full packets vanish while small ones pass.
//!
//! *The idea.* QUIC needs paths that carry datagrams of 1,200 bytes (RFC 9000 §14) and cannot send
//! less in one packet where it has more to send. On a path that became smaller than that,
//! acknowledgements and the tails of ADUs still pass, so the link looks alive, but nothing that
//! needs a full packet arrives. The transport reports each packet that was acknowledged or lost,
//! with its size. A **streak** of lost full packets ends as soon as one that was sent later is
//! acknowledged:
//!
//! ```text
//! sent       1200  350  1200  350  1200  350
//!            lost  ✓    lost  ✓    lost  ✓     full packets vanish: the path is too small
//!            lost  ✓    ✓     ✓    lost  ✓     chance: the second full packet ended the streak
//! ```
//!
//! Packets above 1,200 bytes are not counted: the transport's own MTU search lowers the packet size
//! to that (RFC 8899 §4.4).
//!
//! *What it does not do.* It does not judge a path on which small packets are lost as well: that is
//! an outage or congestion. It ends no link: the driver does.
//!
//! *Sources.* RFC 8899 §4.4 (black hole detection); noq-proto 1.4 `connection/mtud.rs`.

use thalweg_base::time::{Duration, Instant};

use super::settings::MTU_BYTES_MIN;

/// A packet of at least this size counts as full: half of the minimum that every path must carry. A
/// smaller one tests the path's room for small packets.
const FULL_BYTES_MIN: u16 = MTU_BYTES_MIN / 2;

/// Full packets lost in a row before a path is suspected: at 30 % random loss one streak in 1,400
/// is as long. No minimum time: where only full packets are sent, all their losses are detected at
/// once, when a small packet is acknowledged.
const SUSPECT_LOST: u32 = 6;

/// Full packets lost in a row before small packets that pass are proof: at 30 % random loss one
/// streak in 1.9 million.
const CERTAIN_LOST: u32 = 12;

/// How long such a streak must last.
const CERTAIN_AFTER: Duration = Duration::from_secs(1);

/// Small packets that must have passed meanwhile, in all and for each small packet lost.
const CERTAIN_PASSED: u32 = 3;

/// Whether a path carries full packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passage {
    /// Nothing suggests otherwise.
    #[default]
    Open,
    /// So many full packets were lost in a row that the path is worth a test.
    Suspect,
    /// Full packets vanish and small ones pass.
    Narrow,
}

/// Watches the sizes of acknowledged and lost packets on one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Narrow(Option<Streak>);

/// Full packets lost in a row, and the fate of small packets sent since the first of them.
#[derive(Clone, Copy, Debug)]
struct Streak {
    /// The number of the first lost packet.
    first: u64,
    /// When its loss was detected.
    since: Instant,
    /// The size of the smallest full packet lost, in bytes.
    smallest: u16,
    lost: u32,
    small_passed: u32,
    small_lost: u32,
}

impl Narrow {
    /// Handles the loss of a packet.
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

    /// Handles the acknowledgement of a packet.
    pub fn handle_acknowledged(&mut self, number: u64, bytes: u16) {
        let Some(streak) = &mut self.0 else {
            return;
        };
        // A packet sent before the streak shows nothing about the path since then.
        if number <= streak.first {
            return;
        }
        // A full packet passed: the losses were chance.
        if bytes >= streak.smallest {
            self.0 = None;
        } else {
            streak.small_passed = streak.small_passed.saturating_add(1);
        }
    }

    /// Returns the present verdict.
    pub fn passage(&self, now: Instant) -> Passage {
        // Small packets pass reliably while full ones vanish; in an outage neither would.
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

    /// Returns whether no full packet has been lost since one was acknowledged.
    pub const fn is_clear(&self) -> bool {
        self.0.is_none()
    }

    fn has_lost(&self, packets: u32) -> bool {
        self.0.is_some_and(|streak| streak.lost >= packets)
    }
}

#[cfg(test)]
mod tests;
