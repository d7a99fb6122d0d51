//! Estimates a link's capacity, RTT and loss from existing traffic, and decides when to announce
//! them.
//!
//! *The idea.* Bytes that leave over two seconds equal the path's capacity only while more bytes
//! wait all that time; otherwise they equal the demand. So a **filled** window sets the capacity,
//! up or down, and any other may only raise it. The operator's rate is used until it is refuted,
//! and is an upper bound.
//!
//! While the neighbour acknowledges nothing, only the transport's probes leave, which say nothing
//! about capacity. So a window is evaluated only if there was an answer since the last sample, and
//! a **silence** starts a new window. How long a silence is depends on the link: where one packet
//! takes a second, so does its answer.
//!
//! Announced values are in the node's record, and other nodes plan with them. They change only when
//! the measured value has left a band around them for a while, sooner for the worse than for the
//! better ([`Band`]). So a fluctuation by a fifth is announced at most once. An RTT that was
//! announced during a change is announced once more when it has settled, and after a silence it is
//! measured from new samples.
//!
//! ```text
//! sample each 250 ms ─► window of 2 s ─┬─ bytes waited all the time ─► capacity = what left
//!                                      └─ else ─► capacity = max(capacity, what left)
//! capacity below 3/4 of announced for 2 s + 4 · RTT ─► announced = capacity
//! capacity above 5/4 of announced for 10 s          ─► announced = minimum of the last 5 s
//! ```
//!
//! A link announced as slow is avoided, so no traffic can show its recovery. Without a filled
//! window for [`DOUBT`] the operator's rate is announced again, and after each refutation the wait
//! doubles. The next stream is the probe; a link that stays bad is probed at most five times in the
//! first quarter of an hour and four times an hour later. Without an operator's rate, the largest
//! rate ever measured is announced. If that is no larger, or is not refuted within another
//! [`DOUBT`], the capacity is **unknown** again, as for a link that was never full: the measurement
//! is too old.
//!
//! *What it does not do.* It sends nothing: an idle link's RTT comes from the transport's
//! keep-alives. It measures one direction, from this node to the neighbour; the other end measures
//! its own.
//!
//! *Sources.* docs/concepts/routing.md; RFC 2328 §13 (what is flooded), Cardwell et al., "BBR" (2016),
//! §"application-limited".

mod anew;
mod band;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;

use self::anew::RttAfterSilence;
pub use self::band::Band;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize, Ratio};

use self::band::Settling;

/// Sampling interval; more frequent samples are ignored.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// Length of a rate window: video frame sizes, even key frames, average out over it.
pub const WINDOW: Duration = Duration::from_secs(2);

/// Samples per window at the regular interval, including the one at its start.
const WINDOW_SAMPLES: usize = 9;

/// Upper bound of the remembered silence, in samples, so that a window without an answer always
/// counts as a silence.
const QUIET_MAX: usize = (WINDOW_SAMPLES - 2) / 2;

/// A window is filled if more waits than leaves in this time; a frame that is just leaving does not
/// count.
const FILLED: Duration = Duration::from_millis(50);

/// Samples of a filled window that may find nothing waiting: a task must wake before freed credit
/// is used.
const IDLE_MAX: usize = 1;

/// How long a fall must last, in addition to [`FALL_ROUNDS`]; the transport has found its rate by
/// then.
const FALL_HOLD: Duration = Duration::from_secs(2);

/// Round trips added to [`FALL_HOLD`].
const FALL_ROUNDS: u64 = 4;

/// How long a rise must last.
const RISE_HOLD: Duration = Duration::from_secs(10);

/// How long a change of the loss must last: longer than the ten seconds over which drivers count,
/// so that one packet is no change.
const LOSS_HOLD: Duration = Duration::from_secs(12);

/// A smaller change of the RTT is caused by the scheduler.
const RTT_MARGIN: Duration = Duration::from_millis(5);

/// A smaller change of the loss share is chance.
const LOSS_MARGIN: f64 = 0.03;

/// Smallest denominator of a loss share, in packets. An idle link sends about ten in ten seconds;
/// two late ones among them are no reason to flood a record.
const LOSS_PACKETS: u64 = 100;

/// How long a reduced capacity is kept without a filled window, the first time.
pub const DOUBT: Duration = Duration::from_secs(30);

/// Maximum number of doublings: 16 minutes.
const DOUBLINGS_MAX: u32 = 5;

/// A driver's reading of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The recent minimum RTT, or the smoothed one if that is unknown.
    pub rtt: Duration,
    /// The RTT of the last acknowledged packet, acknowledgement delay included, or the smoothed one
    /// if that is unknown.
    pub latest: Duration,
    /// The recent share of lost packets, from [`weigh`].
    pub loss: Ratio,
    /// All bytes that have left on the link since it is up.
    pub sent: DataSize,
    /// Bytes that wait because the path takes no more (not those that have yet to arrive here), and
    /// bytes dropped for that reason since the last sample.
    pub waiting: DataSize,
    /// A counter that differs whenever the neighbour has acknowledged anything since the last
    /// sample.
    pub heard: u64,
}

/// The current estimates of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Round-trip time.
    pub rtt: Duration,
    /// Mean difference of successive round-trip times.
    pub jitter: Duration,
    /// Share of lost packets.
    pub loss: Ratio,
    /// Measured capacity or the operator's rate; `None` if neither is known.
    pub capacity: Option<Bitrate>,
    /// Measured capacity, even where the operator's rate is lower.
    pub measured: Option<Bitrate>,
    /// Rate that left and arrived over the last window.
    pub used: Bitrate,
    /// Capacity less the rate used.
    pub headroom: Option<Bitrate>,
}

/// The announced values of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// Round-trip time.
    pub rtt: Duration,
    /// Share of lost packets.
    pub loss: Ratio,
    /// Capacity, an even number of bit/s as in the record; `None` if unknown.
    pub rate: Option<Bitrate>,
    /// The rate was measured, and the operator configured none or a higher one.
    pub is_measured: bool,
}

/// Measures one direction of a link, and holds its announced values.
#[derive(Clone, Debug)]
pub struct Gauge {
    /// The operator's rate.
    ceiling: Option<Bitrate>,
    window: VecDeque<Point>,
    heard: u64,
    /// Samples in a row without an answer: since the last answer, and before it.
    quiet: [usize; 2],
    rtt: Duration,
    /// The RTT measurement after a silence.
    rtt_after_silence: Option<RttAfterSilence>,
    jitter_nanos: f64,
    loss: Ratio,
    used: Bitrate,
    /// Measured capacity, unless refuted or too old.
    capacity: Option<Bitrate>,
    /// Largest capacity ever measured: the first to be tried again where the operator configured no
    /// rate.
    best: Option<Bitrate>,
    /// When a reduced capacity is given up next, and the number of doublings so far.
    retry_at: Instant,
    retries: u32,
    /// When a reduced capacity was last given up.
    retried: Option<Instant>,
    announced_rtt: Band,
    /// Final value of an RTT that was announced during a change.
    settling: Settling,
    announced_loss: Band,
    /// Infinite while unknown.
    announced_rate: Band,
}

/// A sample of the window.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Instant,
    sent: DataSize,
    waiting: DataSize,
}

impl Gauge {
    /// Returns the gauge of a link that is up since `now`, with the operator's rate.
    pub fn new(ceiling: Option<Bitrate>, sample: Sample, now: Instant) -> Self {
        let mut gauge = Self {
            ceiling,
            window: VecDeque::with_capacity(WINDOW_SAMPLES),
            heard: sample.heard,
            quiet: [0; 2],
            rtt: sample.rtt,
            rtt_after_silence: None,
            jitter_nanos: 0.0,
            loss: sample.loss,
            used: Bitrate::ZERO,
            capacity: None,
            best: None,
            retry_at: Instant::NEVER,
            retries: 0,
            retried: None,
            announced_rtt: Band::new(sample.rtt.as_secs_f64()),
            settling: Settling::default(),
            announced_loss: Band::new(sample.loss.as_f64()),
            announced_rate: band_of(ceiling),
        };
        gauge.push(sample, now);
        gauge
    }

    /// Replaces the operator's rate; returns whether the announced rate changes.
    pub fn set_ceiling(&mut self, ceiling: Option<Bitrate>) -> bool {
        let before = self.told().rate;
        self.ceiling = ceiling;
        self.announced_rate = band_of(self.reading().capacity);
        self.told().rate != before
    }

    /// Takes in a sample; returns whether an announced value changes.
    ///
    /// Cost    O(samples of a window), no allocation once warm
    pub fn handle_sample(&mut self, sample: Sample, now: Instant) -> bool {
        let last = self.window.back();
        // Timers are shared, so a sample may come a little early.
        let soon = SAMPLE_EVERY.as_nanos() * 3 / 4;
        if last.is_some_and(|last| now.saturating_since(last.at).as_nanos() < soon) {
            return false;
        }
        let measurement = self.rtt_after_silence.as_mut();
        if measurement.is_some_and(|it| it.handle_sample(&sample, now)) {
            self.rtt_after_silence = None;
        }
        // After a silence the ten-second minimum may still be that of the old path.
        let least = self
            .rtt_after_silence
            .as_ref()
            .map_or(Duration::ZERO, RttAfterSilence::least);
        let rtt = sample.rtt.max(least);
        let step = rtt.as_secs_f64() - self.rtt.as_secs_f64();
        // RFC 3550 §6.4.1: a sixteenth of each difference.
        self.jitter_nanos += (step.max(-step) * 1e9 - self.jitter_nanos) / 16.0;
        (self.rtt, self.loss) = (rtt, sample.loss);
        self.handle_answers(sample.heard);
        self.push(sample, now);
        self.measure(now);
        let is_longer = self.announce_rtt_after_silence(now);
        self.announce_changes(now) | is_longer
    }

    /// Takes in that the neighbour is silent: the path may have become longer, so the RTT is
    /// measured from new samples.
    pub fn handle_silence(&mut self) {
        self.rtt_after_silence
            .get_or_insert_default()
            .handle_silence();
    }

    /// Restores a slow link's former capacity or sets it to unknown, and announces the RTT after a
    /// silence, when due; returns whether an announced value changes.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        self.announce_rtt_after_silence(now) | self.retry_former_capacity(now)
    }

    fn retry_former_capacity(&mut self, now: Instant) -> bool {
        if now < self.retry_at {
            return false;
        }
        self.retry_at = Instant::NEVER;
        let before = self.told().rate;
        let is_recent = |at: Instant| now < at + DOUBT + DOUBT;
        // A capacity that was never announced is no fall, and one at its recorded maximum was
        // already counted as a trial.
        let is_first = before.is_some() && !self.retried.is_some_and(is_recent);
        if self.ceiling.is_some() || is_first {
            self.retries = (self.retries + 1).min(DOUBLINGS_MAX);
            self.retried = Some(now);
        }
        let known = self.capacity;
        // Without an operator's rate, the largest rate ever measured is tried if it is clearly
        // higher.
        let is_more = |best: &Bitrate| known.is_some_and(|known| is_low(known, *best));
        self.capacity = self.best.filter(|_| self.ceiling.is_none());
        self.capacity = self.capacity.filter(is_more);
        if self.capacity.is_some() {
            self.retry_at = now + DOUBT;
        }
        self.announced_rate = band_of(self.reading().capacity);
        self.told().rate != before
    }

    /// Returns when [`Gauge::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Instant {
        let measurement = self
            .rtt_after_silence
            .as_ref()
            .map(RttAfterSilence::poll_timeout);
        self.retry_at.min(measurement.unwrap_or(Instant::NEVER))
    }

    /// Returns the current estimates.
    pub fn reading(&self) -> Reading {
        let capacity = match (self.capacity, self.ceiling) {
            (Some(measured), Some(ceiling)) => Some(measured.min(ceiling)),
            (measured, ceiling) => measured.or(ceiling),
        };
        let headroom = |rate: Bitrate| rate.as_bps().saturating_sub(self.used.as_bps());
        Reading {
            rtt: self.rtt,
            jitter: Duration::from_nanos(self.jitter_nanos as u64),
            loss: self.loss,
            capacity,
            measured: self.capacity,
            used: self.used,
            headroom: capacity.map(|rate| Bitrate::from_bps(headroom(rate))),
        }
    }

    /// Returns the operator's rate.
    pub const fn ceiling(&self) -> Option<Bitrate> {
        self.ceiling
    }

    /// Returns the announced values.
    pub fn told(&self) -> Told {
        let rate = self.announced_rate.told();
        let rate = rate.is_finite().then(|| Bitrate::from_bps(rate as u64));
        let is_below = |ceiling: Bitrate| rate.is_some_and(|rate| rate < ceiling);
        Told {
            rtt: Duration::from_secs_f64(self.announced_rtt.told()),
            loss: Ratio::new(self.announced_loss.told()).unwrap_or(Ratio::ONE),
            // The record uses the lowest bit for `is_measured`.
            rate: rate.map(|rate| Bitrate::from_bps(rate.as_bps() & !1)),
            is_measured: self.ceiling.map_or(rate.is_some(), is_below),
        }
    }

    /// Takes in the answer counter; an answer after a silence clears the window.
    fn handle_answers(&mut self, heard: u64) {
        let [quiet, before] = self.quiet;
        if core::mem::replace(&mut self.heard, heard) == heard {
            self.quiet[0] = quiet.saturating_add(1);
            return;
        }
        self.quiet = [0, quiet.min(QUIET_MAX)];
        // Regular answers are at most twice as many samples apart as the previous ones.
        if quiet > 2 * before + 1 {
            self.window.clear();
        }
    }

    fn push(&mut self, sample: Sample, now: Instant) {
        // Samples from before a pause say nothing about now.
        if self
            .window
            .back()
            .is_some_and(|last| now.saturating_since(last.at) >= WINDOW)
        {
            self.window.clear();
        }
        while self.window.len() >= WINDOW_SAMPLES {
            self.window.pop_front();
        }
        self.window.push_back(Point {
            at: now,
            sent: sample.sent,
            waiting: sample.waiting,
        });
    }

    /// Updates the capacity from the window.
    fn measure(&mut self, now: Instant) {
        let (Some(first), Some(last)) = (self.window.front(), self.window.back()) else {
            return;
        };
        let over = last.at.saturating_since(first.at);
        // With fewer samples than the time requires, a pause would count as filled.
        if over < Duration::from_nanos(WINDOW.as_nanos() * 3 / 4) || self.window.len() < 6 {
            return;
        }
        let left = last.sent.saturating_sub(first.sent) / over;
        // Lost packets have left, but did not arrive.
        let arrived = left.as_bps() as f64 * (1.0 - self.loss.as_f64());
        self.used = Bitrate::from_bps(arrived as u64);
        // Whether the neighbour is there at all is decided by `pulse`.
        if self.used == Bitrate::ZERO || self.quiet[0] > 0 {
            return;
        }
        let enough = self.used * FILLED;
        let idle = self.window.iter().filter(|point| point.waiting <= enough);
        // Bytes wait now, and did at all other samples but `IDLE_MAX`.
        let is_filled = last.waiting > enough && idle.count() <= IDLE_MAX;
        if is_filled {
            self.capacity = Some(self.used);
            self.best = self.best.max(Some(self.used));
            self.schedule_retry(now);
        } else if self.capacity.is_some_and(|known| self.used > known) {
            self.capacity = Some(self.used);
            self.best = self.best.max(Some(self.used));
        }
    }

    /// Schedules the end of the capacity just measured if it is below the operator's rate; without
    /// such a rate any capacity may be too low.
    fn schedule_retry(&mut self, now: Instant) {
        match self.ceiling {
            Some(ceiling) if !is_low(self.used, ceiling) => {
                self.retry_at = Instant::NEVER;
                self.retries = 0;
                return;
            }
            // Not refuted for twice the wait: the last trial succeeded.
            None if self
                .retried
                .is_none_or(|at| at + self.patience() + self.patience() < now) =>
            {
                self.retries = 0;
            }
            _ => {}
        }
        self.retry_at = now + self.patience();
    }

    /// Returns how long a capacity is kept without a filled window.
    const fn patience(&self) -> Duration {
        Duration::from_nanos(DOUBT.as_nanos() << self.retries)
    }

    /// Moves the announced values to the measured ones where a difference has lasted.
    fn announce_changes(&mut self, now: Instant) -> bool {
        let rounds = Duration::from_nanos(self.rtt.as_nanos().saturating_mul(FALL_ROUNDS));
        let fall = FALL_HOLD + rounds;
        let mut has_changed = false;
        if self.capacity.is_some()
            && let Some(capacity) = self.reading().capacity
        {
            let announced = self.announced_rate.told();
            let bounds = [announced * 0.75, announced * 1.25];
            let (rate, holds) = (capacity.as_bps() as f64, [fall, RISE_HOLD]);
            has_changed |= self.announced_rate.handle_value(rate, bounds, holds, now);
        }
        has_changed |= self.announce_rtt(fall, now);
        let announced = self.announced_loss.told();
        let margin = (announced / 2.0).max(LOSS_MARGIN);
        let bounds = [announced - margin, announced + margin];
        let loss = self.loss.as_f64();
        has_changed |= self
            .announced_loss
            .handle_value(loss, bounds, [LOSS_HOLD; 2], now);
        has_changed
    }

    /// Does the same for the RTT, where larger is worse.
    fn announce_rtt(&mut self, fall: Duration, now: Instant) -> bool {
        let (rtt, bounds) = (self.rtt.as_secs_f64(), self.rtt_bounds());
        let holds = [RISE_HOLD, fall];
        if self.announced_rtt.handle_value(rtt, bounds, holds, now) {
            self.settling = Settling::begin(rtt, now);
            return true;
        }
        let settled = self.settling.handle_value(rtt, bounds, RISE_HOLD, now);
        self.announced_rtt = settled.map_or(self.announced_rtt, Band::new);
        settled.is_some()
    }

    /// Announces the RTT measured after a silence, if it is due.
    fn announce_rtt_after_silence(&mut self, now: Instant) -> bool {
        let measurement = self.rtt_after_silence.as_mut();
        let Some(least) = measurement.and_then(|it| it.handle_timeout(now)) else {
            return false;
        };
        let (least, [_, high]) = (least.as_secs_f64(), self.rtt_bounds());
        if least > high {
            self.announced_rtt = Band::new(least);
            self.settling = Settling::begin(least, now);
        }
        least > high
    }

    /// Returns the bounds of the band around the announced RTT.
    fn rtt_bounds(&self) -> [f64; 2] {
        let (announced, margin) = (self.announced_rtt.told(), RTT_MARGIN.as_secs_f64());
        [announced * 0.75 - margin, announced * 1.25 + margin]
    }
}

/// Returns a loss share for a [`Sample`]: reduced if measured over few packets.
pub fn weigh(loss: Ratio, packets: u64) -> Ratio {
    let share = packets.min(LOSS_PACKETS) as f64 / LOSS_PACKETS as f64;
    // The product of two shares is a share.
    Ratio::new(loss.as_f64() * share).unwrap_or(loss)
}

/// Returns whether a rate is below 3/4 of the expected one: more than a fluctuation by a fifth.
const fn is_low(rate: Bitrate, should: Bitrate) -> bool {
    rate.as_bps().saturating_mul(4) < should.as_bps().saturating_mul(3)
}

/// Returns the band of an announced rate, infinite if unknown.
fn band_of(rate: Option<Bitrate>) -> Band {
    Band::new(rate.map_or(f64::INFINITY, |rate| rate.as_bps() as f64))
}
