//! Detects a neighbour that does not answer, from existing traffic and long before its connection
//! times out.
//!
//! *The idea.* What QUIC has sent is acknowledged within one round trip and the acknowledgement
//! delay. So while bytes are in flight and nothing at all arrives, each further round trip makes it
//! less likely that the neighbour is alive. After [`Pulse::doubt`] it is **doubtful**, so that
//! another path is prepared; after [`Pulse::patience`] it is **silent**; any received byte ends
//! either state. A false alarm costs a change of path and never an ADU, so the patience is short. A
//! false doubt costs a few messages, so it comes sooner.
//!
//! ```text
//! sent ──► check every 25 ms while bytes are in flight ──► nothing for max(3 · RTT, 75 ms): doubtful
//!          and when either is due                      ├─► nothing for max(4 · RTT + 25 ms, 150 ms): silent
//!                                                      └─► something arrived: answering, restart the wait
//! ```
//!
//! A check sees that something arrived, not when. The transport knows the time of the last
//! acknowledgement, and of the first packet sent after it; the wait counts from there and not from
//! the next check.
//!
//! A check that runs late shows that this node was suspended, not its neighbour: the wait is
//! extended by the excess.
//!
//! *What it does not do.* It does not probe an idle link: a link without traffic loses nothing. It
//! closes no connection.
//!
//! *Sources.* RFC 9000 §13.2.1 and RFC 9002 §6.2.1 (25 ms by which an acknowledgement may be held
//! back); spec BM-R2: the old system delayed 7 packets of 40 ms.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;

#[cfg(test)]
mod tests;

/// Longest interval between checks while bytes are in flight: a sixth of the minimum patience.
pub const LOOK: Duration = Duration::from_millis(25);

/// How long an acknowledgement may be held back: QUIC's default.
const ACK_DELAY: Duration = Duration::from_millis(25);

/// Minimum patience: a shorter one would be exceeded by a scheduling delay, or by one lost packet
/// and its probe.
const PATIENCE_MIN: Duration = Duration::from_millis(150);

/// Round trips without any data until a neighbour is silent.
const ROUNDS: u64 = 4;

/// Round trips without any data until a neighbour is doubtful: a probe is sent after one RTT, its
/// deviation and [`ACK_DELAY`] (RFC 9002 §6.2.1), and is answered one RTT later.
const DOUBT_ROUNDS: u64 = 3;

/// Minimum time until a neighbour is doubtful: half of the minimum patience, which leaves the other
/// half to prepare a path.
const DOUBT_MIN: Duration = Duration::from_millis(75);

/// The liveness of one neighbour.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    /// Bytes received until the last check; `None` if the driver did not read it.
    received: Option<DataSize>,
    /// Since when an answer is outstanding.
    since: Instant,
    /// Time of the last check.
    checked: Instant,
    check_at: Instant,
    hearing: Hearing,
}

/// A neighbour's liveness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearing {
    /// It answers, or has nothing to answer.
    Answering,
    /// It has not answered for long enough to prepare another path.
    Doubtful,
    /// It does not answer.
    Silent,
}

/// A driver's reading of a link at a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    /// All bytes received over the link; `None` if not read, which is allowed while the neighbour
    /// is not silent and nothing is in flight or the wait is shorter than [`LOOK`].
    pub received: Option<DataSize>,
    /// Bytes neither acknowledged nor lost, and lost bytes to be retransmitted.
    pub in_flight: DataSize,
    /// When the last acknowledgement arrived or the oldest packet in flight was sent, whichever is
    /// later; `None` if unknown.
    pub waiting_since: Option<Instant>,
    /// Smoothed RTT; zero if `received` was not read, as nothing is due then.
    pub rtt: Duration,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            received: Some(DataSize::ZERO),
            since: Instant::ZERO,
            checked: Instant::ZERO,
            check_at: Instant::NEVER,
            hearing: Hearing::Answering,
        }
    }
}

impl Pulse {
    /// Returns the time without any data after which a neighbour with this RTT is silent.
    pub fn patience(rtt: Duration) -> Duration {
        (rounds(rtt, ROUNDS) + ACK_DELAY).max(PATIENCE_MIN)
    }

    /// Returns the time without any data after which a neighbour is doubtful; always below the
    /// patience.
    pub fn doubt(rtt: Duration) -> Duration {
        rounds(rtt, DOUBT_ROUNDS).max(DOUBT_MIN)
    }

    /// Takes in that bytes are sent that will be acknowledged.
    pub const fn handle_sent(&mut self, now: Instant) {
        if self.check_at.is_never() {
            self.since = now;
            self.check_at = Instant::from_nanos(now.as_nanos().saturating_add(LOOK.as_nanos()));
        }
    }

    /// Checks; returns the neighbour's liveness if it has changed.
    pub fn handle_look(&mut self, sign: Sign, now: Instant) -> Option<Hearing> {
        // Bytes that arrived between a check without a reading and the next one end no wait: the
        // wait began with the first of them.
        let has_come = self
            .received
            .zip(sign.received)
            .is_some_and(|(before, now)| before != now);
        self.received = sign.received;
        let checked = core::mem::replace(&mut self.checked, now);
        let known = sign.waiting_since.map(|since| since.min(now));
        self.since = match known {
            _ if sign.in_flight == DataSize::ZERO => now,
            // If an acknowledgement arrived, its time is known; of other data only that it has
            // arrived by now.
            Some(known) if has_come && known > checked => known,
            _ if has_come => now,
            Some(known) => self.since.max(known),
            None => self.since,
        };
        // This node ran late: its own absence does not count.
        let delay = now.saturating_since(self.check_at);
        if delay > LOOK {
            self.since = (self.since + delay).min(now);
        }
        // A silent neighbour is checked until something arrives, even without traffic.
        let is_idle = sign.in_flight == DataSize::ZERO && (has_come || !self.is_silent());
        let (doubt, patience) = (Self::doubt(sign.rtt), Self::patience(sign.rtt));
        let due = [doubt, patience].map(|wait| self.since + wait);
        let soonest = due.into_iter().filter(|due| *due > now);
        self.check_at = if is_idle {
            Instant::NEVER
        } else {
            soonest.fold(now + LOOK, Instant::min)
        };
        let waited = now.saturating_since(self.since);
        let hearing = match self.hearing {
            _ if has_come => Hearing::Answering,
            // Only received bytes end a silence.
            Hearing::Silent => Hearing::Silent,
            _ if waited >= patience => Hearing::Silent,
            _ if waited >= doubt => Hearing::Doubtful,
            _ => Hearing::Answering,
        };
        let has_changed = hearing != self.hearing;
        self.hearing = hearing;
        has_changed.then_some(hearing)
    }

    /// Returns whether the neighbour is silent.
    pub fn is_silent(&self) -> bool {
        self.hearing == Hearing::Silent
    }

    /// Returns when to check.
    pub const fn poll_timeout(&self) -> Instant {
        self.check_at
    }
}

/// Returns `count` round trips.
const fn rounds(rtt: Duration, count: u64) -> Duration {
    Duration::from_nanos(rtt.as_nanos().saturating_mul(count))
}
