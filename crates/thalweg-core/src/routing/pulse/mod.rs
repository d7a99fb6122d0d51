//! Whether a neighbour answers: found out from traffic that is there anyway, long before its connection is given up.
//!
//! *The idea.* What QUIC has sent and must be acknowledged is answered within a round trip and the time that an
//! acknowledgement may be held back. So while bytes are in flight and nothing at all comes, every further round trip makes
//! it less likely that the neighbour is there. After [`Pulse::patience`] it is taken for **silent**; the first byte that
//! comes ends that. A false alarm costs a change of the way, never an ADU, so the patience is short.
//!
//! ```text
//! sent ──► look every 25 ms while bytes are in flight ──► nothing came for max(4 · RTT + 25 ms, 150 ms): silent
//!                                                    └──► something came: not silent, wait anew
//! ```
//!
//! A look that comes late by more than another says that this node was away, not its neighbour: by so much more is waited.
//!
//! *What it does not do.* An idle link is not asked: what has nothing to carry loses nothing. It ends no connection.
//!
//! *Sources.* RFC 9000 §13.2.1 and RFC 9002 §6.2.1 (25 ms by which an acknowledgement may be held back); spec BM-R2: the
//! old system delayed 7 packets of 40 ms.

use crate::time::{Duration, Instant};
use crate::units::DataSize;

#[cfg(test)]
mod tests;

/// How often it is looked while bytes are in flight: a sixth of the least patience.
pub const LOOK: Duration = Duration::from_millis(25);

/// How long an acknowledgement may be held back: QUIC's default.
const ACK_DELAY: Duration = Duration::from_millis(25);

/// The least patience: below it a scheduler's hiccup or one lost packet with its probe would count.
const PATIENCE_MIN: Duration = Duration::from_millis(150);

/// Round trips without a word.
const ROUNDS: u64 = 4;

/// One neighbour's signs of life.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    /// Bytes that had come at the last look; none if nobody asked.
    received: Option<DataSize>,
    /// Since when nothing has come of what was waited for.
    since: Instant,
    look: Instant,
    is_silent: bool,
}

/// What is seen of a link at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    /// All bytes that have come over it; none if that was not asked, for nothing is in flight and the neighbour is not silent.
    pub received: Option<DataSize>,
    /// What is neither acknowledged nor given up as lost, and what is lost and to be sent again.
    pub in_flight: DataSize,
    /// The smoothed round trip.
    pub rtt: Duration,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            received: Some(DataSize::ZERO),
            since: Instant::ZERO,
            look: Instant::NEVER,
            is_silent: false,
        }
    }
}

impl Pulse {
    /// Returns how long nothing may come over a link of this round trip.
    pub fn patience(rtt: Duration) -> Duration {
        let rounds = Duration::from_nanos(rtt.as_nanos().saturating_mul(ROUNDS));
        (rounds + ACK_DELAY).max(PATIENCE_MIN)
    }

    /// Takes in that something is sent, which will be acknowledged.
    pub const fn handle_sent(&mut self, now: Instant) {
        if self.look.is_never() {
            self.since = now;
            self.look = Instant::from_nanos(now.as_nanos().saturating_add(LOOK.as_nanos()));
        }
    }

    /// Looks; returns whether the neighbour is silent, if that has changed.
    pub fn handle_look(&mut self, sign: Sign, now: Instant) -> Option<bool> {
        // What came between a look that did not ask and the next one ends no waiting: that began with the first of them.
        let has_come = self
            .received
            .zip(sign.received)
            .is_some_and(|(before, now)| before != now);
        self.received = sign.received;
        if has_come || sign.in_flight == DataSize::ZERO {
            self.since = now;
        }
        let away = now.saturating_since(self.look);
        if away > LOOK {
            self.since = (self.since + away).min(now);
        }
        let is_idle = sign.in_flight == DataSize::ZERO && (has_come || !self.is_silent);
        self.look = if is_idle { Instant::NEVER } else { now + LOOK };
        let is_silent = if has_come {
            false
        } else {
            self.is_silent || now.saturating_since(self.since) >= Self::patience(sign.rtt)
        };
        let has_changed = is_silent != self.is_silent;
        self.is_silent = is_silent;
        has_changed.then_some(is_silent)
    }

    /// Returns whether the neighbour is taken for silent.
    pub const fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Returns when to look.
    pub const fn poll_timeout(&self) -> Instant {
        self.look
    }
}
