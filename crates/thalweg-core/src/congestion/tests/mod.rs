//! Proves that the controller is total (any sequence of happenings leaves a window within its bounds and no panic), that
//! it neither gains nor loses while the application sends little, and what it does in each phase on a path that is one
//! line of arithmetic. How it fares on real QUIC against others, `thalweg-sim`'s tests show.

mod looks;
mod order;
mod outage;
mod serial;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::cubic::cube_root;
use super::ledger::{Ledger, PACKETS_MAX};
use super::{
    Congestion, CongestionEvent, Controller, Mode, PACING_MAX, PACKETS_MIN, UNPACED, WINDOW_MAX,
};
use crate::random::SplitMix;
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};

const PACKET: DataSize = DataSize::from_bytes(1_200);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A path that delivers at a rate after a delay, and a transport that sends all that it may.
struct Path {
    now: Instant,
    rate: Bitrate,
    rtt: Duration,
    /// Up to how much longer a packet takes; the order is kept unless packets overtake each other.
    jitter: Duration,
    overtakes: bool,
    /// How long the peer waits for a second packet, if one comes alone.
    lone: Duration,
    /// One acknowledgement in so many is told as of when its packet was sent; never if it is zero.
    told_early: u64,
    dice: SplitMix,
    /// When the line is free again.
    free: Instant,
    controller: Controller,
    /// Number, sent, and when its acknowledgement comes.
    flying: VecDeque<(u64, Instant, Instant)>,
    next: u64,
    may_leave: Instant,
    /// What the application has; nothing if it has all that goes.
    has: Option<u64>,
}

impl Path {
    fn new(rate: Bitrate, rtt: Duration) -> Self {
        Self {
            now: Instant::ZERO + ms(1),
            rate,
            rtt,
            jitter: Duration::ZERO,
            overtakes: false,
            lone: Duration::ZERO,
            told_early: 0,
            dice: SplitMix::new(1),
            free: Instant::ZERO,
            controller: Controller::new(PACKET),
            flying: VecDeque::new(),
            next: 0,
            may_leave: Instant::ZERO,
            has: None,
        }
    }

    fn in_flight(&self) -> DataSize {
        DataSize::from_bytes(self.flying.len() as u64 * PACKET.as_bytes())
    }

    fn send(&mut self) {
        loop {
            if self.has == Some(0) || self.may_leave > self.now {
                return;
            }
            if self.in_flight() + PACKET > self.controller.window() {
                self.controller.handle_full();
                return;
            }
            if let Some(left) = &mut self.has {
                *left -= 1;
            }
            self.controller.handle_sent(self.now, self.next, PACKET);
            self.free = self.free.max(self.now) + self.rate.time_for(PACKET);
            let mut arrival = self.free + self.rtt;
            if self.jitter > Duration::ZERO {
                let last = self.flying.back().map_or(Instant::ZERO, |last| last.2);
                let kept = if self.overtakes { Instant::ZERO } else { last };
                arrival = (arrival + self.dice.next_duration(self.jitter)).max(kept);
            }
            let follows = |last: &(u64, Instant, Instant)| last.1 + self.lone > self.now;
            if self.has == Some(0) && !self.flying.back().is_some_and(follows) {
                arrival = arrival + self.lone;
            }
            let at = self.flying.partition_point(|other| other.2 <= arrival);
            self.flying.insert(at, (self.next, self.now, arrival));
            self.next += 1;
            if let Some(pace) = self.controller.pacing_rate() {
                self.may_leave = self.may_leave.max(self.now - ms(1)) + pace.time_for(PACKET);
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.send();
            let ack = self.flying.front().map_or(Instant::NEVER, |first| first.2);
            let pace = if self.may_leave > self.now && self.has != Some(0) {
                self.may_leave
            } else {
                Instant::NEVER
            };
            let next = ack.min(pace);
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            if ack == next
                && let Some((number, sent, _)) = self.flying.pop_front()
            {
                let is_early = number.checked_rem(self.told_early) == Some(0);
                let told = if is_early { sent } else { self.now };
                self.controller.handle_clock(self.now);
                self.controller.handle_ack(told, number, sent, PACKET);
                let is_short = self.has == Some(0);
                let in_flight = self.in_flight();
                self.controller.handle_acks_end(told, in_flight, is_short);
            }
        }
    }

    fn wait(&self) -> Duration {
        self.free.saturating_since(self.now)
    }
}

#[test]
fn a_short_path_is_not_paced_however_late_its_machines_are() {
    for (base, is_paced) in [(UNPACED, false), (UNPACED + Duration::from_micros(1), true)] {
        let mut controller = Controller::new(PACKET);
        assert_eq!(
            controller.pacing_rate(),
            None,
            "before a round trip is known"
        );
        let mut now = Instant::ZERO + ms(100);
        for number in 0..200 {
            // The first comes back at once, the others as they do from who is busy.
            let rtt = if number == 0 { base } else { ms(30) };
            controller.handle_sent(now, number, PACKET);
            controller.handle_ack(now + rtt, number, now, PACKET);
            controller.handle_acks_end(now + rtt, DataSize::ZERO, true);
            now = now + rtt;
            if !is_paced {
                assert_eq!(controller.pacing_rate(), Some(PACING_MAX));
            }
        }
        if is_paced {
            assert!(
                controller
                    .pacing_rate()
                    .is_none_or(|rate| rate < PACING_MAX)
            );
        }
    }
}

#[test]
fn alone_it_finds_the_rate_and_keeps_the_queue_short() {
    for (mbps, rtt) in [(1, 20), (1, 100), (10, 20), (10, 100), (40, 50)] {
        let mut path = Path::new(Bitrate::from_kbps(mbps * 1_000), ms(rtt));
        path.run_for(Duration::from_secs(10));
        let before = path.next;
        let mut longest = Duration::ZERO;
        for _ in 0..100 {
            path.run_for(ms(100));
            longest = longest.max(path.wait());
        }
        let carried = (path.next - before) * PACKET.as_bytes() * 8;
        let share = carried as f64 / (mbps as f64 * 1e6 * 10.0);
        assert!(share > 0.95, "{mbps} Mbit/s, {rtt} ms: {share}");
        let few = path.rate.time_for(DataSize::from_bytes(10 * 1_200));
        let most = ms(rtt / 8 + 3) + few;
        assert!(longest <= most, "{mbps} Mbit/s, {rtt} ms: {longest}");
        let sendable = path.controller.sendable().as_mbps_f64() / mbps as f64;
        assert!((0.85..1.1).contains(&sendable), "{mbps}: {sendable}");
    }
}

#[test]
fn an_acknowledgement_that_is_told_too_early_is_no_shorter_path() {
    for (mbps, rtt) in [(100, 2), (1_000, 2), (10, 20)] {
        let mut path = Path::new(Bitrate::from_kbps(mbps * 1_000), ms(rtt));
        path.told_early = 997;
        path.run_for(Duration::from_secs(1));
        let before = path.next;
        path.run_for(Duration::from_secs(2));
        let carried = (path.next - before) * PACKET.as_bytes() * 8;
        let share = carried as f64 / (mbps as f64 * 1e6 * 2.0);
        assert!(share > 0.9, "{mbps} Mbit/s, {rtt} ms: {share}");
        assert!(path.controller.delay.base() >= ms(rtt), "{mbps} Mbit/s");
    }
}

#[test]
fn a_small_window_is_used_to_the_brim_and_no_other() {
    let brim = DataSize::from_bytes(PACKET.as_bytes() - 1);
    let mut seen = [false; 2];
    for (mbps, is_small) in [(2, true), (10, false)] {
        let mut path = Path::new(Bitrate::from_kbps(mbps * 1_000), ms(20));
        assert_eq!(path.controller.brim(), DataSize::ZERO, "a start");
        for _ in 0..300 {
            path.run_for(ms(50));
            let controller = &path.controller;
            let few = DataSize::from_bytes(8 * PACKET.as_bytes());
            let is_quiet = controller.mode() == Mode::Quiet;
            let expected = is_quiet && controller.window() < few;
            assert_eq!(
                controller.brim(),
                if expected { brim } else { DataSize::ZERO }
            );
            seen[usize::from(is_small)] |= expected == is_small;
        }
    }
    assert_eq!(seen, [true; 2]);
}

#[test]
fn what_is_not_used_is_neither_gained_nor_lost() {
    let mut path = Path::new(Bitrate::from_kbps(10_000), ms(50));
    path.run_for(Duration::from_secs(5));
    let window = path.controller.window();
    let sendable = path.controller.sendable();
    // A tenth of the rate in frames, for a minute.
    for _ in 0..1_800 {
        path.has = Some(3);
        path.run_for(Duration::from_micros(33_333));
    }
    assert_eq!(path.controller.mode(), Mode::Quiet);
    let kept = path.controller.window().as_bytes() as f64 / window.as_bytes() as f64;
    assert!((0.9..1.1).contains(&kept), "{kept}");
    let kept = path.controller.sendable().as_bps() as f64 / sendable.as_bps() as f64;
    assert!((0.9..1.1).contains(&kept), "{kept}");
}

#[test]
fn a_window_that_was_never_full_does_not_grow() {
    let mut path = Path::new(Bitrate::from_kbps(10_000), ms(50));
    let window = path.controller.window();
    for _ in 0..300 {
        path.has = Some(3);
        path.run_for(Duration::from_micros(33_333));
    }
    assert_eq!(path.controller.window(), window);
}

#[test]
fn jitter_is_no_queue_for_who_sends_little() {
    let mut path = Path::new(Bitrate::from_kbps(25_000), ms(28));
    path.jitter = ms(20);
    let mut late = 0;
    for frame in 0..500 {
        // 4 Mbit/s in frames, 25 a second.
        let left = path.has.unwrap_or(0);
        late += u32::from(frame > 25 && left > 0);
        path.has = Some(left + 17);
        path.run_for(ms(40));
    }
    assert!(
        late < 5,
        "{late} of 475 frames had not left before the next"
    );
    // A line that has become slower than what is sent is noticed all the same; without jitter, what waits is the queue.
    path.rate = Bitrate::from_kbps(2_000);
    path.jitter = Duration::ZERO;
    path.has = None;
    path.run_for(Duration::from_secs(2));
    assert!(path.wait() < ms(60), "{}", path.wait());
}

#[test]
fn probes_fill_what_the_application_leaves_and_no_more() {
    let mut path = Path::new(Bitrate::from_kbps(10_000), ms(50));
    let start = path.controller.window();
    let mut most = DataSize::ZERO;
    for _ in 0..600 {
        let probe = path.controller.probe_size();
        most = most.max(probe);
        path.has = Some(3 + probe.as_bytes() / PACKET.as_bytes());
        path.run_for(Duration::from_micros(33_333));
    }
    assert!(path.controller.window() > start + start, "probes were seen");
    assert!(most <= path.controller.window(), "{most}");
    assert!(path.wait() < ms(10), "{}", path.wait());
    let sendable = path.controller.sendable().as_mbps_f64();
    assert!((5.0..11.0).contains(&sendable), "{sendable}");
}

#[test]
fn an_encoder_is_told_when_the_rate_has_moved_and_not_when_it_has_not() {
    let mut path = Path::new(Bitrate::from_kbps(10_000), ms(50));
    path.run_for(Duration::from_secs(5));
    while path.controller.poll_event().is_some() {}
    path.run_for(Duration::from_secs(5));
    assert_eq!(path.controller.poll_event(), None);
    path.rate = Bitrate::from_kbps(2_000);
    path.run_for(Duration::from_secs(3));
    let told = core::iter::from_fn(|| path.controller.poll_event());
    let rates: Vec<_> = told
        .filter_map(|event| match event {
            CongestionEvent::Sendable(rate) => Some(rate.as_mbps_f64()),
            CongestionEvent::Mode(_) => None,
        })
        .collect();
    assert!(
        (1.5..2.5).contains(rates.last().expect("it has moved")),
        "{rates:?}"
    );
}

#[test]
fn a_mark_is_a_congestion_and_a_single_loss_on_an_empty_queue_is_not() {
    let mut path = Path::new(Bitrate::from_kbps(10_000), ms(50));
    path.run_for(Duration::from_secs(5));
    // A moment in which hardly anything waits.
    while path.controller.queueing() > ms(1) {
        path.run_for(ms(1));
    }
    let window = path.controller.window();
    path.controller
        .handle_congestion(path.now, path.now, Congestion::Loss);
    assert_eq!(path.controller.window(), window);
    path.controller
        .handle_congestion(path.now, path.now, Congestion::Mark);
    assert!(path.controller.window() < window);
    let once = path.controller.window();
    path.controller
        .handle_congestion(path.now + ms(1), path.now, Congestion::Mark);
    assert_eq!(path.controller.window(), once, "of the same round trip");
}

#[test]
fn persistent_congestion_leaves_the_least() {
    let mut path = Path::new(Bitrate::from_kbps(10_000), ms(50));
    path.run_for(Duration::from_secs(5));
    path.controller
        .handle_congestion(path.now, path.now, Congestion::Persistent);
    assert_eq!(path.controller.window().as_bytes(), PACKETS_MIN * 1_200);
    path.run_for(Duration::from_secs(5));
    assert!(
        path.controller.sendable() > Bitrate::from_kbps(9_000),
        "it starts again"
    );
}

#[test]
fn a_ledger_is_bounded_and_takes_what_it_does_not_know() {
    let mut ledger = Ledger::default();
    for number in 0..2 * PACKETS_MAX as u64 {
        ledger.handle_sent(Instant::ZERO, number, PACKET);
    }
    assert_eq!(ledger.len(), PACKETS_MAX);
    ledger.handle_ack(Instant::ZERO, 0, Instant::ZERO, PACKET);
    ledger.handle_ack(Instant::ZERO, u64::MAX, Instant::NEVER, PACKET);
    assert!(ledger.end_batch(Instant::ZERO).is_some());
    // Numbers that begin again.
    ledger.handle_sent(Instant::ZERO, 0, PACKET);
    assert_eq!(ledger.len(), 1);
}

#[test]
fn cube_roots_are_exact_to_nine_digits() {
    for power in -3..=9 {
        let root = 1.234_5 * 10f64.powi(power);
        let found = cube_root(root * root * root);
        assert!((found / root - 1.0).abs() < 1e-9, "{root}: {found}");
    }
    assert_eq!(
        (cube_root(0.0), cube_root(-1.0), cube_root(f64::NAN)),
        (0.0, 0.0, 0.0)
    );
}

/// Anything that a transport may say, in any order.
#[derive(Clone, Debug)]
enum Happening {
    Sent(u64, u64),
    Full,
    Ack(u64, u64, u64),
    AcksEnd(u64, bool),
    Lost(u64, u64),
    Congestion(u64, Congestion),
    Spurious,
    Size(u64),
    Clock(u64),
    Pass(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    let number = prop_oneof![0..50u64, any::<u64>()];
    let size = prop_oneof![0..2_000u64, any::<u64>()];
    let time = prop_oneof![0..10_000_000_000u64, any::<u64>()];
    let cause = prop_oneof![
        Just(Congestion::Loss),
        Just(Congestion::Persistent),
        Just(Congestion::Mark)
    ];
    prop_oneof![
        (number.clone(), size.clone()).prop_map(|(n, s)| Happening::Sent(n, s)),
        Just(Happening::Full),
        (number.clone(), time.clone(), size.clone()).prop_map(|(n, t, s)| Happening::Ack(n, t, s)),
        (size.clone(), any::<bool>()).prop_map(|(s, short)| Happening::AcksEnd(s, short)),
        (number, size.clone()).prop_map(|(n, s)| Happening::Lost(n, s)),
        (time, cause).prop_map(|(t, cause)| Happening::Congestion(t, cause)),
        Just(Happening::Spurious),
        size.prop_map(Happening::Size),
        any::<u64>().prop_map(Happening::Clock),
        prop_oneof![0..100_000_000u64, any::<u64>()].prop_map(Happening::Pass),
    ]
}

proptest! {
    #[test]
    fn nothing_that_a_transport_says_breaks_it(happenings in proptest::collection::vec(happening(), 0..300)) {
        let mut now = Instant::ZERO;
        let mut controller = Controller::new(PACKET);
        for happening in happenings {
            match happening {
                Happening::Sent(n, s) => controller.handle_sent(now, n, DataSize::from_bytes(s)),
                Happening::Full => controller.handle_full(),
                Happening::Ack(n, t, s) => {
                    controller.handle_ack(now, n, Instant::from_nanos(t), DataSize::from_bytes(s));
                }
                Happening::AcksEnd(s, short) => {
                    controller.handle_acks_end(now, DataSize::from_bytes(s), short);
                }
                Happening::Lost(n, s) => controller.handle_lost(n, DataSize::from_bytes(s)),
                Happening::Congestion(t, cause) => {
                    controller.handle_congestion(now, Instant::from_nanos(t), cause);
                }
                Happening::Spurious => controller.handle_spurious_loss(),
                Happening::Size(s) => controller.handle_packet_size(DataSize::from_bytes(s)),
                Happening::Clock(t) => controller.handle_clock(Instant::from_nanos(t)),
                Happening::Pass(nanos) => now = now + Duration::from_nanos(nanos),
            }
            let window = controller.window();
            prop_assert!(window.as_bytes() >= PACKETS_MIN * PACKET.as_bytes(), "{window}");
            prop_assert!(window <= WINDOW_MAX, "{window}");
            prop_assert!(controller.pacing_rate().is_none_or(|rate| rate > Bitrate::ZERO));
            let _ = (controller.sendable(), controller.probe_size(), controller.poll_event());
        }
    }
}

#[test]
fn what_a_lone_packet_waits_for_its_acknowledgement_is_no_queue() {
    // The next packet leaves when the acknowledgement has come, or shortly before.
    for (apart, most) in [(150, 1.1), (33, 1.25)] {
        let mut path = Path::new(Bitrate::from_kbps(2_000), ms(20));
        path.lone = ms(28);
        path.run_for(Duration::from_secs(5));
        path.has = Some(0);
        path.run_for(ms(500));
        let window = path.controller.window();
        for _ in 0..20 {
            path.has = Some(1);
            path.run_for(ms(apart));
        }
        let kept = path.controller.window().as_bytes() as f64 / window.as_bytes() as f64;
        // Who is calm may gain a little.
        assert!((0.9..=most).contains(&kept), "{apart} ms: {kept}");
    }
}
