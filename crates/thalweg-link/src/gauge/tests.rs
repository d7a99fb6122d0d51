//! Proves that a link's capacity is announced, per direction and once, and that demand is never
//! mistaken for it.
//!
//! *How.* A link of one rate is offered traffic in steps of 250 ms: what it can carry leaves, with
//! noise, and the rest waits.

use alloc::vec::Vec;

use proptest::prelude::*;
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize, Ratio};

use super::{DOUBT, Gauge, SAMPLE_EVERY, Sample, WINDOW, weigh};

const RTT: Duration = Duration::from_millis(40);

/// A fall by half is announced within this time.
const FALL_ANNOUNCED_MAX: Duration = Duration::from_millis(4_750);

/// Bytes that wait above this are dropped, as deadlines do.
const QUEUE_MAX: u64 = 500_000;

/// One direction of a link, and its gauge.
struct Direction {
    gauge: Gauge,
    now: Instant,
    sent: u64,
    waiting: u64,
    rtt: Duration,
    /// Steps per answer; 0 for no answers.
    pause: u64,
    heard: u64,
    steps: u64,
    rng: SplitMix,
    /// Maximum deviation of rates and round trips, in percent.
    noise: u64,
    /// Bytes that the link could carry in each step.
    carried: Vec<u64>,
}

impl Direction {
    fn new(ceiling: Option<u64>, noise: u64, seed: u64) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let ceiling = ceiling.map(Bitrate::from_kbps);
        Self {
            gauge: Gauge::new(ceiling, sample(0, 0, RTT), now),
            now,
            sent: 0,
            waiting: 0,
            rtt: RTT,
            pause: 1,
            heard: 0,
            steps: 0,
            rng: SplitMix::new(seed),
            noise,
            carried: Vec::new(),
        }
    }

    fn noisy(&mut self, value: u64) -> u64 {
        let percent = 100 - self.noise + self.rng.next_below(2 * self.noise + 1);
        value * percent / 100
    }

    /// Lets time pass at a link rate and an offered load; returns the number of announcements.
    fn pass(&mut self, kbps: u64, offered_kbps: u64, time: Duration) -> usize {
        let steps = time.as_nanos() / SAMPLE_EVERY.as_nanos();
        let bytes = |kbps: u64| kbps * 1_000 / 8 / 4;
        let step = |link: &mut Self| {
            link.now = link.now + SAMPLE_EVERY;
            let carried = link.noisy(bytes(kbps));
            link.carried.push(carried);
            let offered = link.waiting + bytes(offered_kbps);
            let left = offered.min(carried);
            link.sent += left;
            link.waiting = (offered - left).min(QUEUE_MAX);
            link.steps += 1;
            link.heard += u64::from(link.steps.checked_rem(link.pause) == Some(0));
            let rtt = Duration::from_micros(link.noisy(link.rtt.as_micros()));
            let read = Sample {
                heard: link.heard,
                ..sample(link.sent, link.waiting, rtt)
            };
            link.gauge.handle_sample(read, link.now)
        };
        (0..steps).filter(|_| step(self)).count()
    }

    /// Returns the largest relative deviation from the rate over all windows.
    fn off_by(&self, kbps: u64) -> f64 {
        let steps = (WINDOW.as_nanos() / SAMPLE_EVERY.as_nanos()) as usize;
        let due = (kbps * 1_000 / 8 / 4) as f64 * steps as f64;
        let windows = self.carried.windows(steps);
        let off = windows.map(|window| (window.iter().sum::<u64>() as f64 / due - 1.0).abs());
        off.fold(0.0, f64::max)
    }

    fn announced_kbps(&self) -> Option<f64> {
        let rate = self.gauge.told().rate;
        rate.map(|rate| rate.as_bps() as f64 / 1e3)
    }
}

fn sample(sent: u64, waiting: u64, rtt: Duration) -> Sample {
    Sample {
        rtt,
        latest: rtt,
        loss: Ratio::ZERO,
        sent: DataSize::from_bytes(sent),
        waiting: DataSize::from_bytes(waiting),
        heard: 0,
    }
}

const LONG: Duration = Duration::from_secs(60);

proptest! {
    #[test]
    fn noise_is_never_announced_with_configured_rate(
        kbps in 100_u64..50_000, share in 10_u64..300, seed: u64,
    ) {
        let mut link = Direction::new(Some(kbps), 20, seed);
        prop_assert_eq!(link.pass(kbps, kbps * share / 100, LONG), 0);
        prop_assert_eq!(link.announced_kbps(), Some(kbps as f64));
        prop_assert!(!link.gauge.told().is_measured);
    }

    #[test]
    fn noise_is_announced_at_most_once(
        kbps in 100_u64..50_000, share in 130_u64..300, seed: u64,
    ) {
        let mut link = Direction::new(None, 20, seed);
        prop_assert_eq!(link.pass(kbps, kbps * share / 100, LONG), 1);
        // Once in ten thousand cases the noise is a fifth over a whole window: then the link did
        // carry that.
        prop_assume!(link.off_by(kbps) < 0.14);
        let announced = link.announced_kbps().expect("was full");
        prop_assert!((announced / kbps as f64 - 1.0).abs() < 0.15, "{}", announced);
        prop_assert!(link.gauge.told().is_measured);
    }

    #[test]
    fn fall_is_announced_in_time_and_rise_later(kbps in 200_u64..50_000, seed: u64) {
        let mut link = Direction::new(Some(kbps), 20, seed);
        link.pass(kbps, kbps * 9 / 10, Duration::from_secs(10));
        prop_assert_eq!(link.pass(kbps / 2, kbps * 9 / 10, FALL_ANNOUNCED_MAX), 1);
        let announced = link.announced_kbps().expect("is configured");
        prop_assert!((announced / (kbps / 2) as f64 - 1.0).abs() < 0.25, "{}", announced);
        prop_assert!(link.gauge.told().is_measured, "the operator's rate is higher");
        prop_assert_eq!(link.pass(kbps, kbps * 2, Duration::from_secs(10)), 0);
        prop_assert_eq!(link.pass(kbps, kbps * 2, Duration::from_secs(3)), 1);
        let announced = link.announced_kbps().expect("is configured");
        prop_assert!(announced > 0.75 * kbps as f64, "{}", announced);
    }

    #[test]
    fn cut_link_recovers_its_rate(
        kbps in 2_200_u64..50_000, before in 2_u64..20, cut in 2_u64..60, silences in 1_u64..4, seed: u64,
    ) {
        let steps = |count| Duration::from_nanos(SAMPLE_EVERY.as_nanos() * count);
        let mut link = Direction::new(Some(kbps), 10, seed);
        for _ in 0..silences {
            prop_assert_eq!(link.pass(kbps, 2_000, steps(before)), 0);
            // Only the transport's probes leave.
            link.pause = 0;
            prop_assert_eq!(link.pass(30, 2_000, steps(cut)), 0);
            link.pause = 1;
        }
        prop_assert_eq!(link.pass(kbps, 2_000, LONG), 0);
        prop_assert_eq!(link.announced_kbps(), Some(kbps as f64));
        let known = link.gauge.reading().capacity.expect("is configured");
        prop_assert!(known.as_bps() >= kbps * 850, "{}", known.as_bps());
    }

    #[test]
    fn slow_link_with_rare_answers_is_announced(
        kbps in 2_200_u64..50_000, pause in 1_u64..8, seed: u64,
    ) {
        let mut link = Direction::new(Some(kbps), 10, seed);
        link.pass(kbps, 2_000, Duration::from_secs(10));
        // Packets of 1,400 B, each of them answered.
        let slow = 1_400 * 8 / (pause * 250);
        link.pause = pause;
        let first = Duration::from_nanos(SAMPLE_EVERY.as_nanos() * 2 * pause);
        prop_assert_eq!(link.pass(slow, 2_000, FALL_ANNOUNCED_MAX + first), 1);
        let announced = link.announced_kbps().expect("is configured");
        prop_assert!(announced < 2.0 * slow as f64, "{} of {}", announced, slow);
    }

    #[test]
    fn low_demand_lowers_nothing(kbps in 200_u64..50_000, share in 1_u64..70, seed: u64) {
        let mut link = Direction::new(None, 10, seed);
        link.pass(kbps, kbps * 2, Duration::from_secs(20));
        let announced = link.announced_kbps();
        link.waiting = 0;
        prop_assert_eq!(link.pass(kbps, kbps * share / 100, LONG), 0);
        prop_assert_eq!(link.announced_kbps(), announced);
    }

    #[test]
    fn any_samples_are_accepted(
        read in proptest::collection::vec(
            ((any::<u64>(), 0_u64..3), any::<u64>(), any::<u64>(), any::<u64>(), 0.0..=1.0), 0..60,
        ),
    ) {
        let mut gauge = Gauge::new(None, sample(0, 0, Duration::ZERO), Instant::ZERO);
        for ((at, heard), rtt, sent, waiting, loss) in read {
            let now = Instant::from_nanos(at / 4);
            let loss = Ratio::new(loss).expect("a share");
            let rtt = Duration::from_nanos(rtt / 4);
            gauge.handle_sample(Sample { loss, heard, ..sample(sent, waiting, rtt) }, now);
            gauge.handle_timeout(now);
            let _ = (gauge.reading(), gauge.told(), gauge.poll_timeout());
        }
    }
}

#[test]
fn directions_are_measured_separately() {
    let mut there = Direction::new(Some(8_000), 5, 1);
    let mut back = Direction::new(Some(8_000), 5, 2);
    there.pass(8_000, 6_000, LONG);
    back.pass(1_000, 6_000, LONG);
    assert_eq!(there.announced_kbps(), Some(8_000.0));
    let announced = back.announced_kbps().expect("is configured");
    assert!((900.0..1_100.0).contains(&announced), "{announced}");
}

#[test]
fn fallen_link_is_retried_with_doubling_wait() {
    let mut link = Direction::new(Some(4_000), 0, 1);
    let mut patience = DOUBT;
    for _ in 0..4 {
        assert_eq!(link.pass(1_000, 3_000, Duration::from_secs(10)), 1);
        assert_eq!(link.announced_kbps(), Some(1_000.0));
        // The stream takes another path; nothing is left to send.
        link.waiting = 0;
        link.pass(1_000, 0, Duration::from_secs(5));
        let doubt = link.gauge.poll_timeout();
        let waits = doubt.saturating_since(link.now) + Duration::from_secs(5);
        assert!(waits > patience.saturating_sub(Duration::from_secs(2)) && waits <= patience);
        assert!(link.gauge.handle_timeout(doubt));
        assert_eq!(link.announced_kbps(), Some(4_000.0));
        (link.now, patience) = (doubt, patience + patience);
    }
    assert_eq!(link.pass(4_000, 6_000, LONG), 0);
    assert!(link.gauge.poll_timeout().is_never(), "not refuted");
}

#[test]
fn lasting_rtt_change_is_announced() {
    let mut link = Direction::new(Some(4_000), 20, 3);
    assert_eq!(link.pass(4_000, 100, LONG), 0);
    link.rtt = Duration::from_millis(120);
    assert_eq!(link.pass(4_000, 100, Duration::from_secs(1)), 0);
    assert_eq!(link.pass(4_000, 100, Duration::from_secs(4)), 1);
    link.rtt = RTT;
    assert_eq!(link.pass(4_000, 100, Duration::from_secs(9)), 0);
    assert_eq!(link.pass(4_000, 100, Duration::from_secs(4)), 1);
    assert_eq!(link.pass(4_000, 100, LONG), 0);
}

#[test]
fn loss_of_few_packets_is_scaled_down() {
    let share = |share| Ratio::new(share).expect("a share");
    for (lost, packets, weighed) in [
        (3.0, 20, 0.03),
        (20.0, 20, 0.2),
        (1.0, 1, 0.01),
        (0.0, 0, 0.0),
    ] {
        let loss = share(lost / f64::max(1.0, packets as f64));
        let is = weigh(loss, packets).as_f64();
        assert!((is - weighed).abs() < 1e-12, "{lost} of {packets}: {is}");
    }
    for packets in [100, 101, u64::MAX] {
        assert_eq!(weigh(share(0.05), packets), share(0.05));
    }
    assert_eq!(weigh(Ratio::ONE, 100), Ratio::ONE);
}

#[test]
fn headroom_is_capacity_less_use() {
    let mut link = Direction::new(Some(4_000), 0, 1);
    link.pass(4_000, 1_000, LONG);
    let reading = link.gauge.reading();
    assert!(reading.measured.is_none() && reading.capacity == Some(Bitrate::from_kbps(4_000)));
    assert_eq!(reading.headroom, Some(Bitrate::from_kbps(3_000)));
    assert_eq!((reading.rtt, reading.jitter), (RTT, Duration::ZERO));
}

/// An idle link of 20 ms, sampled four times a second as a driver does.
struct Stretched {
    gauge: Gauge,
    now: Instant,
    heard: u64,
    /// Acknowledgement delay, which the smoothed RTT excludes.
    held_back: u64,
    smoothed: f64,
    /// Smoothed RTTs; the driver reads the minimum of the last ten seconds.
    read: Vec<f64>,
    /// Times of announcements since the start.
    announcements: Vec<Duration>,
}

impl Stretched {
    fn new() -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let rtt = Duration::from_millis(20);
        Self {
            gauge: Gauge::new(None, sample(0, 0, rtt), now),
            now,
            heard: 0,
            held_back: 0,
            smoothed: 20.0,
            read: Vec::new(),
            announcements: Vec::new(),
        }
    }

    /// Lets an answer arrive with this round trip.
    fn answer(&mut self, milliseconds: u64) {
        self.heard += 1;
        self.smoothed += (milliseconds as f64 - self.smoothed) / 8.0;
        self.look(milliseconds + self.held_back);
    }

    fn look(&mut self, milliseconds: u64) {
        self.now = self.now + SAMPLE_EVERY;
        self.read.push(self.smoothed);
        let of_late = self.read.iter().rev().take(40);
        let shortest = of_late.copied().fold(f64::INFINITY, f64::min);
        let rtt = Duration::from_secs_f64(shortest / 1e3);
        let read = Sample {
            latest: Duration::from_millis(milliseconds),
            heard: self.heard,
            ..sample(0, 0, rtt)
        };
        if self.gauge.handle_sample(read, self.now) {
            let at = Instant::ZERO + Duration::from_secs(1);
            self.announcements.push(self.now.saturating_since(at));
        }
    }

    /// Lets one answer arrive per `every` samples.
    fn pass(&mut self, milliseconds: u64, every: u64, time: Duration) {
        for step in 0..time.as_nanos() / SAMPLE_EVERY.as_nanos() {
            if step.is_multiple_of(every) {
                self.answer(milliseconds);
            } else {
                self.look(milliseconds);
            }
        }
    }

    fn announced_ms(&self) -> f64 {
        self.gauge.told().rtt.as_secs_f64() * 1e3
    }
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn longer_path_is_announced_before_streams_return() {
    let mut link = Stretched::new();
    link.gauge.handle_silence();
    // The first answers were in flight when the path became longer.
    link.look(20);
    link.answer(410);
    link.pass(806, 4, seconds(8));
    let [announced] = link.announcements[..] else {
        panic!("{:?}", link.announcements);
    };
    assert!(announced < seconds(5), "{announced:?}");
    assert!((770.0..=806.0).contains(&link.announced_ms()));
    // The ten-second minimum is the old RTT at first and then rises: no improvement is announced.
    link.pass(806, 20, LONG + LONG);
    assert!(link.announcements.len() <= 2, "{:?}", link.announcements);
    assert!((770.0..=806.0).contains(&link.announced_ms()));
    // The path is as before.
    let before = link.announcements.len();
    link.pass(20, 1, seconds(9));
    assert_eq!(link.announcements.len(), before);
    link.pass(20, 1, LONG);
    assert!(
        (15.0..=30.0).contains(&link.announced_ms()),
        "{}",
        link.announced_ms()
    );
}

#[test]
fn unchanged_path_is_not_announced() {
    let mut link = Stretched::new();
    link.held_back = 25;
    for _ in 0..5 {
        link.gauge.handle_silence();
        // Answers that waited while the path was down.
        link.look(20);
        link.answer(400);
        link.pass(20, 1, seconds(15));
    }
    assert_eq!(link.announcements, []);
}

#[test]
fn repeated_silence_is_still_announced() {
    let mut link = Stretched::new();
    for _ in 0..6 {
        link.gauge.handle_silence();
        link.pass(806, 1, seconds(1));
    }
    assert!((770.0..=806.0).contains(&link.announced_ms()));
    assert_eq!(link.announcements.len(), 1);
}

#[test]
fn result_is_announced_without_samples() {
    let mut link = Stretched::new();
    link.gauge.handle_silence();
    assert!(link.gauge.poll_timeout().is_never(), "no answer");
    link.look(20);
    link.answer(806);
    let due = link.gauge.poll_timeout();
    assert!(due > link.now && due <= link.now + seconds(3));
    assert!(link.gauge.handle_timeout(due));
    assert!((770.0..=806.0).contains(&link.announced_ms()));
    assert!(link.gauge.poll_timeout().is_never());
}

#[test]
fn early_rtt_is_announced_again_when_settled() {
    // Answers are rare, so the smoothed RTT converges slowly, and there is no silence.
    for every in [2, 4, 8, 20] {
        let mut link = Stretched::new();
        link.pass(806, every, seconds(300));
        let announced = link.announced_ms();
        assert!((730.0..=806.0).contains(&announced), "{every}: {announced}");
        assert!(
            link.announcements.len() <= 8,
            "{every}: {:?}",
            link.announcements
        );
        link.announcements.clear();
        link.pass(20, every, seconds(300));
        let announced = link.announced_ms();
        assert!((15.0..=30.0).contains(&announced), "{every}: {announced}");
        assert!(
            link.announcements.len() <= 8,
            "{every}: {:?}",
            link.announcements
        );
    }
}

#[test]
fn link_full_once_returns_to_unknown() {
    let mut link = Direction::new(None, 0, 1);
    let mut patience = DOUBT;
    for _ in 0..4 {
        assert_eq!(link.pass(200, 400, Duration::from_secs(15)), 1);
        assert_eq!(link.announced_kbps(), Some(200.0));
        link.waiting = 0;
        link.pass(2_000, 0, Duration::from_secs(5));
        let doubt = link.gauge.poll_timeout();
        let waits = doubt.saturating_since(link.now) + Duration::from_secs(5);
        assert!(waits > patience.saturating_sub(Duration::from_secs(2)) && waits <= patience);
        let before = Instant::from_nanos(doubt.as_nanos() - 1);
        assert!(!link.gauge.handle_timeout(before) && link.announced_kbps() == Some(200.0));
        assert!(link.gauge.handle_timeout(doubt) && link.announced_kbps().is_none());
        assert!(link.gauge.poll_timeout().is_never(), "no further retry");
        (link.now, patience) = (doubt, patience + patience);
    }
    // The link carries the load for longer than twice the wait: the next fall is a new one.
    assert_eq!(link.pass(2_000, 400, patience + patience), 0);
    assert_eq!(link.pass(200, 400, Duration::from_secs(15)), 1);
    let waits = link.gauge.poll_timeout().saturating_since(link.now);
    assert!(waits <= DOUBT, "{waits:?}");
}

#[test]
fn better_link_is_tried_before_unknown() {
    let mut link = Direction::new(None, 0, 1);
    assert_eq!(link.pass(1_000, 3_000, Duration::from_secs(20)), 1);
    assert_eq!(link.pass(300, 3_000, Duration::from_secs(20)), 1);
    assert_eq!(link.announced_kbps(), Some(300.0));
    let first = link.gauge.poll_timeout();
    assert!(link.gauge.handle_timeout(first));
    assert_eq!(link.announced_kbps(), Some(1_000.0));
    let second = link.gauge.poll_timeout();
    assert_eq!(second, first + DOUBT);
    assert!(link.gauge.handle_timeout(second) && link.announced_kbps().is_none());
    // Both together count as one trial.
    (link.now, link.waiting) = (second, 0);
    assert_eq!(link.pass(300, 3_000, Duration::from_secs(10)), 1);
    let waits = link.gauge.poll_timeout().saturating_since(link.now);
    assert!(waits > DOUBT && waits <= DOUBT + DOUBT, "{waits:?}");
}

#[test]
fn briefly_full_link_is_not_slow() {
    let mut link = Direction::new(None, 0, 1);
    for _ in 0..4 {
        assert_eq!(link.pass(300, 1_000, Duration::from_secs(3)), 0);
        // Then nothing is sent, and nothing is read.
        (link.now, link.waiting) = (link.gauge.poll_timeout(), 0);
        assert!(!link.gauge.handle_timeout(link.now) && link.announced_kbps().is_none());
    }
    assert_eq!(link.pass(300, 1_000, Duration::from_secs(10)), 1);
    assert_eq!(link.gauge.poll_timeout(), link.now + DOUBT);
}

#[test]
fn full_link_keeps_its_capacity() {
    let mut link = Direction::new(None, 20, 1);
    assert_eq!(link.pass(300, 400, Duration::from_secs(600)), 1);
    assert!(link.gauge.poll_timeout() > link.now + DOUBT - WINDOW);
}

#[test]
fn late_configured_rate_is_announced_at_once() {
    let mut link = Direction::new(Some(8_000), 0, 1);
    link.pass(8_000, 100, Duration::from_secs(4));
    let rate = Bitrate::from_kbps(2_000);
    assert!(link.gauge.set_ceiling(Some(rate)));
    assert_eq!(link.gauge.told().rate, Some(rate));
    assert!(!link.gauge.set_ceiling(Some(rate)));
    assert!(link.gauge.set_ceiling(None));
    assert_eq!(link.gauge.told().rate, None);
}
