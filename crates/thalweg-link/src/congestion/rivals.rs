//! What the drains so far found of competing flows, and when the next one is due.
//!
//! *The idea.* One drain may be mistaken: its two packets look like a queue on a slow line, and a
//! rival may have halved its window just then. So the findings of several are kept: how often in a
//! row a flow was alone, at what rate, and how often competition was left wrongly. Each makes the
//! next drain earlier or later, or tells a queue of our own from that of rivals.
//!
//! *What it does not do.* It measures nothing: a `drain` does.
//!
//! *Sources.* docs/concepts/congestion.md; Copa §2.2.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::drain::{Drain, Floors};
use super::measured::Measured;

/// Packets that Copa keeps in the queue, and that remain in a drain.
const PACKETS_LEFT: u64 = 2;

/// Rounds without an empty queue before a drain looks for competing flows: as Copa §2.2.
const BUSY_ROUNDS: u32 = 5;

/// Doublings of [`BUSY_ROUNDS`] by drains that found no rival: on a slow line two packets are a queue.
const ALONE_DOUBLINGS_MAX: u32 = 2;

/// Drains in a row without a competing flow after which the rounds double again, this many times at
/// most: a drain costs throughput, and a flow that was alone for so long mostly stays alone.
const ALONE_LONG: u32 = 8;
const ALONE_LONG_DOUBLINGS_MAX: u32 = 2;

/// Drains in a row that prove no rival: one or two may have met one that had just halved its window.
const ALONE_PROVEN: u32 = 3;

/// Doublings of [`DRAIN_INTERVAL`] by drains that left `Compete` wrongly.
const WRONG_EXITS_MAX: u32 = 2;

/// From one drain out of `Compete` to the next, and round trips of that at least; twice as long
/// while the window stays below what it was at the last loss.
const DRAIN_INTERVAL: Duration = Duration::from_secs(10);
const DRAIN_ROUNDS: u64 = 40;

/// The same after the drain that led to `Compete` on a slow line: the line may just have become
/// slower, at a rate not yet measured.
const DRAIN_INTERVAL_FIRST: Duration = Duration::from_secs(1);
const DRAIN_ROUNDS_FIRST: u64 = 20;

/// Doublings of [`DRAIN_INTERVAL_FIRST`] by inconclusive drains in a row.
const UNCLEAR_MAX: u32 = 3;

/// Share of the drained bytes, or of an earlier rate, from which on a flow counts as alone.
const OWN_SHARE: f64 = 0.8;

/// What is known of competing flows.
#[derive(Clone, Debug, Default)]
pub(super) struct Rivals {
    floors: Floors,
    /// Drains out of `Quiet` in a row that found no competing flow.
    alone_drains: u32,
    /// The rate at which a slow line delivered when a drain found no competing flow; zero if
    /// unknown.
    rate_alone: Bitrate,
    /// The greatest recent rate when three or more drains in a row had found no competing flow;
    /// zero otherwise.
    rate_uncontended: Bitrate,
    /// Drains in a row that left `Compete` although other flows were still there.
    wrong_exits: u32,
    /// Drains in a row that took out too little to decide.
    unclear: u32,
    /// When `Compete` was last left, and the window then, in bytes.
    compete_exit: Option<(Instant, f64)>,
}

/// How competition begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entrance {
    /// The window that the drain saved, or that an earlier one cost; in bytes.
    pub(super) window: f64,
    /// When the next drain is due, and when at the latest.
    pub(super) drain_at: Instant,
    pub(super) drain_by: Instant,
}

impl Rivals {
    /// Handles the least round trip of a drain; returns whether the flow is alone.
    pub(super) fn judge(&mut self, drain: &Drain, floor: Duration, path: &mut Measured) -> bool {
        let delay = path.delay();
        let queue = floor.saturating_sub(delay.base() + delay.slack());
        let mut is_alone = queue <= path.limit_at(drain.rate);
        if !is_alone && self.has_emptied(drain, floor, path) {
            is_alone = true;
            if drain.is_conclusive(path.packet()) {
                // This is what the line takes now, with two packets and no other flow.
                path.rebase(floor);
                self.rate_alone = drain.falling_rate();
            }
        }
        if is_alone {
            self.floors.clear();
            self.alone_drains = self
                .alone_drains
                .saturating_add(drain.cubic.is_none().into());
        } else if let Some(base) = self.floors.handle_floor(floor) {
            path.rebase(base);
            is_alone = true;
        }
        if !is_alone {
            self.alone_drains = 0;
            self.rate_alone = Bitrate::ZERO;
            self.rate_uncontended = Bitrate::ZERO;
        } else if self.alone_drains >= ALONE_PROVEN {
            self.rate_uncontended = drain.rate_max;
        }
        is_alone
    }

    /// Returns whether a drain on a slow line found no rival, though the queue seemed to stand.
    ///
    /// There a drain's two packets and the delayed acknowledgement look like a queue, the more so if
    /// the base was measured when the line was faster.
    fn has_emptied(&self, drain: &Drain, floor: Duration, path: &Measured) -> bool {
        let rate = drain.falling_rate();
        if !path.is_slow_at(rate) {
            return false;
        }
        // If too few packets were drained to decide, assume no competing flow while our rate still
        // matches the rate measured alone.
        if !drain.is_conclusive(path.packet()) {
            let recent = path.rate_over(BUSY_ROUNDS).as_bps() as f64;
            let alone = self.known_rate(path).as_bps() as f64;
            return alone > 0.0 && recent >= alone * OWN_SHARE;
        }
        // If the queue held our packets only, the delay fell by the time they take to send.
        let fallen = rate * drain.rtt_before.saturating_sub(floor);
        let remaining = (PACKETS_LEFT * path.packet()) as f64;
        fallen.as_bytes() as f64 + remaining >= drain.drained * OWN_SHARE
    }

    /// Handles persistent congestion: the line may be another one now.
    pub(super) fn handle_outage(&mut self) {
        self.rate_uncontended = Bitrate::ZERO;
    }

    /// Handles that a drain led out of `Compete`, with this window before it.
    pub(super) fn handle_exit(&mut self, now: Instant, window: f64) {
        self.compete_exit = Some((now, window));
    }

    /// Handles the drain after which the flow competes.
    pub(super) fn handle_entrance(
        &mut self,
        now: Instant,
        drain: &Drain,
        path: &Measured,
    ) -> Entrance {
        let smooth = path.delay().smooth();
        let rounds = Duration::from_nanos(smooth.as_nanos() * DRAIN_ROUNDS);
        let base = path.delay().base();
        let was_deep = drain.rtt_before.saturating_sub(base) >= base;
        let is_unclear = !drain.is_conclusive(path.packet()) && path.is_slow_at(path.rate());
        let is_slow = path.is_slow_at(drain.rate);
        let is_first = is_unclear || (drain.cubic.is_none() && was_deep && is_slow);
        self.unclear = if is_unclear {
            self.unclear.saturating_add(1)
        } else {
            0
        };
        let interval = if is_first {
            let rounds = Duration::from_nanos(base.as_nanos() * DRAIN_ROUNDS_FIRST);
            let present = Duration::from_nanos(smooth.as_nanos() * 4);
            let least = DRAIN_INTERVAL_FIRST.max(rounds).max(present);
            let again = self.unclear.saturating_sub(1).min(UNCLEAR_MAX);
            Duration::from_nanos(least.as_nanos() << again)
        } else {
            DRAIN_INTERVAL.max(rounds)
        };
        let mut window = drain.saved_window;
        // If the last drain wrongly left `Compete`, restore the window it cost, and drain later.
        match self.compete_exit.take() {
            Some((at, before)) if now.saturating_since(at) < interval => {
                window = window.max(before);
                self.wrong_exits = self.wrong_exits.saturating_add(1);
            }
            Some(_) => self.wrong_exits = 0,
            None => {}
        }
        if is_first {
            return Entrance {
                window,
                drain_at: now + interval,
                drain_by: now + interval,
            };
        }
        let interval =
            Duration::from_nanos(interval.as_nanos() << self.wrong_exits.min(WRONG_EXITS_MAX));
        Entrance {
            window,
            drain_at: now + interval,
            drain_by: now + interval + interval,
        }
    }

    /// Returns after how many rounds without an empty queue a drain looks for competing flows.
    pub(super) fn busy_rounds(&self) -> u32 {
        let lonely = (self.alone_drains / ALONE_LONG).min(ALONE_LONG_DOUBLINGS_MAX);
        BUSY_ROUNDS << (self.alone_drains.min(ALONE_DOUBLINGS_MAX) + lonely)
    }

    /// Returns whether this flow's rate shows that the queue is its own.
    pub(super) fn is_own_queue(&self, path: &Measured) -> bool {
        is_own_queue(self.rate_uncontended, path)
    }

    /// Returns the rate of a slow line for a flow alone: as drains measured it, or as estimated
    /// before the window was full; zero if unknown.
    pub(super) fn known_rate(&self, path: &Measured) -> Bitrate {
        match self.rate_alone {
            Bitrate::ZERO => path.rate_serial(),
            rate => rate,
        }
    }

    #[cfg(test)]
    pub(super) fn rate_uncontended(&self) -> Bitrate {
        self.rate_uncontended
    }
}

/// Returns whether a flow's rate shows that the queue is its own, if it had that rate alone; zero if
/// it was never known to be.
///
/// Where two packets take longer than the quiet limit, Copa's own queue never seems empty. But a
/// rival takes a part of that rate, or makes the queue long. Long is relative to the two packets,
/// which are long relative to the quiet limit on a line of 1 Mbit/s.
pub(super) fn is_own_queue(rate_uncontended: Bitrate, path: &Measured) -> bool {
    let then = rate_uncontended.as_bps() as f64;
    let now = path.rate_over(BUSY_ROUNDS).as_bps() as f64;
    if then == 0.0 || now < then * OWN_SHARE || now * OWN_SHARE > then {
        return false;
    }
    let packets = DataSize::from_bytes(PACKETS_LEFT * path.packet());
    let own = rate_uncontended.time_for(packets);
    own > path.limit_at(rate_uncontended) && !path.is_long_above(own)
}
