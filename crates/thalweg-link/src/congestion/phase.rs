//! The phases of the controller, and the transitions between them.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;

use super::copa::{Copa, Signal, TOLERANCE};
use super::cubic::{Cubic, Growth};
use super::drain::{Drain, SHARE};
use super::ledger::Sample;
use super::{Congestion, Controller, Mode};

/// Rounds without an empty queue before a drain if the queueing delay exceeds this multiple of the
/// quiet limit: the path got slower.
const BUSY_ROUNDS_FAST: u32 = 1;
const BUSY_FACTOR: u64 = 3;

/// An app-limited flow takes a queue for empty up to the quiet limit, or this part of the base.
const JITTER_PART: u64 = 4;

/// Rounds for which a new flow climbs in spite of losses: flows that start with it have overshot.
const CLIMB_ROUNDS: u64 = 8;

/// Share of the window that remains after a congestion: CUBIC's β (RFC 9438 §4.6).
const BACK_OFF: f64 = 0.7;

/// Pacing rate over window per round trip: N of RFC 9002 §7.7, and 2 in a start.
const GAIN: f64 = 1.25;
const GAIN_START: f64 = 2.0;

/// The phase, with its state.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    Start,
    Quiet(Quiet),
    Drain(Drain),
    Compete(Compete),
}

/// State of keeping the queue short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    copa: Copa,
    /// Rounds in a row in which the queue was never empty.
    busy_rounds: u32,
    was_empty: bool,
    /// The window when the queue was last empty, in bytes.
    empty_window: f64,
}

/// State of sharing a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compete {
    cubic: Cubic,
    /// When the next drain is due, and when at the latest.
    drain_at: Instant,
    drain_by: Instant,
    /// Whether the queue was empty throughout this round.
    is_empty: bool,
}

impl Phase {
    pub(super) fn mode(&self) -> Mode {
        match self {
            Self::Start => Mode::Start,
            Self::Quiet(_) => Mode::Quiet,
            Self::Drain(_) => Mode::Drain,
            Self::Compete(_) => Mode::Compete,
        }
    }

    /// Returns the CUBIC state, while competing.
    pub(super) fn cubic(&self) -> Option<Cubic> {
        match self {
            Self::Compete(compete) => Some(compete.cubic),
            _ => None,
        }
    }
}

impl Controller {
    /// Advances the phase by an acknowledgement.
    pub(super) fn advance(&mut self, now: Instant, sample: &Sample) {
        match self.phase {
            Phase::Start => {
                self.resume(sample.rtt_max);
                self.advance_start(sample);
            }
            Phase::Quiet(quiet) => self.advance_quiet(now, sample, quiet),
            Phase::Drain(drain) => self.advance_drain(now, sample, drain),
            Phase::Compete(compete) => self.advance_compete(now, sample, compete),
        }
    }

    /// Reduces the window for a congestion.
    pub(super) fn reduce_window(&mut self, now: Instant, cause: Congestion) {
        if cause == Congestion::Persistent {
            self.recovery = None;
            self.outage.begin(self.validated_window(), &self.path);
            self.set_window(0.0);
            self.rivals.handle_outage();
            self.phase = Phase::Start;
            return;
        }
        let is_congestion = cause == Congestion::Mark
            || if self.delay_is_jitter() {
                self.losses.is_lasting()
            } else {
                self.path.delay().queueing() >= half(self.path.quiet_limit())
                    || self.losses.is_heavy()
            };
        let packet = self.path.packet() as f64;
        match &mut self.phase {
            Phase::Start | Phase::Quiet(_) => {
                if !is_congestion {
                    return;
                }
                // Only bytes that were in flight can have filled the queue.
                let used = if self.rounds.is_cwnd_limited() {
                    self.window
                } else {
                    self.validated_window()
                };
                self.set_window(used * BACK_OFF);
                self.losses.reset();
                self.outage.forget();
                match &mut self.phase {
                    Phase::Quiet(quiet) => quiet.copa = Copa::new(self.window),
                    phase => *phase = Phase::Quiet(Quiet::new(self.window)),
                }
            }
            Phase::Drain(drain) => {
                drain.saved_window = match &mut drain.cubic {
                    Some(cubic) => cubic.cut(now, drain.saved_window, packet),
                    None => drain.saved_window * BACK_OFF,
                };
            }
            Phase::Compete(compete) => {
                let window = compete.cubic.cut(now, self.window, packet);
                self.set_window(window);
            }
        }
        self.recovery = Some(now);
    }

    /// Returns whether delay is taken for jitter: app-limited, and the queue was empty lately.
    ///
    /// Its few packets show jitter rather than the queue. It fills no queue for long, so it can wait
    /// until other flows' queue, or a slower line's, has stood for sixteen rounds or is long.
    fn delay_is_jitter(&self) -> bool {
        let path = &self.path;
        let base = path.delay().base().as_nanos();
        let limit = path.quiet_limit().as_nanos();
        let rate = path.rate();
        // Where one packet takes so long, two of them are a queue that outweighs jitter.
        let is_slow = rate > Bitrate::ZERO && path.is_slow_at(rate);
        self.rounds.is_app_limited()
            && !is_slow
            && path.delay().queueing_least().as_nanos() <= limit.max(base / JITTER_PART)
            && !path.is_queue_long()
    }

    /// Returns whether the sender was not app-limited in this round, and the queue is empty.
    fn may_grow(&self) -> bool {
        let is_empty = self.path.delay().queueing() <= self.path.quiet_limit();
        !self.rounds.is_app_limited_now() && is_empty
    }

    /// Restores the window of before an outage, if this round trip shows the same path without a
    /// queue.
    pub(super) fn resume(&mut self, rtt: Duration) {
        if let Some(window) = self.outage.resume(rtt, &self.path) {
            self.set_window(self.window.max(window));
        }
    }

    /// Returns the window that holds when a drain is over, in bytes.
    pub(super) fn window_after_drain(&self) -> f64 {
        match &self.phase {
            Phase::Drain(drain) => drain.saved_window,
            _ => self.window,
        }
    }

    /// Returns the window as far as it was validated by bytes in flight, half of it at least (cf.
    /// RFC 7661).
    pub(super) fn validated_window(&self) -> f64 {
        let window = self.window_after_drain();
        let peak = self.rounds.peak_in_flight();
        peak.max(window / 2.0).min(window)
    }

    pub(super) fn pacing_gain(&self) -> f64 {
        match self.phase {
            Phase::Start => GAIN_START,
            Phase::Drain(_) => 1.0,
            Phase::Quiet(_) | Phase::Compete(_) => GAIN,
        }
    }

    pub(super) fn pacing_time(&self) -> Duration {
        let delay = self.path.delay();
        match self.phase {
            Phase::Compete(_) => delay.smooth(),
            // At the rate that is tried: slower, each acknowledgement waits for the next packet.
            Phase::Drain(_) => delay.base(),
            _ => delay.standing(),
        }
    }

    fn signal(&self, sample: &Sample) -> Signal {
        Signal {
            acked: sample.acked.as_bytes() as f64,
            packet: self.path.packet() as f64,
            standing: self.path.delay().standing(),
            queueing: self.path.delay().queueing(),
            cwnd_limited: self.rounds.is_cwnd_limited(),
            may_grow: self.may_grow(),
            delay_is_jitter: self.delay_is_jitter(),
            ample_window: self.ample_window,
            peak_in_flight: self.rounds.peak_in_flight().min(self.window),
        }
    }

    fn advance_start(&mut self, sample: &Sample) {
        let signal = self.signal(sample);
        if !signal.cwnd_limited {
            // A slow line's rate may be known before it was ever full: it caps the initial window.
            if !self.rounds.was_full()
                && let Some(room) = self.path.known_window()
            {
                self.set_window(self.window.min(room.max(self.rounds.peak_in_flight())));
            }
            return;
        }
        let is_queued = signal.queueing >= half(self.path.quiet_limit());
        if is_queued && signal.is_above_target(self.window) {
            // The window may be twice what the path carries, and the rate is a round trip old.
            let carried = self.path.window_alone(self.path.rate());
            self.set_window(carried.max(self.window / 2.0).min(self.window));
            self.rounds.handle_started();
            self.outage.forget();
            self.phase = Phase::Quiet(Quiet::new(self.window));
        } else {
            self.set_window(self.window + signal.acked);
        }
    }

    fn advance_quiet(&mut self, now: Instant, sample: &Sample, mut quiet: Quiet) {
        let signal = self.signal(sample);
        let limit = self.path.quiet_limit();
        if !signal.delay_is_jitter {
            self.ample_window = 0.0;
        } else if !signal.cwnd_limited {
            self.ample_window = self.ample_window.max(self.window);
        }
        self.set_window(quiet.copa.updated(self.window, signal));
        if self.rounds.is_app_limited() && self.path.is_queue_long() {
            // The headroom against bursts of losses must not turn into a queue.
            self.set_window(self.window.min(self.rounds.peak_in_flight()));
        }
        if signal.queueing <= limit {
            quiet.was_empty = true;
            quiet.empty_window = self.window;
        }
        if sample.ends_round {
            quiet.copa.handle_round(self.window);
            if quiet.was_empty
                || !signal.cwnd_limited
                || (self.rounds.is_app_limited() && !self.path.is_queue_long())
            {
                quiet.busy_rounds = 0;
            } else {
                quiet.busy_rounds += 1;
            }
            quiet.was_empty = false;
        }
        self.phase = Phase::Quiet(quiet);
        let is_long = signal.queueing.as_nanos() / BUSY_FACTOR >= limit.as_nanos();
        let rounds = if is_long {
            BUSY_ROUNDS_FAST
        } else {
            self.rivals.busy_rounds()
        };
        if quiet.busy_rounds >= rounds && !self.rivals.is_own_queue(&self.path) {
            let saved_window = quiet.empty_window.max(self.window);
            self.start_drain(now, saved_window, None);
        }
    }

    fn advance_compete(&mut self, now: Instant, sample: &Sample, mut compete: Compete) {
        let cwnd_limited = self.rounds.is_cwnd_limited();
        let is_recovering = self.recovery.is_some_and(|since| sample.sent <= since);
        if !is_recovering {
            let growth = Growth {
                now,
                acked: sample.acked.as_bytes() as f64,
                packet: self.path.packet() as f64,
                rtt: self.path.delay().smooth(),
                cwnd_limited,
            };
            let window = compete.cubic.grown(self.window, growth);
            self.set_window(window);
        }
        let delay = self.path.delay();
        let sixteenth = Duration::from_nanos(delay.base().as_nanos() / 16);
        compete.is_empty &= delay.queueing() <= sixteenth.max(TOLERANCE);
        let is_empty = compete.is_empty;
        if sample.ends_round {
            compete.is_empty = true;
        }
        self.phase = Phase::Compete(compete);
        if sample.ends_round && is_empty && cwnd_limited {
            self.phase = Phase::Quiet(Quiet::new(self.window));
        } else if cwnd_limited && !is_recovering && compete.is_due(now, self.window) {
            self.start_drain(now, self.window, Some(compete.cubic));
        }
    }

    /// Starts a drain, to learn whether other flows fill the queue.
    fn start_drain(&mut self, now: Instant, saved_window: f64, cubic: Option<Cubic>) {
        let rates = [self.path.rate_latest(), self.path.rate()];
        self.set_window(self.path.bdp(rates[0]) * SHARE);
        let mut drain = Drain::new(now, saved_window, rates, cubic);
        drain.rtt_before = self.path.delay().standing();
        self.phase = Phase::Drain(drain);
    }

    fn advance_drain(&mut self, now: Instant, sample: &Sample, mut drain: Drain) {
        if drain.is_falling() {
            drain.handle_falling_ack(now, sample, self.path.packet());
            if sample.rate.is_some() {
                self.set_window(self.path.bdp(drain.rate) * SHARE);
            }
        }
        let fits = self.sent_packets.in_flight() as f64 <= self.window;
        let ack_delay = self.path.ack_delay_at(drain.rate_max);
        let delay = self.path.delay();
        let floor = drain.handle_ack(now, sample, ack_delay, fits, [delay.base(), delay.smooth()]);
        self.phase = Phase::Drain(drain);
        let Some(floor) = floor else {
            return;
        };
        if self.rivals.judge(&drain, floor, &mut self.path) {
            let window = self.path.window_alone(drain.rate);
            self.set_window(window.min(drain.saved_window));
            self.phase = Phase::Quiet(Quiet::new(self.window));
            if drain.cubic.is_some() {
                self.rivals.handle_exit(now, drain.saved_window);
            }
        } else {
            self.start_compete(now, &drain);
        }
    }

    /// Starts to share the queue with competing flows.
    fn start_compete(&mut self, now: Instant, drain: &Drain) {
        let entrance = self.rivals.handle_entrance(now, drain, &self.path);
        // A new flow does not know its share yet: the others' queue ended its slow start early.
        let is_new = self.rounds.is_new() && !self.path.is_slow_at(drain.rate);
        let begun = if is_new {
            let round = self.path.delay().smooth().as_nanos();
            let until = now + Duration::from_nanos(round.saturating_mul(CLIMB_ROUNDS));
            Cubic::below(now, entrance.window, until)
        } else {
            Cubic::new(now, entrance.window)
        };
        let mut cubic = drain.cubic.unwrap_or(begun);
        if drain.cubic.is_some() {
            cubic.skip(now.saturating_since(drain.began));
        }
        self.set_window(entrance.window);
        self.phase = Phase::Compete(Compete {
            cubic,
            drain_at: entrance.drain_at,
            drain_by: entrance.drain_by,
            is_empty: false,
        });
    }
}

impl Compete {
    /// Returns whether a drain is due: when the queue is as full as it gets. After a loss the queue
    /// may be empty though other flows are there.
    fn is_due(&self, now: Instant, window: f64) -> bool {
        now >= self.drain_by || (now >= self.drain_at && self.cubic.is_back(window))
    }

    /// Restores the state from before a spurious loss.
    pub(super) fn restore(&mut self, cubic: Cubic) {
        self.cubic = cubic;
    }
}

impl Quiet {
    fn new(window: f64) -> Self {
        Self {
            copa: Copa::new(window),
            busy_rounds: 0,
            was_empty: false,
            empty_window: window,
        }
    }
}

fn half(time: Duration) -> Duration {
    Duration::from_nanos(time.as_nanos() / 2)
}
