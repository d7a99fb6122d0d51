//! The phases of the controller, and the transitions between them.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::copa::{Copa, DELTA, Signal, TOLERANCE};
use super::cubic::{Cubic, Growth};
use super::drain::{Drain, SHARE};
use super::estimate::ROUNDS;
use super::ledger::Sample;
use super::{ACK_DELAY_MAX, Congestion, Controller, Mode, PACKETS_MIN};

/// Rounds without an empty queue before a drain looks for competing flows: as Copa §2.2.
const BUSY_ROUNDS: u32 = 5;

/// The same if the queueing delay exceeds this multiple of the quiet limit: the path got slower.
const BUSY_ROUNDS_FAST: u32 = 1;
const BUSY_FACTOR: u64 = 3;

/// An app-limited flow takes delay for jitter up to this multiple of the quiet limit, or the base,
/// and a queue for empty up to this part of the base.
const JITTER_FACTOR: u64 = BUSY_FACTOR;
const JITTER_PART: u64 = 4;

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

/// The quiet limit's least base part: a shorter queueing delay always counts as an empty queue.
const EMPTY_MIN: Duration = Duration::from_millis(3);

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

/// Slow-start rounds without being app-limited after which an earlier app-limited round is forgotten.
const START_ROUNDS: u64 = 4;

/// A flow that meets competing flows within this many rounds of its start is new among them.
const NEW_ROUNDS: u64 = 32;

/// Rounds for which a new flow climbs in spite of losses: flows that start with it have overshot.
const CLIMB_ROUNDS: u64 = 8;

/// Share of the drained bytes, or of an earlier rate, from which on a flow counts as alone.
const OWN_SHARE: f64 = 0.8;

/// A line is slow where one packet takes more than the round trip over this. The second is for the
/// greatest rate seen, which is a tenth or two above the line's.
const SLOW_PART: f64 = 4.0;
const SLOW_PART_MOST: f64 = 4.5;

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
            self.remember();
            self.set_window(0.0);
            self.rate_uncontended = Bitrate::ZERO;
            self.phase = Phase::Start;
            return;
        }
        let is_congestion = cause == Congestion::Mark
            || if self.delay_is_jitter() {
                self.losses.is_lasting()
            } else {
                self.delay.queueing() >= half(self.quiet_limit()) || self.losses.is_heavy()
            };
        let packet = self.packet as f64;
        match &mut self.phase {
            Phase::Start | Phase::Quiet(_) => {
                if !is_congestion {
                    return;
                }
                // Only bytes that were in flight can have filled the queue.
                let used = if self.is_cwnd_limited() {
                    self.window
                } else {
                    self.validated_window()
                };
                self.set_window(used * BACK_OFF);
                self.losses.reset();
                self.before_outage = None;
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
        let base = self.delay.base().as_nanos();
        let limit = self.quiet_limit().as_nanos();
        let rate = self.rates.over(ROUNDS);
        // Where one packet takes so long, two of them are a queue that outweighs jitter.
        let is_slow = rate != Bitrate::ZERO && self.is_slow_at(rate);
        self.is_app_limited()
            && !is_slow
            && self.delay.queueing_least().as_nanos() <= limit.max(base / JITTER_PART)
            && !self.is_queue_long()
    }

    /// Returns whether the sender was not app-limited in this round, and the queue is empty.
    fn may_grow(&self) -> bool {
        self.app_limited_round != Some(self.rounds) && self.delay.queueing() <= self.quiet_limit()
    }

    /// Returns whether the queueing delay exceeds what jitter or a delayed acknowledgement explains.
    fn is_queue_long(&self) -> bool {
        self.is_long_above(self.quiet_limit())
    }

    /// Returns the same where a delay up to `limit` is normal.
    fn is_long_above(&self, limit: Duration) -> bool {
        let most = limit.as_nanos().saturating_mul(JITTER_FACTOR);
        let queueing = self.delay.queueing().saturating_sub(self.ack_delay);
        queueing.as_nanos() >= most.max(self.delay.base().as_nanos())
    }

    /// Returns the queueing delay up to which the queue counts as empty: E of docs/concepts/congestion.md.
    pub(super) fn quiet_limit(&self) -> Duration {
        self.limit_at(self.rates.over(ROUNDS))
    }

    /// Returns the same at this rate. One packet's serialization delay is added, up to a quarter of
    /// the round trip: a flow that is squeezed must not take its rivals' queue for its own packet.
    fn limit_at(&self, rate: Bitrate) -> Duration {
        let base = self.delay.base().as_nanos();
        let serial = match rate {
            Bitrate::ZERO => Duration::ZERO,
            rate => rate.time_for(DataSize::from_bytes(self.packet)),
        };
        let quarter = Duration::from_nanos(base / 4);
        Duration::from_nanos(base / 8).max(EMPTY_MIN) + serial.min(quarter)
    }

    /// Returns whether a drain on a slow line found no rival, though the queue seemed to stand.
    ///
    /// There a drain's two packets and the delayed acknowledgement look like a queue, the more so if
    /// the base was measured when the line was faster.
    fn has_emptied(&self, drain: &Drain, floor: Duration) -> bool {
        let rate = drain.falling_rate();
        if !self.is_slow_at(rate) {
            return false;
        }
        // If too few packets were drained to decide, assume no competing flow while our rate still
        // matches the rate measured alone.
        if !drain.is_conclusive(self.packet) {
            let recent = self.rates.over(BUSY_ROUNDS as usize).as_bps() as f64;
            let alone = self.known_rate().as_bps() as f64;
            return alone > 0.0 && recent >= alone * OWN_SHARE;
        }
        // If the queue held our packets only, the delay fell by the time they take to send.
        let fallen = rate * drain.rtt_before.saturating_sub(floor);
        let remaining = (PACKETS_MIN * self.packet) as f64;
        fallen.as_bytes() as f64 + remaining >= drain.drained * OWN_SHARE
    }

    /// Returns whether this flow's rate shows that the queue is its own.
    ///
    /// Where two packets take longer than the quiet limit, Copa's own queue never seems empty. But a
    /// rival takes a part of `rate_uncontended`, or makes the queue long. Long is relative to the two
    /// packets, which are long relative to the quiet limit on a line of 1 Mbit/s.
    pub(super) fn is_own_queue(&self) -> bool {
        let then = self.rate_uncontended.as_bps() as f64;
        let now = self.rates.over(BUSY_ROUNDS as usize).as_bps() as f64;
        if then == 0.0 || now < then * OWN_SHARE || now * OWN_SHARE > then {
            return false;
        }
        let packets = DataSize::from_bytes(PACKETS_MIN * self.packet);
        let own = self.rate_uncontended.time_for(packets);
        own > self.limit_at(self.rate_uncontended) && !self.is_long_above(own)
    }

    fn is_slow(&self, drain: &Drain) -> bool {
        self.is_slow_at(drain.rate)
    }

    /// Returns whether one packet takes more than a quarter of the round trip; true at no rate.
    fn is_slow_at(&self, rate: Bitrate) -> bool {
        self.packet_exceeds(rate, SLOW_PART)
    }

    /// Returns whether one packet takes more than the round trip over `part`; true at no rate.
    fn packet_exceeds(&self, rate: Bitrate, part: f64) -> bool {
        if rate == Bitrate::ZERO {
            return true;
        }
        let serial = rate.time_for(DataSize::from_bytes(self.packet));
        serial.as_secs_f64() * part > self.delay.base().as_secs_f64()
    }

    /// Returns the window that holds when a drain is over, in bytes.
    pub(super) fn window_after_drain(&self) -> f64 {
        match &self.phase {
            Phase::Drain(drain) => drain.saved_window,
            _ => self.window,
        }
    }

    pub(super) fn pacing_gain(&self) -> f64 {
        match self.phase {
            Phase::Start => GAIN_START,
            Phase::Drain(_) => 1.0,
            Phase::Quiet(_) | Phase::Compete(_) => GAIN,
        }
    }

    pub(super) fn pacing_time(&self) -> Duration {
        match self.phase {
            Phase::Compete(_) => self.delay.smooth(),
            // At the rate that is tried: slower, each acknowledgement waits for the next packet.
            Phase::Drain(_) => self.delay.base(),
            _ => self.delay.standing(),
        }
    }

    fn signal(&self, sample: &Sample) -> Signal {
        Signal {
            acked: sample.acked.as_bytes() as f64,
            packet: self.packet as f64,
            standing: self.delay.standing(),
            queueing: self.delay.queueing(),
            cwnd_limited: self.is_cwnd_limited(),
            may_grow: self.may_grow(),
            delay_is_jitter: self.delay_is_jitter(),
            ample_window: self.ample_window,
            peak_in_flight: self.peak_in_flight().min(self.window),
        }
    }

    fn advance_start(&mut self, sample: &Sample) {
        let signal = self.signal(sample);
        if !signal.cwnd_limited {
            // A slow line's rate may be known before it was ever full: it caps the initial window.
            if self.cwnd_limited_round.is_none()
                && let Some(room) = self.known_window()
            {
                self.set_window(self.window.min(room.max(self.peak_in_flight())));
            }
            return;
        }
        let is_queued = signal.queueing >= half(self.quiet_limit());
        if is_queued && signal.is_above_target(self.window) {
            // The window may be twice what the path carries, and the rate is a round trip old.
            let carried = self.bdp(self.rates.over(ROUNDS)) + signal.packet / DELTA;
            self.set_window(carried.max(self.window / 2.0).min(self.window));
            // A flow that was not app-limited during slow start has data enough.
            self.app_limited_round = self
                .app_limited_round
                .filter(|round| round.saturating_add(START_ROUNDS) > self.rounds);
            self.started = self.rounds;
            self.before_outage = None;
            self.phase = Phase::Quiet(Quiet::new(self.window));
        } else {
            self.set_window(self.window + signal.acked);
        }
    }

    fn advance_quiet(&mut self, now: Instant, sample: &Sample, mut quiet: Quiet) {
        let signal = self.signal(sample);
        let limit = self.quiet_limit();
        if !signal.delay_is_jitter {
            self.ample_window = 0.0;
        } else if !signal.cwnd_limited {
            self.ample_window = self.ample_window.max(self.window);
        }
        self.set_window(quiet.copa.updated(self.window, signal));
        if self.is_app_limited() && self.is_queue_long() {
            // The headroom against bursts of losses must not turn into a queue.
            self.set_window(self.window.min(self.peak_in_flight()));
        }
        if signal.queueing <= limit {
            quiet.was_empty = true;
            quiet.empty_window = self.window;
        }
        if sample.ends_round {
            quiet.copa.handle_round(self.window);
            if quiet.was_empty
                || !signal.cwnd_limited
                || (self.is_app_limited() && !self.is_queue_long())
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
            let lonely = (self.alone_drains / ALONE_LONG).min(ALONE_LONG_DOUBLINGS_MAX);
            BUSY_ROUNDS << (self.alone_drains.min(ALONE_DOUBLINGS_MAX) + lonely)
        };
        if quiet.busy_rounds >= rounds && !self.is_own_queue() {
            let saved_window = quiet.empty_window.max(self.window);
            self.start_drain(now, saved_window, None);
        }
    }

    fn advance_compete(&mut self, now: Instant, sample: &Sample, mut compete: Compete) {
        let cwnd_limited = self.is_cwnd_limited();
        let is_recovering = self.recovery.is_some_and(|since| sample.sent <= since);
        if !is_recovering {
            let growth = Growth {
                now,
                acked: sample.acked.as_bytes() as f64,
                packet: self.packet as f64,
                rtt: self.delay.smooth(),
                cwnd_limited,
            };
            let window = compete.cubic.grown(self.window, growth);
            self.set_window(window);
        }
        let sixteenth = Duration::from_nanos(self.delay.base().as_nanos() / 16);
        compete.is_empty &= self.delay.queueing() <= sixteenth.max(TOLERANCE);
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
        let rate = self.rates.latest();
        self.set_window(self.bdp(rate) * SHARE);
        let mut drain = Drain::new(now, saved_window, [rate, self.rates.over(ROUNDS)], cubic);
        drain.rtt_before = self.delay.standing();
        self.phase = Phase::Drain(drain);
    }

    fn advance_drain(&mut self, now: Instant, sample: &Sample, mut drain: Drain) {
        if drain.is_falling() {
            drain.handle_falling_ack(now, sample, self.packet);
            if sample.rate.is_some() {
                self.set_window(self.bdp(drain.rate) * SHARE);
            }
        }
        let fits = self.sent_packets.in_flight() as f64 <= self.window;
        let base = self.delay.base();
        // By the greatest rate: a flow squeezed to two packets must not take a queue for ACK delay.
        let ack_delay = if self.packet_exceeds(drain.rate_max, SLOW_PART_MOST) {
            self.ack_delay.min(ACK_DELAY_MAX)
        } else {
            Duration::ZERO
        };
        let floor = drain.handle_ack(now, sample, ack_delay, fits, [base, self.delay.smooth()]);
        self.phase = Phase::Drain(drain);
        let Some(floor) = floor else {
            return;
        };
        let limit = self.limit_at(drain.rate);
        let mut is_alone = floor.saturating_sub(base + self.delay.slack()) <= limit;
        if !is_alone && self.has_emptied(&drain, floor) {
            is_alone = true;
            if drain.is_conclusive(self.packet) {
                // This is what the line takes now, with two packets and no other flow.
                self.delay.rebase(floor);
                self.rate_alone = drain.falling_rate();
            }
        }
        if is_alone {
            self.floors.clear();
            self.alone_drains = self
                .alone_drains
                .saturating_add(drain.cubic.is_none().into());
        } else if let Some(base) = self.floors.handle_floor(floor) {
            self.delay.rebase(base);
            is_alone = true;
        }
        if is_alone {
            if self.alone_drains >= ALONE_PROVEN {
                self.rate_uncontended = drain.rate_max;
            }
            let window = self.bdp(drain.rate) + self.packet as f64 / DELTA;
            self.set_window(window.min(drain.saved_window));
            self.phase = Phase::Quiet(Quiet::new(self.window));
            if drain.cubic.is_some() {
                self.compete_exit = Some((now, drain.saved_window));
            }
            return;
        }
        self.alone_drains = 0;
        self.rate_alone = Bitrate::ZERO;
        self.rate_uncontended = Bitrate::ZERO;
        self.start_compete(now, &drain);
    }

    /// Starts to share the queue with competing flows.
    fn start_compete(&mut self, now: Instant, drain: &Drain) {
        let rounds = Duration::from_nanos(self.delay.smooth().as_nanos() * DRAIN_ROUNDS);
        let base = self.delay.base();
        let was_deep = drain.rtt_before.saturating_sub(base) >= base;
        let is_unclear =
            !drain.is_conclusive(self.packet) && self.is_slow_at(self.rates.over(ROUNDS));
        let is_first = is_unclear || (drain.cubic.is_none() && was_deep && self.is_slow(drain));
        self.unclear = if is_unclear {
            self.unclear.saturating_add(1)
        } else {
            0
        };
        let interval = if is_first {
            let rounds = Duration::from_nanos(base.as_nanos() * DRAIN_ROUNDS_FIRST);
            let present = Duration::from_nanos(self.delay.smooth().as_nanos() * 4);
            let least = DRAIN_INTERVAL_FIRST.max(rounds).max(present);
            let again = self.unclear.saturating_sub(1).min(UNCLEAR_MAX);
            Duration::from_nanos(least.as_nanos() << again)
        } else {
            DRAIN_INTERVAL.max(rounds)
        };
        let mut saved_window = drain.saved_window;
        // If the last drain wrongly left `Compete`, restore the window it cost, and drain later.
        match self.compete_exit.take() {
            Some((at, window)) if now.saturating_since(at) < interval => {
                saved_window = saved_window.max(window);
                self.wrong_exits = self.wrong_exits.saturating_add(1);
            }
            Some(_) => self.wrong_exits = 0,
            None => {}
        }
        let interval = if is_first {
            interval
        } else {
            Duration::from_nanos(interval.as_nanos() << self.wrong_exits.min(WRONG_EXITS_MAX))
        };
        // A new flow does not know its share yet: the others' queue ended its slow start early.
        let has_paused = self.app_limited_round > Some(self.started);
        let is_new =
            self.rounds - self.started <= NEW_ROUNDS && !has_paused && !self.is_slow(drain);
        let begun = if is_new {
            let round = self.delay.smooth().as_nanos();
            let until = now + Duration::from_nanos(round.saturating_mul(CLIMB_ROUNDS));
            Cubic::below(now, saved_window, until)
        } else {
            Cubic::new(now, saved_window)
        };
        let mut cubic = drain.cubic.unwrap_or(begun);
        if drain.cubic.is_some() {
            cubic.skip(now.saturating_since(drain.began));
        }
        self.set_window(saved_window);
        self.phase = Phase::Compete(Compete {
            cubic,
            drain_at: now + interval,
            drain_by: if is_first {
                now + interval
            } else {
                now + interval + interval
            },
            is_empty: false,
        });
    }

    /// Returns the bandwidth-delay product at a rate, in bytes: what the path carries without a queue.
    pub(super) fn bdp(&self, rate: Bitrate) -> f64 {
        (rate * self.delay.base()).as_bytes() as f64
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
