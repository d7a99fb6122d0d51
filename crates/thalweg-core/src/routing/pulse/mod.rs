//! Whether a neighbour answers: found out from traffic that is there anyway, long before its connection is given up.
//!
//! *The idea.* What QUIC has sent and must be acknowledged is answered within a round trip and the time that an
//! acknowledgement may be held back. So while bytes are in flight and nothing at all comes, every further round trip makes
//! it less likely that the neighbour is there. After [`Pulse::doubt`] it is **doubted**, so that another way is made ready;
//! after [`Pulse::patience`] it is taken for **silent**; the first byte that comes ends either. A false alarm costs a change of
//! the way, never an ADU, so the patience is short; a false doubt costs a few messages, so it comes sooner.
//!
//! ```text
//! sent ──► look every 25 ms while bytes are in flight ──► nothing came for max(3 · RTT, 75 ms): doubted
//!          and when either is due                     ├─► nothing came for max(4 · RTT + 25 ms, 150 ms): silent
//!                                                     └─► something came: neither, wait anew
//! ```
//!
//! A look sees that something came, not when. For an acknowledgement the transport knows, and for the first packet after it;
//! so what is due is due from then, and not from the look after.
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

/// How often it is looked at least while bytes are in flight: a sixth of the least patience.
pub const LOOK: Duration = Duration::from_millis(25);

/// How long an acknowledgement may be held back: QUIC's default.
const ACK_DELAY: Duration = Duration::from_millis(25);

/// The least patience: below it a scheduler's hiccup or one lost packet with its probe would count.
const PATIENCE_MIN: Duration = Duration::from_millis(150);

/// Round trips without a word.
const ROUNDS: u64 = 4;

/// Round trips without a word until a neighbour is doubted: a probe goes after one, its deviation and [`ACK_DELAY`] (RFC 9002
/// §6.2.1), and is answered after another.
const DOUBT_ROUNDS: u64 = 3;

/// The least time until then: half of the least patience, so that the other half is there to make a way ready.
const DOUBT_MIN: Duration = Duration::from_millis(75);

/// One neighbour's signs of life.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    /// Bytes that had come at the last look; none if nobody asked.
    received: Option<DataSize>,
    /// Since when nothing has come of what was waited for.
    since: Instant,
    /// When it was looked last.
    looked: Instant,
    look: Instant,
    hearing: Hearing,
}

/// What a neighbour is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearing {
    /// It answers, or has nothing to answer.
    Answering,
    /// It has not answered for long enough to make ready for its silence.
    Doubtful,
    /// It does not answer.
    Silent,
}

/// What is seen of a link at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    /// All bytes that have come over it; none if that was not asked: the neighbour is not silent, and nothing is in flight, or it is
    /// waited for a shorter time than [`LOOK`].
    pub received: Option<DataSize>,
    /// What is neither acknowledged nor given up as lost, and what is lost and to be sent again.
    pub in_flight: DataSize,
    /// When the last acknowledgement came, or the first of what is in flight was sent if that was later; none if that is not known.
    pub waiting_since: Option<Instant>,
    /// The smoothed round trip; zero if what has come was not asked, for then nothing is due.
    pub rtt: Duration,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            received: Some(DataSize::ZERO),
            since: Instant::ZERO,
            looked: Instant::ZERO,
            look: Instant::NEVER,
            hearing: Hearing::Answering,
        }
    }
}

impl Pulse {
    /// Returns how long nothing may come over a link of this round trip.
    pub fn patience(rtt: Duration) -> Duration {
        (rounds(rtt, ROUNDS) + ACK_DELAY).max(PATIENCE_MIN)
    }

    /// Returns how long nothing may come until the neighbour is doubted; always less than the patience.
    pub fn doubt(rtt: Duration) -> Duration {
        rounds(rtt, DOUBT_ROUNDS).max(DOUBT_MIN)
    }

    /// Takes in that something is sent, which will be acknowledged.
    pub const fn handle_sent(&mut self, now: Instant) {
        if self.look.is_never() {
            self.since = now;
            self.look = Instant::from_nanos(now.as_nanos().saturating_add(LOOK.as_nanos()));
        }
    }

    /// Looks; returns what the neighbour is taken for, if that has changed.
    pub fn handle_look(&mut self, sign: Sign, now: Instant) -> Option<Hearing> {
        // What came between a look that did not ask and the next one ends no waiting: that began with the first of them.
        let has_come = self
            .received
            .zip(sign.received)
            .is_some_and(|(before, now)| before != now);
        self.received = sign.received;
        let looked = core::mem::replace(&mut self.looked, now);
        let known = sign.waiting_since.map(|since| since.min(now));
        self.since = match known {
            _ if sign.in_flight == DataSize::ZERO => now,
            // What came was an acknowledgement, so it is known when; of anything else only that it has come by now.
            Some(known) if has_come && known > looked => known,
            _ if has_come => now,
            Some(known) => self.since.max(known),
            None => self.since,
        };
        let away = now.saturating_since(self.look);
        if away > LOOK {
            self.since = (self.since + away).min(now);
        }
        let is_idle = sign.in_flight == DataSize::ZERO && (has_come || !self.is_silent());
        let (doubt, patience) = (Self::doubt(sign.rtt), Self::patience(sign.rtt));
        let due = [doubt, patience].map(|wait| self.since + wait);
        let soonest = due.into_iter().filter(|due| *due > now);
        self.look = if is_idle {
            Instant::NEVER
        } else {
            soonest.fold(now + LOOK, Instant::min)
        };
        let waited = now.saturating_since(self.since);
        let hearing = match self.hearing {
            _ if has_come => Hearing::Answering,
            Hearing::Silent => Hearing::Silent,
            _ if waited >= patience => Hearing::Silent,
            _ if waited >= doubt => Hearing::Doubtful,
            _ => Hearing::Answering,
        };
        let has_changed = hearing != self.hearing;
        self.hearing = hearing;
        has_changed.then_some(hearing)
    }

    /// Returns whether the neighbour is taken for silent.
    pub fn is_silent(&self) -> bool {
        self.hearing == Hearing::Silent
    }

    /// Returns when to look.
    pub const fn poll_timeout(&self) -> Instant {
        self.look
    }
}

/// Returns so many round trips.
const fn rounds(rtt: Duration, count: u64) -> Duration {
    Duration::from_nanos(rtt.as_nanos().saturating_mul(count))
}
