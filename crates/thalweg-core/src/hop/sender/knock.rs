//! A packet now and then to a peer that says nothing.
//!
//! *The idea.* On a line that has gone dark everything that may be in flight is, and nothing more may go. The transport's own
//! probes then go each after twice the time of the one before, up to seconds; so a line that is back after two seconds may
//! stand idle for another two. While something waits for room and the peer has acknowledged nothing for a while, one packet
//! of what matters most goes at even intervals beyond the window: less than any rate at which a sender would have to give
//! way, and the first of them that arrives opens the window again.
//!
//! *What it does not do.* It does not say that a path is broken ([`Pulse`](crate::routing::pulse::Pulse) does), and knocks
//! only with what is to be sent anyway.
//!
//! *Sources.* RFC 9002 §6.2 (probe timeout), §7.5; RFC 8085 §3.1.1 for how much may be sent without feedback.

use crate::time::{Duration, Instant};

/// How long nothing is heard before a packet goes beyond the window, and between two such packets, at least.
pub const KNOCK_MIN: Duration = Duration::from_millis(250);

/// The same in least round trips: acknowledgements of a path with a long queue are as far apart as their packets.
const KNOCK_ROUNDS: u64 = 3;

/// When to knock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knock {
    /// How often the peer had acknowledged anything when that was last asked.
    heard: u64,
    at: Instant,
}

impl Knock {
    pub(super) const NONE: Self = Self {
        heard: 0,
        at: Instant::NEVER,
    };

    /// Returns when it is time to knock; `NEVER` while nothing waits for room.
    pub(super) const fn poll_timeout(&self) -> Instant {
        self.at
    }

    /// Returns whether it is time to knock, given how often the peer has acknowledged anything.
    pub(super) fn is_due(&mut self, now: Instant, heard: u64) -> bool {
        if heard != self.heard {
            *self = Self {
                heard,
                at: Instant::NEVER,
            };
        }
        let is_due = self.at <= now && !self.at.is_never();
        if is_due {
            self.at = Instant::NEVER;
        }
        is_due
    }

    /// Takes in whether something waits for room, and how long a byte is on its way at least.
    pub(super) fn handle_pause(&mut self, now: Instant, waits: bool, transit: Duration) {
        if !waits {
            self.at = Instant::NEVER;
        } else if self.at.is_never() {
            self.at = now
                + KNOCK_MIN.max(Duration::from_nanos(
                    transit.as_nanos().saturating_mul(2 * KNOCK_ROUNDS),
                ));
        }
    }
}
