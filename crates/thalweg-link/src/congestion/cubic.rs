//! CUBIC's window: shares a queue with flows that fill it.
//!
//! *The idea.* Against loss-based flows, a flow's share follows from its aggressiveness. So this is
//! their own law with their own constants:
//!
//! ```text
//! W(t) = C (t - K)³ + W_max        K = ∛((W_max - W) / C)        after a loss  W ← β W
//! ```
//!
//! *What it does not do.* It has no slow start: [`super::Controller`] has.
//!
//! *Sources.* RFC 9438 §4; RFC 8312, as noq implements it.

use thalweg_base::time::{Duration, Instant};

/// β: the window after a loss over that before it.
const BETA: f64 = 0.7;

/// C: how fast the window grows, in packets a second cubed.
const SCALE: f64 = 0.4;

/// α: packets a round trip that make a flow with factor [`BETA`] as aggressive as Reno (RFC 9438 §4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Share of the acknowledged bytes that a climb adds: half of slow start's, for a climb ends in a loss.
const CLIMB: f64 = 0.5;

/// Most steps to a cube root: those to come down from 1e27 to 1e9 by thirds, and a few.
const STEPS_MAX: usize = 128;

/// State of the law; windows in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cubic {
    window_max: f64,
    /// K: from the start of the epoch to the plateau, in seconds.
    k_secs: f64,
    began: Instant,
    /// Until when losses do not end the climb; `None` outside a climb. A climb looks for the flow's
    /// share, as every flow does before its first loss.
    climb_until: Option<Instant>,
    /// `W_est`: the window of a flow with Reno's linear growth.
    w_est: f64,
    last_ack: Instant,
}

/// What an acknowledgement brings; sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    pub(super) now: Instant,
    pub(super) acked: f64,
    pub(super) packet: f64,
    pub(super) rtt: Duration,
    /// Whether the window limited the sender.
    pub(super) cwnd_limited: bool,
}

impl Cubic {
    /// Starts on the plateau, at a window that the path is known to carry.
    pub(super) fn new(now: Instant, window: f64) -> Self {
        Self {
            window_max: window,
            k_secs: 0.0,
            began: now,
            climb_until: None,
            w_est: window,
            last_ack: now,
        }
    }

    /// Starts below the plateau, at a window that is only known not to be too large. It climbs
    /// until its first loss after `until`: earlier losses are the overshoot of other new flows.
    pub(super) fn below(now: Instant, window: f64, until: Instant) -> Self {
        Self {
            climb_until: Some(until),
            ..Self::new(now, window)
        }
    }

    /// Returns the window after an acknowledgement.
    pub(super) fn grown(&mut self, window: f64, growth: Growth) -> f64 {
        let Growth {
            now, acked, packet, ..
        } = growth;
        let since = now.saturating_since(self.last_ack);
        self.last_ack = now;
        if !growth.cwnd_limited {
            // Time in which the sender was not cwnd-limited is no time of growth.
            self.skip(since);
            return window;
        }
        if self.climb_until.is_some() {
            // A climb ends by its first loss after `climb_until` (see `cut`), not by time.
            return window + acked * CLIMB;
        }
        // RFC 9438 §4.3: α until W_est reaches W_max, then Reno's one packet a round trip.
        let gain = if self.w_est < self.window_max {
            ALPHA
        } else {
            1.0
        };
        self.w_est += gain * packet * acked / window;
        // RFC 9438 §4.2: aim at the window of the next round trip, at most half as much again.
        let ahead = now.saturating_since(self.began) + growth.rtt;
        let target = self.at(ahead.as_secs_f64(), packet).min(1.5 * window);
        let cubic = if target > window {
            window + (target - window) / window * acked
        } else {
            window
        };
        // No faster than slow start.
        cubic.max(self.w_est).min(window + acked)
    }

    /// Returns the window after a loss.
    pub(super) fn cut(&mut self, now: Instant, window: f64, packet: f64) -> f64 {
        // Fast convergence (RFC 9438 §4.7): a flow that lost before it was back at its plateau
        // makes room for newer flows.
        self.window_max = if window < self.window_max {
            window * (1.0 + BETA) / 2.0
        } else {
            window
        };
        self.climb_until = self.climb_until.filter(|until| now < *until);
        let window = window * BETA;
        self.k_secs = cube_root((self.window_max - window).max(0.0) / packet / SCALE);
        self.began = now;
        self.w_est = window;
        window
    }

    /// Returns whether the window is back at what it was before the last loss.
    pub(super) fn is_back(&self, window: f64) -> bool {
        window >= 0.95 * self.window_max
    }

    /// Leaves out a time in which nothing could grow.
    pub(super) fn skip(&mut self, time: Duration) {
        self.began = self.began + time;
    }

    fn at(&self, secs: f64, packet: f64) -> f64 {
        let from_plateau = secs - self.k_secs;
        SCALE * from_plateau * from_plateau * from_plateau * packet + self.window_max
    }
}

/// Returns the cube root of a non-negative number; zero for all others.
///
/// Error   relative 1e-9, measured over 1e-9 … 1e27
/// Cost    at most 128 of Newton's steps
pub(super) fn cube_root(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 0.0;
    }
    // From above, the steps only fall, by at least a third until they are near; the first that does
    // not is the end.
    let mut root = value.max(1.0);
    for _ in 0..STEPS_MAX {
        let next = (2.0 * root + value / (root * root)) / 3.0;
        if next >= root {
            break;
        }
        root = next;
    }
    root
}
