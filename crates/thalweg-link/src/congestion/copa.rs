//! Copa's window: keeps a queue of two packets while no other flow fills it.
//!
//! *The idea.* A flow aims at the rate λ* = 1/(δ·d) packets a second, d being the queueing delay.
//! Above that rate the window falls, below it the window rises, by v/δ packets a round trip. All
//! flows of a queue see the same d, so all aim at the same rate whatever their round trips. Alone,
//! a flow keeps a queue of 1/δ packets and empties it once in five round trips. The velocity v
//! doubles when the window went the same way for three round trips.
//!
//! *What it does not do.* It cannot hold its own against flows that fill the queue:
//! [`super::Controller`] detects them.
//!
//! *Sources.* Arun, Balakrishnan: "Copa", NSDI 2018, §2; with a tolerance of a millisecond of
//! queue, the precision of clocks and system calls on real machines.

use thalweg_base::time::Duration;

/// δ: two packets in the queue.
pub(super) const DELTA: f64 = 0.5;

/// Queueing delay that counts as none.
pub(super) const TOLERANCE: Duration = Duration::from_millis(1);

/// Rounds in one direction before the velocity doubles.
const STEADY_ROUNDS: u32 = 3;

/// Maximum velocity: the window then changes by the packets acknowledged, as in slow start.
const VELOCITY_MAX: f64 = 65_536.0;

/// Most by which a window moves in a round trip at velocity one, so that a window of a few packets
/// does not swing.
const STEP_SHARE: f64 = 0.125;

/// Window of an app-limited flow over its bytes in flight. Twice, as Linux's slow start leaves it,
/// is used up by one burst of losses that takes a window and its acknowledgements.
const HEADROOM: f64 = 4.0;

/// State of the window; windows in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copa {
    velocity: f64,
    is_rising: bool,
    same_rounds: u32,
    window_before: f64,
}

/// What an acknowledgement brings; sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    pub(super) acked: f64,
    pub(super) packet: f64,
    pub(super) standing: Duration,
    pub(super) queueing: Duration,
    /// Whether the window limited the sender.
    pub(super) cwnd_limited: bool,
    /// Whether the sender was not app-limited in this round, and the queue is empty.
    pub(super) may_grow: bool,
    /// Whether delay is taken for jitter: the flow is app-limited and has seen the queue empty lately.
    pub(super) delay_is_jitter: bool,
    /// The window that sufficed for this flow since a queue was last seen.
    pub(super) ample_window: f64,
    /// Peak of bytes in flight in a round trip, at most the window.
    pub(super) peak_in_flight: f64,
}

impl Signal {
    /// Returns whether a window sends faster than the target rate.
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
    pub(super) fn updated(&mut self, window: f64, signal: Signal) -> f64 {
        if signal.delay_is_jitter {
            return self.grown_under_jitter(window, signal);
        }
        let used = if signal.cwnd_limited {
            window
        } else {
            signal.peak_in_flight
        };
        let rises = !signal.is_above_target(used);
        if rises && !signal.cwnd_limited {
            // The unused part of the window was not tested.
            return window;
        }
        // Turning resets the velocity at once, and not only at the end of the round (Copa §2.2).
        if rises != self.is_rising && self.velocity > 1.0 {
            self.velocity = 1.0;
            self.same_rounds = 0;
        }
        // v/δ packets a round trip, spread over its acknowledgements.
        let step_round = (signal.packet / DELTA).min(window * STEP_SHARE);
        let step = self.velocity * step_round * signal.acked / window;
        if rises {
            // At most slow start's pace upwards, and half of it downwards.
            window + step.min(signal.acked)
        } else {
            window - step.min(signal.acked / 2.0)
        }
    }

    /// Returns the window after an acknowledgement where delay is taken for jitter.
    ///
    /// It never falls, and grows beyond what is used, so that a burst of losses or of lost
    /// acknowledgements leaves room to send. Above [`Signal::ample_window`] a full window grows only
    /// while the queue is empty, or the flow would take its own queue for jitter.
    fn grown_under_jitter(&mut self, window: f64, signal: Signal) -> f64 {
        self.velocity = 1.0;
        self.same_rounds = 0;
        if !signal.cwnd_limited && window >= HEADROOM * signal.peak_in_flight {
            return window;
        }
        if window < signal.ample_window {
            return (window + signal.acked).min(signal.ample_window);
        }
        if signal.may_grow || !signal.cwnd_limited {
            return window + STEP_SHARE * signal.acked;
        }
        window
    }

    /// Handles the end of a round trip.
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
