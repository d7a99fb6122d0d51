//! A look at the path without a queue of one's own: who fills it?
//!
//! *The idea.* For about a round trip a flow keeps three quarters of what the path carries in its packets' flight. If
//! it is alone, the queue is empty then. If it is not empty, somebody else fills it, and only he who fills it too gets a
//! share. What the queue held back is kept and given back afterwards, so a look costs the rest of a round trip.
//!
//! ```text
//! begin ─► falling: until what is in flight fits ─► holding: until what was sent meanwhile is acknowledged ─► verdict
//! ```
//!
//! A path that has become longer looks like one whose queue others fill. But their queue moves, and a path does not: when
//! [`LOOKS`] looks in a row find the same floor, that is the path.
//!
//! *What it does not do.* It knows nothing of windows' laws.
//!
//! *Sources.* BBR's `ProbeRTT` (draft-ietf-ccwg-bbr §5.3.4); LEDBAT++ §4.4 (slowdowns); Nimbus (Goyal et al., SIGCOMM 2022) on
//! telling elastic rivals from others.

use super::cubic::Cubic;
use super::ledger::Sample;
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};

/// What is kept in flight over what the path carries without a queue.
pub(super) const SHARE: f64 = 0.75;

/// The least that must have been taken out of the queue, or its fall says nothing: in packets, of which two remain.
const TELLING_PACKETS: f64 = 6.0;

/// Looks in a row that must agree before the path is taken for longer.
const LOOKS: usize = 3;

/// By how much floors may differ that are the same.
const SAME: Duration = Duration::from_millis(1);

/// Round trips after which a look ends, whatever was seen.
const PATIENCE: u64 = 8;

/// A look that is going on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub(super) began: Instant,
    /// The window to come back to, if others are there.
    pub(super) saved: f64,
    /// At which rate the path delivers.
    pub(super) rate: Bitrate,
    /// The greatest at which it did of late.
    pub(super) greatest: Bitrate,
    /// What was in force if this is a look out of competition.
    pub(super) cubic: Option<Cubic>,
    /// The longest round trip of what was sent before it, and how much of that came, in bytes.
    pub(super) rtt_before: Duration,
    pub(super) taken: f64,
    /// When the first of that came, and the last, and how much with the first.
    first: Option<(Instant, f64)>,
    last: Instant,
    holding_since: Option<Instant>,
    floor: Duration,
    /// The least that acknowledgements of one packet, of all that came, may have waited for a second.
    waited: Duration,
}

/// The floors of the last looks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Floors {
    floors: [Duration; LOOKS],
    looks: usize,
}

impl Drain {
    /// Returns a look that begins, of who has these rates: that of the last sample, and the greatest.
    pub(super) fn new(
        now: Instant,
        saved: f64,
        [rate, greatest]: [Bitrate; 2],
        cubic: Option<Cubic>,
    ) -> Self {
        Self {
            began: now,
            saved,
            rate,
            greatest,
            cubic,
            rtt_before: Duration::ZERO,
            taken: 0.0,
            first: None,
            last: now,
            holding_since: None,
            floor: Duration::NEVER,
            waited: Duration::NEVER,
        }
    }

    /// Returns whether what is in flight is still too much.
    pub(super) fn is_falling(&self) -> bool {
        self.holding_since.is_none()
    }

    /// Takes in an acknowledgement of what was sent before.
    pub(super) fn handle_fall(&mut self, now: Instant, sample: &Sample, packet: u64) {
        // The queue that the last packets met which left before is longer yet, if it was growing.
        self.rtt_before = self.rtt_before.max(sample.rtt);
        self.taken += sample.acked.as_bytes() as f64;
        self.first.get_or_insert((now, self.taken));
        self.last = now;
        // What leaves the queue now leaves it at the rate of now; what was known may be that of a faster line. A sample is of
        // a round trip, with the pauses in it; what has come since the look began has none, but must be enough.
        if self.is_telling(packet) {
            self.rate = self.greatest.min(self.rate_fallen());
        } else if let Some(rate) = sample.rate {
            self.rate = self.rate.min(rate);
        }
    }

    /// Returns whether so much was taken out of the queue that its fall tells who else is there; packets have this size in bytes.
    pub(super) fn is_telling(&self, packet: u64) -> bool {
        self.taken >= TELLING_PACKETS * packet as f64
    }

    /// Returns the rate at which what was sent before has come, the first acknowledgement aside; the least of all samples
    /// if there was no other.
    pub(super) fn rate_fallen(&self) -> Bitrate {
        match self.first {
            Some((first, bytes)) if self.last > first => {
                DataSize::from_bytes((self.taken - bytes) as u64)
                    / self.last.saturating_since(first)
            }
            _ => self.rate,
        }
    }

    /// Takes in an acknowledgement that may have waited so long for a second packet; returns the least round trip of the
    /// look when it is over.
    ///
    /// On a slow line a look's window is two packets, which may come to one after the other, and each of them waits for a
    /// second. If all of a look's did, the wait is no queue that others fill.
    pub(super) fn handle_ack(
        &mut self,
        now: Instant,
        sample: &Sample,
        waited: Duration,
        fits: bool,
        [base, smooth]: [Duration; 2],
    ) -> Option<Duration> {
        let (sent, rtt) = (sample.sent, sample.rtt_most);
        let patience = Duration::from_nanos(smooth.as_nanos().saturating_mul(PATIENCE));
        if now.saturating_since(self.began) > patience {
            self.handle_floor(rtt, waited);
            return Some(self.floor());
        }
        let Some(since) = self.holding_since else {
            if fits {
                self.holding_since = Some(now);
            }
            return None;
        };
        if sent >= since {
            self.handle_floor(rtt, waited);
        }
        // Not the first packet alone: what stood before it may be a late burst.
        let enough = Duration::from_nanos(base.as_nanos() / 4);
        (sent.saturating_since(since) >= enough && !self.floor.is_never()).then(|| self.floor())
    }

    fn handle_floor(&mut self, rtt: Duration, waited: Duration) {
        self.floor = self.floor.min(rtt);
        self.waited = self.waited.min(waited);
    }

    fn floor(&self) -> Duration {
        self.floor.saturating_sub(self.waited)
    }
}

impl Floors {
    /// Takes in the floor of a look that found a queue; returns it if it is the path's.
    pub(super) fn handle_floor(&mut self, floor: Duration) -> Option<Duration> {
        self.floors.rotate_right(1);
        self.floors[0] = floor;
        self.looks += 1;
        let least = *self.floors.iter().min()?;
        let most = *self.floors.iter().max()?;
        let margin = SAME.max(Duration::from_nanos(least.as_nanos() / 50));
        if self.looks >= LOOKS && most.saturating_sub(least) <= margin {
            self.looks = 0;
            return Some(least);
        }
        None
    }

    /// Takes in that a look found no queue.
    pub(super) fn clear(&mut self) {
        self.looks = 0;
    }
}
