//! What a link carries, found out from the traffic that is there anyway, and when that is worth telling.
//!
//! *The idea.* What leaves over two seconds says what the path carries only while more waits all that time; otherwise it
//! says what was asked of it. So a **filled** window sets the capacity, up or down, and any other may only raise it. What the
//! operator says is believed until it is refuted, and is never exceeded.
//!
//! While the neighbour acknowledges nothing, what leaves are the probes of the transport, and they say nothing of what the path
//! carries when it carries anything. So a window is looked at only when there was an answer since the last sample, and after
//! a **silence** a new one begins. How long that is depends on the link: where one packet takes a second, so does its answer.
//!
//! What is told stands in the node's record, and others plan by it. It changes only when the measured value has left a band
//! around it for a while; worse is told sooner than better ([`Band`]). So what trembles by a fifth is told once. A round trip that
//! was told while it changed is told once more when it has settled, and that of a link that was silent is measured anew.
//!
//! ```text
//! sample each 250 ms ─► window of 2 s ─┬─ something waited all the time ─► capacity = what left
//!                                      └─ else ─► capacity = max(capacity, what left)
//! capacity below 3/4 of what is told for 2 s + 4 · RTT ─► told = capacity
//! capacity above 5/4 of what is told for 10 s          ─► told = the least of the last 5 s
//! ```
//!
//! A link that was told to be slow is avoided, so nothing is sent that could show it mended. It is taken at its old word
//! again after [`DOUBT`] without a filled window, and each time that this is refuted, after twice as long: the next stream is
//! the probe, and on a link that stays bad there are at most five of them in the first quarter of an hour and four an hour after.
//! Where the operator says nothing, its old word is the most that was ever measured; if that is no more, or is not refuted for
//! [`DOUBT`] either, what it carries is **unknown** again, as of a link that was never full: what was measured is long ago.
//!
//! *What it does not do.* It sends nothing: an idle link's round trip is that of the transport's own keep-alives. It knows one
//! direction, from this node to the other; the other end measures its own.
//!
//! *Sources.* docs/routing.md; RFC 2328 §13 (what is flooded), Cardwell et al., "BBR" (2016), §"application-limited".

mod anew;
mod band;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;

use self::anew::Anew;
pub use self::band::Band;
use self::band::Settling;
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize, Ratio};

/// How often a sample is worth taking; more often changes nothing.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// Over how long a rate is taken: the frames of a video, its key frames apart, are even over it.
pub const WINDOW: Duration = Duration::from_secs(2);

/// Samples of a window, with the one that it begins at, if they come as often as they should.
const WINDOW_SAMPLES: usize = 9;

/// So many samples without an answer are remembered at most, so that a window without one is a silence whatever was before.
const QUIET_MAX: usize = (WINDOW_SAMPLES - 2) / 2;

/// What waits fills the path if it is at least what leaves in this time: a frame that is just leaving does not count.
const FILLED: Duration = Duration::from_millis(50);

/// So many samples of a filled window may find nothing waiting: between room and its use there is a task to be woken.
const IDLE_MAX: usize = 1;

/// How long a fall must last to be told, with [`FALL_ROUNDS`]: a transport has found its rate by then.
const FALL_HOLD: Duration = Duration::from_secs(2);

/// The round trips that are added to [`FALL_HOLD`].
const FALL_ROUNDS: u64 = 4;

/// How long a rise must last to be told.
const RISE_HOLD: Duration = Duration::from_secs(10);

/// How long a change of losses must last: longer than the ten seconds over which drivers count them, so that one packet is
/// no change.
const LOSS_HOLD: Duration = Duration::from_secs(12);

/// A change of the round trip below this is a scheduler's, not a path's.
const RTT_MARGIN: Duration = Duration::from_millis(5);

/// A change of the share of lost packets below this is chance.
const LOSS_MARGIN: f64 = 0.03;

/// Of fewer packets than this, what was lost is a share of so many: a link at rest sends some ten in ten seconds, and two of them
/// that come late are no news to a whole network.
const LOSS_PACKETS: u64 = 100;

/// How long a capacity that has fallen is believed without a filled window, the first time.
pub const DOUBT: Duration = Duration::from_secs(30);

/// How often that is doubled at most: 16 minutes.
const DOUBLINGS_MAX: u32 = 5;

/// What a driver reads off a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The shortest round trip of late, or the smoothed one where that is not known.
    pub rtt: Duration,
    /// The round trip of the last packet that was acknowledged, with what its acknowledgement was held back, or the smoothed one
    /// where that is not known.
    pub latest: Duration,
    /// The share of packets lost of late, as [`weigh`] has it.
    pub loss: Ratio,
    /// All bytes that have left on it since it is up.
    pub sent: DataSize,
    /// What is to be sent over it and waits because its path takes no more, not what has yet to arrive here; and what was given up
    /// for the same reason since the sample before.
    pub waiting: DataSize,
    /// Another number whenever the neighbour has acknowledged anything since the last.
    pub heard: u64,
}

/// What is known of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The round trip.
    pub rtt: Duration,
    /// How far a round trip is from the one before, in the mean.
    pub jitter: Duration,
    /// The share of packets lost.
    pub loss: Ratio,
    /// What it carries: measured, or what the operator says; none if neither is known.
    pub capacity: Option<Bitrate>,
    /// What it was measured to carry, also where the operator says less.
    pub measured: Option<Bitrate>,
    /// What left over the last window.
    pub used: Bitrate,
    /// What is left of the capacity.
    pub headroom: Option<Bitrate>,
}

/// What others are told of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// The round trip.
    pub rtt: Duration,
    /// The share of packets lost.
    pub loss: Ratio,
    /// What it carries, in even numbers of bits a second, as a record has it; none if it is not known.
    pub rate: Option<Bitrate>,
    /// Whether that was measured, and the operator says nothing or more.
    pub is_measured: bool,
}

/// Measures one direction of a link, and holds what is told of it.
#[derive(Clone, Debug)]
pub struct Gauge {
    /// What the operator says it carries.
    ceiling: Option<Bitrate>,
    window: VecDeque<Point>,
    heard: u64,
    /// How many samples in a row found no answer, now and before the last answer.
    quiet: [usize; 2],
    rtt: Duration,
    /// The round trip since a silence.
    anew: Option<Anew>,
    jitter_nanos: f64,
    loss: Ratio,
    used: Bitrate,
    /// What was measured, if that is not refuted or out of date.
    capacity: Option<Bitrate>,
    /// The most that was ever measured: what it comes back to first where the operator says nothing.
    best: Option<Bitrate>,
    /// When a capacity that has fallen is doubted, and how often it was already.
    doubt: Instant,
    doubts: u32,
    /// When it was doubted last.
    doubted: Option<Instant>,
    told_rtt: Band,
    /// Where a round trip has led that was told while it changed.
    settling: Settling,
    told_loss: Band,
    /// Without bound while it is not known.
    told_rate: Band,
}

/// A sample of the window.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Instant,
    sent: DataSize,
    waiting: DataSize,
}

impl Gauge {
    /// Returns the gauge of a link that is up since now, with what its operator says it carries.
    pub fn new(ceiling: Option<Bitrate>, sample: Sample, now: Instant) -> Self {
        let mut gauge = Self {
            ceiling,
            window: VecDeque::with_capacity(WINDOW_SAMPLES),
            heard: sample.heard,
            quiet: [0; 2],
            rtt: sample.rtt,
            anew: None,
            jitter_nanos: 0.0,
            loss: sample.loss,
            used: Bitrate::ZERO,
            capacity: None,
            best: None,
            doubt: Instant::NEVER,
            doubts: 0,
            doubted: None,
            told_rtt: Band::new(sample.rtt.as_secs_f64()),
            settling: Settling::default(),
            told_loss: Band::new(sample.loss.as_f64()),
            told_rate: band_of(ceiling),
        };
        gauge.push(sample, now);
        gauge
    }

    /// Takes in what the operator says now that the link carries; returns whether others are to be told something else.
    pub fn set_ceiling(&mut self, ceiling: Option<Bitrate>) -> bool {
        let before = self.told().rate;
        self.ceiling = ceiling;
        self.told_rate = band_of(self.reading().capacity);
        self.told().rate != before
    }

    /// Takes in a sample; returns whether others are to be told something else.
    ///
    /// Cost    O(samples of a window), no allocation once warm
    pub fn handle_sample(&mut self, sample: Sample, now: Instant) -> bool {
        let last = self.window.back();
        // A sample may come a little early, for timers are shared.
        let soon = SAMPLE_EVERY.as_nanos() * 3 / 4;
        if last.is_some_and(|last| now.saturating_since(last.at).as_nanos() < soon) {
            return false;
        }
        let anew = self.anew.as_mut();
        if anew.is_some_and(|anew| anew.handle_sample(&sample, now)) {
            self.anew = None;
        }
        let least = self.anew.as_ref().map_or(Duration::ZERO, Anew::least);
        let rtt = sample.rtt.max(least);
        let step = rtt.as_secs_f64() - self.rtt.as_secs_f64();
        // RFC 3550 §6.4.1: a sixteenth of each difference.
        self.jitter_nanos += (step.max(-step) * 1e9 - self.jitter_nanos) / 16.0;
        (self.rtt, self.loss) = (rtt, sample.loss);
        self.listen(sample.heard);
        self.push(sample, now);
        self.measure(now);
        let is_longer = self.tell_anew(now);
        self.tell(now) | is_longer
    }

    /// Takes in that the neighbour does not answer: the path may have become longer, so it is measured anew, and told at once.
    pub fn handle_silence(&mut self) {
        self.anew.get_or_insert_default().handle_silence();
    }

    /// Takes a link that was told to be slow at its old word again, or what it carries for unknown, and tells how long one has become
    /// that was silent, if it is time; returns whether others are to be told.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        self.tell_anew(now) | self.take_at_old_word(now)
    }

    fn take_at_old_word(&mut self, now: Instant) -> bool {
        if now < self.doubt {
            return false;
        }
        self.doubt = Instant::NEVER;
        let before = self.told().rate;
        let is_tried = |at: Instant| now < at + DOUBT + DOUBT;
        // What was never told is no fall, and what is taken for the most that it ever carried was doubted already.
        let is_first = before.is_some() && !self.doubted.is_some_and(is_tried);
        if self.ceiling.is_some() || is_first {
            self.doubts = (self.doubts + 1).min(DOUBLINGS_MAX);
            self.doubted = Some(now);
        }
        let known = self.capacity;
        let is_more = |best: &Bitrate| known.is_some_and(|known| is_low(known, *best));
        self.capacity = self.best.filter(|_| self.ceiling.is_none());
        self.capacity = self.capacity.filter(is_more);
        if self.capacity.is_some() {
            self.doubt = now + DOUBT;
        }
        self.told_rate = band_of(self.reading().capacity);
        self.told().rate != before
    }

    /// Returns when [`Gauge::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Instant {
        let anew = self.anew.as_ref().map(Anew::poll_timeout);
        self.doubt.min(anew.unwrap_or(Instant::NEVER))
    }

    /// Returns what is known now.
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

    /// Returns what the operator says it carries.
    pub const fn ceiling(&self) -> Option<Bitrate> {
        self.ceiling
    }

    /// Returns what others are told.
    pub fn told(&self) -> Told {
        let rate = self.told_rate.told();
        let rate = rate.is_finite().then(|| Bitrate::from_bps(rate as u64));
        let is_below = |ceiling: Bitrate| rate.is_some_and(|rate| rate < ceiling);
        Told {
            rtt: Duration::from_secs_f64(self.told_rtt.told()),
            loss: Ratio::new(self.told_loss.told()).unwrap_or(Ratio::ONE),
            rate: rate.map(|rate| Bitrate::from_bps(rate.as_bps() & !1)),
            is_measured: self.ceiling.map_or(rate.is_some(), is_below),
        }
    }

    /// Takes in whether there was an answer since the last sample; what lies before one that was long in coming is forgotten.
    fn listen(&mut self, heard: u64) {
        let [quiet, before] = self.quiet;
        if core::mem::replace(&mut self.heard, heard) == heard {
            self.quiet[0] = quiet.saturating_add(1);
            return;
        }
        self.quiet = [0, quiet.min(QUIET_MAX)];
        // Answers that come evenly are up to twice as many samples apart as they were before.
        if quiet > 2 * before + 1 {
            self.window.clear();
        }
    }

    fn push(&mut self, sample: Sample, now: Instant) {
        // After a pause the samples of before say nothing of now.
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

    /// Draws from the window what it says of the capacity.
    fn measure(&mut self, now: Instant) {
        let (Some(first), Some(last)) = (self.window.front(), self.window.back()) else {
            return;
        };
        let over = last.at.saturating_since(first.at);
        // A window of fewer samples than its time is worth would call a pause full.
        if over < Duration::from_nanos(WINDOW.as_nanos() * 3 / 4) || self.window.len() < 6 {
            return;
        }
        let left = last.sent.saturating_sub(first.sent) / over;
        let arrived = left.as_bps() as f64 * (1.0 - self.loss.as_f64());
        self.used = Bitrate::from_bps(arrived as u64);
        // Whether somebody is there is for the pulse to find out.
        if self.used == Bitrate::ZERO || self.quiet[0] > 0 {
            return;
        }
        let enough = self.used * FILLED;
        let idle = self.window.iter().filter(|point| point.waiting <= enough);
        let is_filled = last.waiting > enough && idle.count() <= IDLE_MAX;
        if is_filled {
            self.capacity = Some(self.used);
            self.best = self.best.max(Some(self.used));
            self.doubt_later(now);
        } else if self.capacity.is_some_and(|known| self.used > known) {
            self.capacity = Some(self.used);
            self.best = self.best.max(Some(self.used));
        }
    }

    /// Says when the capacity that was just measured is doubted, if it is less than it should be: where nobody says what that is,
    /// any may be.
    fn doubt_later(&mut self, now: Instant) {
        match self.ceiling {
            Some(ceiling) if !is_low(self.used, ceiling) => {
                self.doubt = Instant::NEVER;
                self.doubts = 0;
                return;
            }
            // Whom nothing has refuted for so long did not fail when it was tried.
            None if self
                .doubted
                .is_none_or(|at| at + self.patience() + self.patience() < now) =>
            {
                self.doubts = 0;
            }
            _ => {}
        }
        self.doubt = now + self.patience();
    }

    /// Returns how long a capacity is believed without a filled window.
    const fn patience(&self) -> Duration {
        Duration::from_nanos(DOUBT.as_nanos() << self.doubts)
    }

    /// Moves what is told after what was measured, where that has lasted.
    fn tell(&mut self, now: Instant) -> bool {
        let rounds = Duration::from_nanos(self.rtt.as_nanos().saturating_mul(FALL_ROUNDS));
        let fall = FALL_HOLD + rounds;
        let mut is_news = false;
        if self.capacity.is_some()
            && let Some(capacity) = self.reading().capacity
        {
            let told = self.told_rate.told();
            let bounds = [told * 0.75, told * 1.25];
            let (rate, holds) = (capacity.as_bps() as f64, [fall, RISE_HOLD]);
            is_news |= self.told_rate.handle_value(rate, bounds, holds, now);
        }
        is_news |= self.tell_rtt(fall, now);
        let told = self.told_loss.told();
        let margin = (told / 2.0).max(LOSS_MARGIN);
        let bounds = [told - margin, told + margin];
        let loss = self.loss.as_f64();
        is_news |= self
            .told_loss
            .handle_value(loss, bounds, [LOSS_HOLD; 2], now);
        is_news
    }

    /// The same of the round trip, of which what is larger is worse.
    fn tell_rtt(&mut self, fall: Duration, now: Instant) -> bool {
        let (rtt, bounds) = (self.rtt.as_secs_f64(), self.rtt_bounds());
        let holds = [RISE_HOLD, fall];
        if self.told_rtt.handle_value(rtt, bounds, holds, now) {
            self.settling = Settling::begin(rtt, now);
            return true;
        }
        let settled = self.settling.handle_value(rtt, bounds, RISE_HOLD, now);
        self.told_rtt = settled.map_or(self.told_rtt, Band::new);
        settled.is_some()
    }

    /// Tells how long a link has become that was silent, if it is time.
    fn tell_anew(&mut self, now: Instant) -> bool {
        let anew = self.anew.as_mut();
        let Some(least) = anew.and_then(|anew| anew.handle_timeout(now)) else {
            return false;
        };
        let (least, [_, high]) = (least.as_secs_f64(), self.rtt_bounds());
        if least > high {
            self.told_rtt = Band::new(least);
            self.settling = Settling::begin(least, now);
        }
        least > high
    }

    /// Returns the bounds of the band around the round trip that was told.
    fn rtt_bounds(&self) -> [f64; 2] {
        let (told, margin) = (self.told_rtt.told(), RTT_MARGIN.as_secs_f64());
        [told * 0.75 - margin, told * 1.25 + margin]
    }
}

/// Returns the share of packets lost as a gauge wants it, from that of so many: of few it says little.
pub fn weigh(loss: Ratio, packets: u64) -> Ratio {
    let share = packets.min(LOSS_PACKETS) as f64 / LOSS_PACKETS as f64;
    // Of a share a share is one.
    Ratio::new(loss.as_f64() * share).unwrap_or(loss)
}

/// Returns whether a rate is less than a link should carry, by more than one that trembles by a fifth.
const fn is_low(rate: Bitrate, should: Bitrate) -> bool {
    rate.as_bps().saturating_mul(4) < should.as_bps().saturating_mul(3)
}

/// Returns a rate as it is told, without bound if it is not known.
fn band_of(rate: Option<Bitrate>) -> Band {
    Band::new(rate.map_or(f64::INFINITY, |rate| rate.as_bps() as f64))
}
