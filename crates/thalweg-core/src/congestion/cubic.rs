//! CUBIC's window: how we share a queue with those who fill it.
//!
//! *The idea.* Who competes with loss-based flows gets the share that he is as aggressive as they are. So this is their
//! own law and their own constants:
//!
//! ```text
//! W(t) = C (t - K)³ + W_max        K = ∛((W_max - W) / C)        after a loss  W ← β W
//! ```
//!
//! *What it does not do.* No slow start: [`super::Controller`] starts.
//!
//! *Sources.* RFC 9438 §4; RFC 8312 for what noq does.

use crate::time::{Duration, Instant};

/// The window after a loss over that before it.
const BETA: f64 = 0.7;

/// How fast the window grows, in packets a second cubed.
const SCALE: f64 = 0.4;

/// What a flow that adds a packet a round trip and halves at a loss would add if it multiplied by [`BETA`] instead.
const FRIENDLY: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// How much of what is acknowledged a climb adds: half of a slow start's, for it ends in a loss.
const CLIMB: f64 = 0.5;

/// Steps to a cube root: those to come down from 1e27 to 1e9 by thirds, and a few.
const STEPS_MAX: usize = 128;

/// State of the law; windows in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cubic {
    window_max: f64,
    /// From the beginning of the epoch to the plateau, in seconds.
    rise_secs: f64,
    began: Instant,
    /// Until when at least it looks for its share, if it does: as every flow does before its first loss.
    climbs: Option<Instant>,
    /// What a flow with linear growth would have.
    friendly: f64,
    last_ack: Instant,
}

/// What an acknowledgement brings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    pub(super) now: Instant,
    pub(super) acked: f64,
    pub(super) packet: f64,
    pub(super) rtt: Duration,
    /// Whether the window was used.
    pub(super) is_full: bool,
}

impl Cubic {
    /// Begins on the plateau: at a window that the path is known to bear.
    pub(super) fn new(now: Instant, window: f64) -> Self {
        Self {
            window_max: window,
            rise_secs: 0.0,
            began: now,
            climbs: None,
            friendly: window,
            last_ack: now,
        }
    }

    /// Begins below: at a window of which is known only that it is not too much. It climbs until its first loss after
    /// `until`, for those before are the overshoot of others who begin.
    pub(super) fn below(now: Instant, window: f64, until: Instant) -> Self {
        Self {
            climbs: Some(until),
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
        if !growth.is_full {
            // Time in which the window was not used is no time of growth.
            self.skip(since);
            return window;
        }
        if self.climbs.is_some() {
            return window + acked * CLIMB;
        }
        let gain = if self.friendly < self.window_max {
            FRIENDLY
        } else {
            1.0
        };
        self.friendly += gain * packet * acked / window;
        let ahead = now.saturating_since(self.began) + growth.rtt;
        let target = self.at(ahead.as_secs_f64(), packet).min(1.5 * window);
        let cubic = if target > window {
            window + (target - window) / window * acked
        } else {
            window
        };
        // No faster than in slow start.
        cubic.max(self.friendly).min(window + acked)
    }

    /// Returns the window after a loss.
    pub(super) fn cut(&mut self, now: Instant, window: f64, packet: f64) -> f64 {
        self.window_max = if window < self.window_max {
            window * (1.0 + BETA) / 2.0
        } else {
            window
        };
        self.climbs = self.climbs.filter(|until| now < *until);
        let window = window * BETA;
        self.rise_secs = cube_root((self.window_max - window).max(0.0) / packet / SCALE);
        self.began = now;
        self.friendly = window;
        window
    }

    /// Returns whether a window has come back to what it was before the last loss.
    pub(super) fn is_back(&self, window: f64) -> bool {
        window >= 0.95 * self.window_max
    }

    /// Takes out a time in which nothing could grow.
    pub(super) fn skip(&mut self, time: Duration) {
        self.began = self.began + time;
    }

    fn at(&self, secs: f64, packet: f64) -> f64 {
        let from_plateau = secs - self.rise_secs;
        SCALE * from_plateau * from_plateau * from_plateau * packet + self.window_max
    }
}

/// Returns the cube root of a number that is not negative.
///
/// Error   relative 1e-9, measured over 1e-9 … 1e27
/// Cost    at most 128 steps of Newton's
pub(super) fn cube_root(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 0.0;
    }
    // From above the steps only fall, by a third at least until they are near; the first that does not is the end.
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
