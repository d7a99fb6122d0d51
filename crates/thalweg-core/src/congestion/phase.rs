//! What the controller does, and when it does something else.

use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};

use super::copa::{Copa, DELTA, Signal, TOLERANCE};
use super::cubic::{Cubic, Growth};
use super::drain::{Drain, SHARE};
use super::estimate::ROUNDS;
use super::ledger::Sample;
use super::{ACK_WAIT_MAX, Congestion, Controller, Mode, PACKETS_MIN};

/// Rounds in which the queue does not empty before somebody else is looked for: Copa §2.2 has the same.
const BUSY_ROUNDS: u32 = 5;

/// The same if the queue is longer than this multiple of what is taken for empty: the path has become slower.
const BUSY_ROUNDS_FAST: u32 = 1;
const BUSY_FACTOR: u64 = 3;

/// The delay up to which it may be jitter for who sends little: this multiple of what is taken for empty, or the base
/// round trip.
const CALM_FACTOR: u64 = BUSY_FACTOR;

/// The least delay of the last rounds up to which he takes the queue for empty, at least: this part of the base.
const CALM_PART: u64 = 4;

/// How often the rounds double when a look found nobody: on a slow line two packets are a queue.
const ALARMS_MAX: u32 = 2;

/// After so many looks in a row that found nobody they double once more, and after as many again a last time: a look costs
/// what the line would have carried meanwhile, and who was alone for so long mostly stays it.
const ALARMS_LONG: u32 = 8;
const ALARMS_LONG_MAX: u32 = 2;

/// After so many of them the rate at which the last was taken is that of who is alone: one or two may have come when a rival had just
/// halved his window.
const ALARMS_ALONE: u32 = 3;

/// How often the interval doubles when looks turn out to have been wrong.
const MISTAKES_MAX: u32 = 2;

/// The shortest queueing delay that is not taken for an empty queue.
const EMPTY_MIN: Duration = Duration::from_millis(3);

/// From one look out of competition to the next, and at least so many round trips; twice that if the window does not
/// come back to what it was at the last loss.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
const LOOK_ROUNDS: u64 = 40;

/// The same after the look that led there: what it saw may have been a line that had just become slower, whose rate was
/// not known yet.
const LOOK_INTERVAL_FIRST: Duration = Duration::from_secs(1);
const LOOK_ROUNDS_FIRST: u64 = 20;

/// How often that doubles when one look after the other says nothing.
const UNCLEAR_MAX: u32 = 3;

/// Rounds of a start in which who sends all he can has never nothing to send.
const START_ROUNDS: u64 = 4;

/// Up to how many rounds after its start a flow that meets others is new among them.
const NEW_ROUNDS: u64 = 32;

/// For how many rounds it climbs at least, whatever is lost: for others who begin with it have overshot.
const CLIMB_ROUNDS: u64 = 8;

/// The share of what was taken out of a queue by which it must have become shorter, if nobody else fills it; and the share of a
/// rate that is left to who is still alone.
const OWN_SHARE: f64 = 0.8;

/// A line is slow where one packet takes more than this part of the round trip; by the greatest rate that was seen, which is a tenth
/// or two above the line's, more than the other.
const SLOW_PART: f64 = 4.0;
const SLOW_PART_MOST: f64 = 4.5;

/// What remains of the window at a congestion: CUBIC's.
const BACK_OFF: f64 = 0.7;

/// How much faster than the window demands packets leave: RFC 9002 §7.7, and twice in a start.
const GAIN: f64 = 1.25;
const GAIN_START: f64 = 2.0;

/// What the controller does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    Start,
    Quiet(Quiet),
    Drain(Drain),
    Compete(Compete),
}

/// Keeping the queue short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    copa: Copa,
    /// Rounds in which the queue was never empty.
    busy_rounds: u32,
    was_empty: bool,
    /// The window when it was empty.
    empty_window: f64,
}

/// Sharing a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compete {
    cubic: Cubic,
    /// When to look, and when at the latest.
    look_at: Instant,
    look_by: Instant,
    /// Whether the queue was always empty in this round.
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

    /// Returns what is in force in competition.
    pub(super) fn cubic(&self) -> Option<Cubic> {
        match self {
            Self::Compete(compete) => Some(compete.cubic),
            _ => None,
        }
    }
}

impl Controller {
    /// Does what an acknowledgement leads to.
    pub(super) fn advance(&mut self, now: Instant, sample: &Sample) {
        match self.phase {
            Phase::Start => {
                self.resume(sample.rtt_most);
                self.advance_start(sample);
            }
            Phase::Quiet(quiet) => self.advance_quiet(now, sample, quiet),
            Phase::Drain(drain) => self.advance_drain(now, sample, drain),
            Phase::Compete(compete) => self.advance_compete(now, sample, compete),
        }
    }

    /// Makes room for who else is there.
    pub(super) fn yield_to(&mut self, now: Instant, cause: Congestion) {
        if cause == Congestion::Persistent {
            self.recovery = None;
            self.remember();
            self.set_window(0.0);
            self.rate_empty = Bitrate::ZERO;
            self.phase = Phase::Start;
            return;
        }
        let is_congestion = cause == Congestion::Mark
            || if self.is_calm() {
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
                // What was not used was not what filled the queue.
                let used = if self.is_full() {
                    self.window
                } else {
                    self.tried()
                };
                self.set_window(used * BACK_OFF);
                self.losses.forget();
                self.before = None;
                match &mut self.phase {
                    Phase::Quiet(quiet) => quiet.copa = Copa::new(self.window),
                    phase => *phase = Phase::Quiet(Quiet::new(self.window)),
                }
            }
            Phase::Drain(drain) => {
                drain.saved = match &mut drain.cubic {
                    Some(cubic) => cubic.cut(now, drain.saved, packet),
                    None => drain.saved * BACK_OFF,
                };
            }
            Phase::Compete(compete) => {
                let window = compete.cubic.cut(now, self.window, packet);
                self.set_window(window);
            }
        }
        self.recovery = Some(now);
    }

    /// Returns whether this is an application that sends little, on a path whose queue was seen empty of late.
    ///
    /// Its few packets meet the jitter and not what waits all the time. It fills no queue for long, so there is no hurry: a
    /// queue that others fill, or a line that has become slower, does not empty for sixteen rounds, or is long at once.
    fn is_calm(&self) -> bool {
        let base = self.delay.base().as_nanos();
        let limit = self.quiet_limit().as_nanos();
        let rate = self.rates.over(ROUNDS);
        // Where a packet takes so long, two of them are a queue, and jitter is the least of it.
        let is_slow = rate != Bitrate::ZERO && self.is_slow_at(rate);
        self.is_short()
            && !is_slow
            && self.delay.queueing_least().as_nanos() <= limit.max(base / CALM_PART)
            && !self.is_long()
    }

    /// Returns whether the application has something to send all the time of this round, and nothing waits in the queue.
    fn is_pressed(&self) -> bool {
        self.short_round != Some(self.rounds) && self.delay.queueing() <= self.quiet_limit()
    }

    /// Returns whether packets wait for longer than jitter explains, or the peer's waiting for a second packet.
    fn is_long(&self) -> bool {
        self.is_long_beside(self.quiet_limit())
    }

    /// Returns the same where packets may wait so long without anything being amiss.
    fn is_long_beside(&self, limit: Duration) -> bool {
        let most = limit.as_nanos().saturating_mul(CALM_FACTOR);
        let queueing = self.delay.queueing().saturating_sub(self.waited);
        queueing.as_nanos() >= most.max(self.delay.base().as_nanos())
    }

    /// Returns the queueing delay up to which the queue is taken for empty.
    pub(super) fn quiet_limit(&self) -> Duration {
        self.limit_at(self.rates.over(ROUNDS))
    }

    /// Returns the same for a line that carries this rate: one packet's time more, within reason, for a flow that is
    /// squeezed must not take the others' queue for its own packet.
    fn limit_at(&self, rate: Bitrate) -> Duration {
        let base = self.delay.base().as_nanos();
        let serial = match rate {
            Bitrate::ZERO => Duration::ZERO,
            rate => rate.time_for(DataSize::from_bytes(self.packet)),
        };
        let quarter = Duration::from_nanos(base / 4);
        Duration::from_nanos(base / 8).max(EMPTY_MIN) + serial.min(quarter)
    }

    /// Returns whether a look on a slow line has found nobody, though the queue did not seem to empty.
    ///
    /// Where one packet takes more than a quarter of the round trip, a look's two packets and the acknowledgement that
    /// waits for the second are a queue by themselves, the more so if the base was measured when the line was faster. But if
    /// what was taken out of the queue was all that was in it, the delay has fallen by the time that it took to send: others
    /// would have filled the room, and had a part in the rate. Where too little was in it to tell, who still gets what he got
    /// when he was alone is alone.
    fn has_emptied(&self, drain: &Drain, floor: Duration) -> bool {
        let rate = drain.rate_fallen();
        if !self.is_slow_at(rate) {
            return false;
        }
        if !drain.is_telling(self.packet) {
            let recent = self.rates.over(BUSY_ROUNDS as usize).as_bps() as f64;
            let alone = self.rate_known().as_bps() as f64;
            return alone > 0.0 && recent >= alone * OWN_SHARE;
        }
        let fallen = rate * drain.rtt_before.saturating_sub(floor);
        let remaining = (PACKETS_MIN * self.packet) as f64;
        fallen.as_bytes() as f64 + remaining >= drain.taken * OWN_SHARE
    }

    /// Returns whether the queue is the one that this flow keeps itself, as far as its rate tells.
    ///
    /// Where two packets take longer than an empty queue may, Copa's own never seems empty, and each look costs what the line
    /// would have carried meanwhile. But looks have found nobody at a rate, and who has come since to fill the queue has taken a
    /// part of that, or has made the queue long. Long is reckoned from the two packets: by what counts as empty they
    /// are long themselves on a line of 1 Mbit/s.
    pub(super) fn is_queue_own(&self) -> bool {
        let then = self.rate_empty.as_bps() as f64;
        let now = self.rates.over(BUSY_ROUNDS as usize).as_bps() as f64;
        if then == 0.0 || now < then * OWN_SHARE || now * OWN_SHARE > then {
            return false;
        }
        let packets = DataSize::from_bytes(PACKETS_MIN * self.packet);
        let own = self.rate_empty.time_for(packets);
        own > self.limit_at(self.rate_empty) && !self.is_long_beside(own)
    }

    /// Returns whether one packet takes more than a quarter of the round trip, as far as a look knows.
    fn is_slow(&self, drain: &Drain) -> bool {
        self.is_slow_at(drain.rate)
    }

    /// Returns whether one packet takes more than a quarter of the round trip at this rate, as it does at none.
    fn is_slow_at(&self, rate: Bitrate) -> bool {
        self.takes_part(rate, SLOW_PART)
    }

    /// Returns whether one packet takes more than this part of the round trip at this rate, as it does at none.
    fn takes_part(&self, rate: Bitrate, part: f64) -> bool {
        if rate == Bitrate::ZERO {
            return true;
        }
        let serial = rate.time_for(DataSize::from_bytes(self.packet));
        serial.as_secs_f64() * part > self.delay.base().as_secs_f64()
    }

    /// Returns the window that holds when a look is over.
    pub(super) fn lasting_window(&self) -> f64 {
        match &self.phase {
            Phase::Drain(drain) => drain.saved,
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
            // At the rate that is tried, or each packet's acknowledgement waits for the next.
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
            is_full: self.is_full(),
            is_pressed: self.is_pressed(),
            is_calm: self.is_calm(),
            enough: self.enough,
            used: self.used().min(self.window),
        }
    }

    fn advance_start(&mut self, sample: &Sample) {
        let signal = self.signal(sample);
        if !signal.is_full {
            // Who was never held up knows what a slow line carries all the same, and does not lay ten packets on it.
            if let Some(room) = self.room_known().filter(|_| self.full_round.is_none()) {
                self.set_window(self.window.min(room.max(self.used())));
            }
            return;
        }
        let is_queued = signal.queueing >= half(self.quiet_limit());
        if is_queued && signal.is_above_target(self.window) {
            // The window may be twice what the path carries, and the rate is that of a round trip ago.
            let carried = self.carried(self.rates.over(ROUNDS)) + signal.packet / DELTA;
            self.set_window(carried.max(self.window / 2.0).min(self.window));
            // Who had something to send all the time of his start has enough, whatever was before he began.
            self.short_round = self
                .short_round
                .filter(|round| round.saturating_add(START_ROUNDS) > self.rounds);
            self.started = self.rounds;
            self.before = None;
            self.phase = Phase::Quiet(Quiet::new(self.window));
        } else {
            self.set_window(self.window + signal.acked);
        }
    }

    fn advance_quiet(&mut self, now: Instant, sample: &Sample, mut quiet: Quiet) {
        let signal = self.signal(sample);
        let limit = self.quiet_limit();
        if !signal.is_calm {
            self.enough = 0.0;
        } else if !signal.is_full {
            self.enough = self.enough.max(self.window);
        }
        let moved = quiet.copa.moved(self.window, signal);
        self.set_window(moved);
        if self.is_short() && self.is_long() {
            // What was left free against bursts of losses is not to go into a queue.
            self.set_window(self.window.min(self.used()));
        }
        if signal.queueing <= limit {
            quiet.was_empty = true;
            quiet.empty_window = self.window;
        }
        if sample.ends_round {
            quiet.copa.handle_round(self.window);
            if quiet.was_empty || !signal.is_full || (self.is_short() && !self.is_long()) {
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
            let lonely = (self.alarms / ALARMS_LONG).min(ALARMS_LONG_MAX);
            BUSY_ROUNDS << (self.alarms.min(ALARMS_MAX) + lonely)
        };
        if quiet.busy_rounds >= rounds && !self.is_queue_own() {
            let saved = quiet.empty_window.max(self.window);
            self.look(now, saved, None);
        }
    }

    fn advance_compete(&mut self, now: Instant, sample: &Sample, mut compete: Compete) {
        let is_full = self.is_full();
        let is_recovering = self.recovery.is_some_and(|since| sample.sent <= since);
        if !is_recovering {
            let growth = Growth {
                now,
                acked: sample.acked.as_bytes() as f64,
                packet: self.packet as f64,
                rtt: self.delay.smooth(),
                is_full,
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
        if sample.ends_round && is_empty && is_full {
            self.phase = Phase::Quiet(Quiet::new(self.window));
        } else if is_full && !is_recovering && compete.is_due(now, self.window) {
            self.look(now, self.window, Some(compete.cubic));
        }
    }

    /// Begins to look who fills the queue.
    fn look(&mut self, now: Instant, saved: f64, cubic: Option<Cubic>) {
        let rate = self.rates.latest();
        self.set_window(self.carried(rate) * SHARE);
        let mut drain = Drain::new(now, saved, [rate, self.rates.over(ROUNDS)], cubic);
        drain.rtt_before = self.delay.standing();
        self.phase = Phase::Drain(drain);
    }

    fn advance_drain(&mut self, now: Instant, sample: &Sample, mut drain: Drain) {
        if drain.is_falling() {
            drain.handle_fall(now, sample, self.packet);
            if sample.rate.is_some() {
                self.set_window(self.carried(drain.rate) * SHARE);
            }
        }
        let fits = self.ledger.in_flight() as f64 <= self.window;
        let base = self.delay.base();
        // By the greatest rate: who is squeezed to two packets on a faster line is not to take others' queue for a wait.
        let waited = if self.takes_part(drain.greatest, SLOW_PART_MOST) {
            self.waited.min(ACK_WAIT_MAX)
        } else {
            Duration::ZERO
        };
        let floor = drain.handle_ack(now, sample, waited, fits, [base, self.delay.smooth()]);
        self.phase = Phase::Drain(drain);
        let Some(floor) = floor else {
            return;
        };
        let limit = self.limit_at(drain.rate);
        let mut is_alone = floor.saturating_sub(base + self.delay.slack()) <= limit;
        if !is_alone && self.has_emptied(&drain, floor) {
            is_alone = true;
            if drain.is_telling(self.packet) {
                // This is what the line takes now, with two packets and nobody else.
                self.delay.rebase(floor);
                self.rate_alone = drain.rate_fallen();
            }
        }
        if is_alone {
            self.floors.clear();
            self.alarms = self.alarms.saturating_add(drain.cubic.is_none().into());
        } else if let Some(base) = self.floors.handle_floor(floor) {
            self.delay.rebase(base);
            is_alone = true;
        }
        if is_alone {
            if self.alarms >= ALARMS_ALONE {
                self.rate_empty = drain.greatest;
            }
            let window = self.carried(drain.rate) + self.packet as f64 / DELTA;
            self.set_window(window.min(drain.saved));
            self.phase = Phase::Quiet(Quiet::new(self.window));
            if drain.cubic.is_some() {
                self.left = Some((now, drain.saved));
            }
            return;
        }
        self.alarms = 0;
        self.rate_alone = Bitrate::ZERO;
        self.rate_empty = Bitrate::ZERO;
        self.compete(now, &drain);
    }

    /// Shares the queue with those who are there.
    fn compete(&mut self, now: Instant, drain: &Drain) {
        let rounds = Duration::from_nanos(self.delay.smooth().as_nanos() * LOOK_ROUNDS);
        let base = self.delay.base();
        let was_deep = drain.rtt_before.saturating_sub(base) >= base;
        let is_unclear = !drain.is_telling(self.packet) && self.is_slow_at(self.rates.over(ROUNDS));
        let is_first = is_unclear || (drain.cubic.is_none() && was_deep && self.is_slow(drain));
        self.unclear = if is_unclear {
            self.unclear.saturating_add(1)
        } else {
            0
        };
        let interval = if is_first {
            let rounds = Duration::from_nanos(base.as_nanos() * LOOK_ROUNDS_FIRST);
            let present = Duration::from_nanos(self.delay.smooth().as_nanos() * 4);
            let least = LOOK_INTERVAL_FIRST.max(rounds).max(present);
            let again = self.unclear.saturating_sub(1).min(UNCLEAR_MAX);
            Duration::from_nanos(least.as_nanos() << again)
        } else {
            LOOK_INTERVAL.max(rounds)
        };
        let mut saved = drain.saved;
        // If the last look was wrong, its price is given back, and the next is later.
        match self.left.take() {
            Some((at, window)) if now.saturating_since(at) < interval => {
                saved = saved.max(window);
                self.mistakes = self.mistakes.saturating_add(1);
            }
            Some(_) => self.mistakes = 0,
            None => {}
        }
        let interval = if is_first {
            interval
        } else {
            Duration::from_nanos(interval.as_nanos() << self.mistakes.min(MISTAKES_MAX))
        };
        // Who has hardly begun and met others does not know his share, and was cut off from finding it by their queue.
        let has_paused = self.short_round.is_some_and(|round| round > self.started);
        let is_new =
            self.rounds - self.started <= NEW_ROUNDS && !has_paused && !self.is_slow(drain);
        let begun = if is_new {
            let round = self.delay.smooth().as_nanos();
            let until = now + Duration::from_nanos(round.saturating_mul(CLIMB_ROUNDS));
            Cubic::below(now, saved, until)
        } else {
            Cubic::new(now, saved)
        };
        let mut cubic = drain.cubic.unwrap_or(begun);
        if drain.cubic.is_some() {
            cubic.skip(now.saturating_since(drain.began));
        }
        self.set_window(saved);
        self.phase = Phase::Compete(Compete {
            cubic,
            look_at: now + interval,
            look_by: if is_first {
                now + interval
            } else {
                now + interval + interval
            },
            is_empty: false,
        });
    }

    /// Returns what the path carries at a rate without a queue.
    pub(super) fn carried(&self, rate: Bitrate) -> f64 {
        (rate * self.delay.base()).as_bytes() as f64
    }
}

impl Compete {
    /// Returns whether it is time to look: when the queue is as full as it gets, for after a loss it may be empty though
    /// others are there.
    fn is_due(&self, now: Instant, window: f64) -> bool {
        now >= self.look_by || (now >= self.look_at && self.cubic.is_back(window))
    }

    /// Takes back what a loss made of the law.
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
