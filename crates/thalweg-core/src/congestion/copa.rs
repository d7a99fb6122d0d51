//! Copa's window: how we keep a queue of two packets when nobody fills it.
//!
//! *The idea.* A flow aims at the rate λ* = 1/(δ·d) packets a second, d being the queueing delay. Above it the window
//! falls, below it it rises, by v/δ packets a round trip. All flows of a queue see the same d, so all aim at the same
//! rate whatever their round trips; alone, a flow keeps a queue of 1/δ packets and empties it once in five round trips.
//! The velocity v doubles when the window went the same way for three round trips.
//!
//! *What it does not do.* It has no way against those who fill the queue: [`super::Controller`] looks for them.
//!
//! *Sources.* Arun, Balakrishnan: "Copa", NSDI 2018, §2; with a tolerance of a millisecond of queue, for clocks and
//! system calls of real machines are no better.

use crate::time::Duration;

/// δ: packets in the queue are two.
pub(super) const DELTA: f64 = 0.5;

/// Queueing delay that counts as none.
pub(super) const TOLERANCE: Duration = Duration::from_millis(1);

/// Rounds in one direction before the velocity doubles.
const STEADY_ROUNDS: u32 = 3;

/// The greatest velocity: the window then changes by the packets acknowledged, which is slow start's pace.
const VELOCITY_MAX: f64 = 65_536.0;

/// The most by which a window moves in a round trip at velocity one, so that one of a few packets does not swing.
const STEP_SHARE: f64 = 0.125;

/// The window of who sends little over what he uses: twice, as Linux's slow start leaves it, is gone with one burst of losses
/// that takes a window and its acknowledgements.
const ROOM: f64 = 4.0;

/// State of the law; windows in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copa {
    velocity: f64,
    is_rising: bool,
    same_rounds: u32,
    window_before: f64,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    pub(super) acked: f64,
    pub(super) packet: f64,
    pub(super) standing: Duration,
    pub(super) queueing: Duration,
    /// Whether the window was used.
    pub(super) is_full: bool,
    /// Whether the application has something to send all the time, and nothing waits in the queue.
    pub(super) is_pressed: bool,
    /// Whether who sends little has seen the queue empty of late: then a delay is jitter.
    pub(super) is_calm: bool,
    /// The window that was enough for him.
    pub(super) enough: f64,
    /// What is really on its way in a round trip, at most the window.
    pub(super) used: f64,
}

impl Signal {
    /// Returns whether a window sends faster than at the rate aimed at.
    pub(super) fn is_above_target(&self, window: f64) -> bool {
        let queueing = self.queueing.saturating_sub(TOLERANCE);
        // window / standing > packet / (δ queueing), without a division by zero.
        window * DELTA * queueing.as_secs_f64() > self.packet * self.standing.as_secs_f64()
    }
}

impl Copa {
    pub(super) fn new(window: f64) -> Self {
        Self {
            velocity: 1.0,
            is_rising: true,
            same_rounds: 0,
            window_before: window,
        }
    }

    /// Returns the window after an acknowledgement.
    pub(super) fn moved(&mut self, window: f64, signal: Signal) -> f64 {
        if signal.is_calm {
            return self.spared(window, signal);
        }
        let used = if signal.is_full { window } else { signal.used };
        let rises = !signal.is_above_target(used);
        if rises && !signal.is_full {
            // What was not used was not tried.
            return window;
        }
        if rises != self.is_rising && self.velocity > 1.0 {
            self.velocity = 1.0;
            self.same_rounds = 0;
        }
        let step_round = (signal.packet / DELTA).min(window * STEP_SHARE);
        let step = self.velocity * step_round * signal.acked / window;
        if rises {
            window + step.min(signal.acked)
        } else {
            window - step.min(signal.acked / 2.0)
        }
    }

    /// Returns the window after an acknowledgement where a delay is jitter: never less, and more than is used, so
    /// that what follows a burst of losses, or of lost acknowledgements, has room. What was not enough before is tried only
    /// while the queue is empty, or the flow would take its own queue for jitter.
    fn spared(&mut self, window: f64, signal: Signal) -> f64 {
        self.velocity = 1.0;
        self.same_rounds = 0;
        if !signal.is_full && window >= ROOM * signal.used {
            return window;
        }
        if window < signal.enough {
            return (window + signal.acked).min(signal.enough);
        }
        if signal.is_pressed || !signal.is_full {
            return window + STEP_SHARE * signal.acked;
        }
        window
    }

    /// Takes in that a round trip has ended.
    pub(super) fn handle_round(&mut self, window: f64) {
        let rises = window > self.window_before;
        self.window_before = window;
        if rises == self.is_rising {
            self.same_rounds += 1;
            if self.same_rounds >= STEADY_ROUNDS {
                self.velocity = (self.velocity * 2.0).min(VELOCITY_MAX);
            }
        } else {
            self.is_rising = rises;
            self.same_rounds = 0;
            self.velocity = 1.0;
        }
    }
}
