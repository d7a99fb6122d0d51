//! Probe packets beyond the window, to a peer that acknowledges nothing.
//!
//! *The idea.* On a line that went dark, the window is full and nothing more may go. The
//! transport's own probes back off exponentially up to seconds, so a line that is back after two
//! seconds may stay idle for another two. While something waits for room and the peer has
//! acknowledged nothing for a while, one packet with the most important bytes goes beyond the
//! window at even intervals. That is below any rate at which a sender would have to back off, and
//! the first packet that arrives opens the window again.
//!
//! *What it does not do.* It does not declare a path broken
//! ([`Pulse`](crate::pulse::Pulse) does), and sends only bytes that are due to be sent
//! anyway.
//!
//! *Sources.* RFC 9002 §6.2 (probe timeout), §7.5; RFC 8085 §3.1.1 for how much may be sent without
//! feedback.

use thalweg_base::time::{Duration, Instant};

/// Minimum silence before a packet goes beyond the window, and minimum interval between two such
/// packets.
pub const KNOCK_MIN: Duration = Duration::from_millis(250);

/// The same in minimum round trips: on a path with a long queue, acknowledgements are as far apart
/// as their packets.
const PROBE_ROUNDS: u64 = 3;

/// When the next probe is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeTimer {
    /// The transport's count of acknowledgements when it was last read.
    heard: u64,
    at: Instant,
}

impl ProbeTimer {
    pub(super) const NONE: Self = Self {
        heard: 0,
        at: Instant::NEVER,
    };

    /// Returns when the next probe is due; `NEVER` while nothing waits for room.
    pub(super) const fn poll_timeout(&self) -> Instant {
        self.at
    }

    /// Returns whether a probe is due, given the transport's count of acknowledgements.
    pub(super) fn is_due(&mut self, now: Instant, heard: u64) -> bool {
        // The peer acknowledged something since: the silence starts over.
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

    /// Handles whether something waits for room, and the minimum one-way delay.
    pub(super) fn handle_pause(&mut self, now: Instant, waits: bool, transit: Duration) {
        if !waits {
            self.at = Instant::NEVER;
        } else if self.at.is_never() {
            self.at = now
                + KNOCK_MIN.max(Duration::from_nanos(
                    transit.as_nanos().saturating_mul(2 * PROBE_ROUNDS),
                ));
        }
    }
}
