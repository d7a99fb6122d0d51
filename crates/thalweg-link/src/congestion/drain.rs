//! A measurement of the path without a queue of our own: does another flow fill it?
//!
//! *The idea.* For about a round trip a flow keeps three quarters of the bandwidth-delay product in
//! flight. If it is alone, the queue is then empty. If a queue remains, other flows fill it, and
//! only a flow that fills it too gets a share. The window is restored afterwards, so a drain costs
//! the rest of a round trip.
//!
//! ```text
//! begin ─► falling: until bytes in flight fit ─► holding: until a packet sent then is acked ─► verdict
//! ```
//!
//! A path that became longer looks like one with a queue that other flows fill. But a rival's queue
//! moves, and a path does not: when [`AGREEING_DRAINS`] drains in a row measure the same floor,
//! that is the new base round trip.
//!
//! *What it does not do.* It knows no window laws.
//!
//! *Sources.* BBR's `ProbeRTT` (draft-ietf-ccwg-bbr §5.3.4); LEDBAT++ §4.4 (slowdowns); Nimbus
//! (Goyal et al., SIGCOMM 2022) on telling elastic cross traffic from inelastic.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::cubic::Cubic;
use super::ledger::Sample;

/// Share of the bandwidth-delay product that is kept in flight.
pub(super) const SHARE: f64 = 0.75;

/// Packets that must have left the queue before its fall proves anything: two of them remain.
const CONCLUSIVE_PACKETS: f64 = 6.0;

/// Drains in a row that must agree before the path counts as longer.
const AGREEING_DRAINS: usize = 3;

/// Difference up to which two floors are the same; or a fiftieth of the lesser, if that is more.
const FLOOR_MARGIN: Duration = Duration::from_millis(1);

/// Round trips after which a drain ends, whatever was measured.
const ROUNDS_MAX: u64 = 8;

/// A drain in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub(super) began: Instant,
    /// The window to restore if other flows are found, in bytes.
    pub(super) saved_window: f64,
    /// The rate at which the path delivers now.
    pub(super) rate: Bitrate,
    /// The greatest recent rate.
    pub(super) rate_max: Bitrate,
    /// CUBIC's state, if this is a drain out of competition.
    pub(super) cubic: Option<Cubic>,
    /// The longest round trip of packets sent before the drain, and how many bytes of those were
    /// acknowledged.
    pub(super) rtt_before: Duration,
    pub(super) drained: f64,
    /// When the first of those was acknowledged, with how many bytes; and when the last was.
    first: Option<(Instant, f64)>,
    last: Instant,
    holding_since: Option<Instant>,
    floor: Duration,
    /// The least delay that an acknowledgement of a single packet may have had, over all of them.
    ack_delay: Duration,
}

/// The floors of the last drains, newest first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Floors {
    floors: [Duration; AGREEING_DRAINS],
    drains: usize,
}

impl Drain {
    /// Returns a new drain of a flow with these delivery rates: that of the last sample, and the
    /// greatest.
    pub(super) fn new(
        now: Instant,
        saved_window: f64,
        [rate, rate_max]: [Bitrate; 2],
        cubic: Option<Cubic>,
    ) -> Self {
        Self {
            began: now,
            saved_window,
            rate,
            rate_max,
            cubic,
            rtt_before: Duration::ZERO,
            drained: 0.0,
            first: None,
            last: now,
            holding_since: None,
            floor: Duration::NEVER,
            ack_delay: Duration::NEVER,
        }
    }

    /// Returns whether what is in flight still exceeds the drain's window.
    pub(super) fn is_falling(&self) -> bool {
        self.holding_since.is_none()
    }

    /// Handles an acknowledgement of packets sent before the drain.
    pub(super) fn handle_falling_ack(&mut self, now: Instant, sample: &Sample, packet: u64) {
        // If the queue was growing, the last packets sent before the drain meet a longer one.
        self.rtt_before = self.rtt_before.max(sample.rtt);
        self.drained += sample.acked.as_bytes() as f64;
        self.first.get_or_insert((now, self.drained));
        self.last = now;
        // The queue drains at the present rate, and the known one may be from before a slowdown.
        // The rate over the drain has no pauses in it, as a sample over a round trip has, but needs
        // enough bytes.
        if self.is_conclusive(packet) {
            self.rate = self.rate_max.min(self.falling_rate());
        } else if let Some(rate) = sample.rate {
            self.rate = self.rate.min(rate);
        }
    }

    /// Returns whether enough left the queue to judge by its fall; `packet` is in bytes.
    pub(super) fn is_conclusive(&self, packet: u64) -> bool {
        self.drained >= CONCLUSIVE_PACKETS * packet as f64
    }

    /// Returns the rate at which packets sent before the drain were acknowledged, without the first
    /// acknowledgement; the least of all samples if there was no other.
    pub(super) fn falling_rate(&self) -> Bitrate {
        match self.first {
            Some((first, bytes)) if self.last > first => {
                DataSize::from_bytes((self.drained - bytes) as u64)
                    / self.last.saturating_since(first)
            }
            _ => self.rate,
        }
    }

    /// Handles an acknowledgement that the peer may have delayed by `ack_delay`; returns the drain's
    /// least round trip once it is over.
    ///
    /// On a slow line the window of a drain is two packets. They may arrive one after the other,
    /// and each acknowledgement waits for a second packet. If all of a drain's did, that delay is
    /// no queue of other flows.
    pub(super) fn handle_ack(
        &mut self,
        now: Instant,
        sample: &Sample,
        ack_delay: Duration,
        fits: bool,
        [base, smooth]: [Duration; 2],
    ) -> Option<Duration> {
        let (sent, rtt) = (sample.sent, sample.rtt_max);
        let time_max = Duration::from_nanos(smooth.as_nanos().saturating_mul(ROUNDS_MAX));
        // The window may never fit, or nothing may be sent: decide by what there is.
        if now.saturating_since(self.began) > time_max {
            self.handle_floor(rtt, ack_delay);
            return Some(self.floor());
        }
        let Some(since) = self.holding_since else {
            if fits {
                self.holding_since = Some(now);
            }
            return None;
        };
        // Only packets sent while holding have seen the queue without our own.
        if sent >= since {
            self.handle_floor(rtt, ack_delay);
        }
        // Not by the first packet alone: what stood before it may be a late burst.
        let enough = Duration::from_nanos(base.as_nanos() / 4);
        (sent.saturating_since(since) >= enough && !self.floor.is_never()).then(|| self.floor())
    }

    fn handle_floor(&mut self, rtt: Duration, ack_delay: Duration) {
        self.floor = self.floor.min(rtt);
        self.ack_delay = self.ack_delay.min(ack_delay);
    }

    fn floor(&self) -> Duration {
        self.floor.saturating_sub(self.ack_delay)
    }
}

impl Floors {
    /// Handles the floor of a drain that found a queue; returns the base if the last floors agree on it.
    pub(super) fn handle_floor(&mut self, floor: Duration) -> Option<Duration> {
        self.floors.rotate_right(1);
        self.floors[0] = floor;
        self.drains += 1;
        let least = *self.floors.iter().min()?;
        let most = *self.floors.iter().max()?;
        // Rivals' queues move by more than this between drains.
        let margin = FLOOR_MARGIN.max(Duration::from_nanos(least.as_nanos() / 50));
        if self.drains >= AGREEING_DRAINS && most.saturating_sub(least) <= margin {
            self.drains = 0;
            return Some(least);
        }
        None
    }

    /// Handles a drain that found no queue.
    pub(super) fn clear(&mut self) {
        self.drains = 0;
    }
}
