//! Proves that the controller is total (any sequence of inputs leaves a window within its bounds
//! and no panic), that an app-limited flow keeps its window, and what each phase does on a path
//! that is one line of arithmetic. How the controller fares on real QUIC against other flows,
//! `thalweg-sim`'s tests show.

mod looks;
mod order;
mod outage;
mod serial;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use proptest::prelude::*;
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::cubic::cube_root;
use super::ledger::{PACKETS_MAX, SentPackets};
use super::{
    Congestion, CongestionEvent, Controller, Mode, PACING_MAX, PACKETS_MIN, UNPACED, WINDOW_MAX,
};

const PACKET: DataSize = DataSize::from_bytes(1_200);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A path with a rate and a delay, and a transport that sends all that it may.
struct Path {
    now: Instant,
    rate: Bitrate,
    rtt: Duration,
    /// Most extra delay of a packet, drawn evenly; packets keep their order unless `overtakes`.
    jitter: Duration,
    overtakes: bool,
    /// How long the peer delays the acknowledgement of a single packet.
    ack_delay: Duration,
    /// One acknowledgement in this many is stamped with the time when its packet was sent; none if zero.
    stamped_early: u64,
    rng: SplitMix,
    /// When the line is free again.
    free: Instant,
    controller: Controller,
    /// Packets in flight: number, time sent, and when the acknowledgement arrives.
    packets: VecDeque<(u64, Instant, Instant)>,
    next: u64,
    may_leave: Instant,
    /// Packets that the application has left to send; `None` if it always has more.
    backlog: Option<u64>,
}

impl Path {
    fn new(rate: Bitrate, rtt: Duration) -> Self {
        Self {
            now: Instant::ZERO + ms(1),
            rate,
            rtt,
            jitter: Duration::ZERO,
            overtakes: false,
            ack_delay: Duration::ZERO,
            stamped_early: 0,
            rng: SplitMix::new(1),
            free: Instant::ZERO,
            controller: Controller::new(PACKET),
            packets: VecDeque::new(),
            next: 0,
            may_leave: Instant::ZERO,
            backlog: None,
        }
    }

    fn in_flight(&self) -> DataSize {
        DataSize::from_bytes(self.packets.len() as u64 * PACKET.as_bytes())
    }

    fn send(&mut self) {
        loop {
            if self.backlog == Some(0) || self.may_leave > self.now {
                return;
            }
            if self.in_flight() + PACKET > self.controller.window() {
                self.controller.handle_full();
                return;
            }
            if let Some(left) = &mut self.backlog {
                *left -= 1;
            }
            self.controller.handle_sent(self.now, self.next, PACKET);
            self.free = self.free.max(self.now) + self.rate.time_for(PACKET);
            let mut arrival = self.free + self.rtt;
            if self.jitter > Duration::ZERO {
                let last = self.packets.back().map_or(Instant::ZERO, |last| last.2);
                let kept = if self.overtakes { Instant::ZERO } else { last };
                arrival = (arrival + self.rng.next_duration(self.jitter)).max(kept);
            }
            let follows = |last: &(u64, Instant, Instant)| last.1 + self.ack_delay > self.now;
            if self.backlog == Some(0) && !self.packets.back().is_some_and(follows) {
                arrival = arrival + self.ack_delay;
            }
            let at = self.packets.partition_point(|other| other.2 <= arrival);
            self.packets.insert(at, (self.next, self.now, arrival));
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
            let ack = self.packets.front().map_or(Instant::NEVER, |first| first.2);
            let pace = if self.may_leave > self.now && self.backlog != Some(0) {
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
                && let Some((number, sent, _)) = self.packets.pop_front()
            {
                let is_early = number.checked_rem(self.stamped_early) == Some(0);
                let stamp = if is_early { sent } else { self.now };
                self.controller.handle_clock(self.now);
                self.controller.handle_ack(stamp, number, sent, PACKET);
                let app_limited = self.backlog == Some(0);
                let in_flight = self.in_flight();
                self.controller
                    .handle_acks_end(stamp, in_flight, app_limited);
            }
        }
    }

    fn wait(&self) -> Duration {
        self.free.saturating_since(self.now)
    }
}

#[test]
fn short_path_is_not_paced() {
    for (base, is_paced) in [(UNPACED, false), (UNPACED + Duration::from_micros(1), true)] {
        let mut controller = Controller::new(PACKET);
        assert_eq!(
            controller.pacing_rate(),
            None,
            "before a round trip is known"
        );
        let mut now = Instant::ZERO + ms(100);
        for number in 0..200 {
            // The first returns at once, the others as from a busy machine.
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
fn lone_flow_fills_line_with_short_queue() {
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
fn early_stamp_keeps_base() {
    for (mbps, rtt) in [(100, 2), (1_000, 2), (10, 20)] {
        let mut path = Path::new(Bitrate::from_kbps(mbps * 1_000), ms(rtt));
        path.stamped_early = 997;
        path.run_for(Duration::from_secs(1));
        let before = path.next;
        path.run_for(Duration::from_secs(2));
        let carried = (path.next - before) * PACKET.as_bytes() * 8;
        let share = carried as f64 / (mbps as f64 * 1e6 * 2.0);
        assert!(share > 0.9, "{mbps} Mbit/s, {rtt} ms: {share}");
        assert!(
            path.controller.path.delay().base() >= ms(rtt),
            "{mbps} Mbit/s"
        );
    }
}

#[test]
fn only_small_window_may_be_overrun() {
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
fn app_limited_flow_keeps_window() {
    let mut path = Path::new(Bitrate::from_kbps(10_000), ms(50));
    path.run_for(Duration::from_secs(5));
    let window = path.controller.window();
    let sendable = path.controller.sendable();
    // A tenth of the rate in frames, for a minute.
    for _ in 0..1_800 {
        path.backlog = Some(3);
        path.run_for(Duration::from_micros(33_333));
    }
    assert_eq!(path.controller.mode(), Mode::Quiet);
    let kept = path.controller.window().as_bytes() as f64 / window.as_bytes() as f64;
    assert!((0.9..1.1).contains(&kept), "{kept}");
    let kept = path.controller.sendable().as_bps() as f64 / sendable.as_bps() as f64;
    assert!((0.9..1.1).contains(&kept), "{kept}");
}

#[test]
fn unfilled_window_does_not_grow() {
    let mut path = Path::new(Bitrate::from_kbps(10_000), ms(50));
    let window = path.controller.window();
    for _ in 0..300 {
        path.backlog = Some(3);
        path.run_for(Duration::from_micros(33_333));
    }
    assert_eq!(path.controller.window(), window);
}

#[test]
fn app_limited_flow_ignores_jitter() {
    let mut path = Path::new(Bitrate::from_kbps(25_000), ms(28));
    path.jitter = ms(20);
    let mut late = 0;
    for frame in 0..500 {
        // 4 Mbit/s in frames, 25 a second.
        let left = path.backlog.unwrap_or(0);
        late += u32::from(frame > 25 && left > 0);
        path.backlog = Some(left + 17);
        path.run_for(ms(40));
    }
    assert!(
        late < 5,
        "{late} of 475 frames had not left before the next"
    );
    // A line that became slower than the stream is noticed all the same; without jitter, the delay
    // is the queue.
    path.rate = Bitrate::from_kbps(2_000);
    path.jitter = Duration::ZERO;
    path.backlog = None;
    path.run_for(Duration::from_secs(2));
    assert!(path.wait() < ms(60), "{}", path.wait());
}

#[test]
fn probes_fill_unused_window() {
    let mut path = Path::new(Bitrate::from_kbps(10_000), ms(50));
    let start = path.controller.window();
    let mut most = DataSize::ZERO;
    for _ in 0..600 {
        let probe = path.controller.probe_size();
        most = most.max(probe);
        path.backlog = Some(3 + probe.as_bytes() / PACKET.as_bytes());
        path.run_for(Duration::from_micros(33_333));
    }
    assert!(path.controller.window() > start + start, "probes were seen");
    assert!(most <= path.controller.window(), "{most}");
    assert!(path.wait() < ms(10), "{}", path.wait());
    let sendable = path.controller.sendable().as_mbps_f64();
    assert!((5.0..11.0).contains(&sendable), "{sendable}");
}

#[test]
fn only_moved_rate_is_reported() {
    let mut path = Path::new(Bitrate::from_kbps(10_000), ms(50));
    path.run_for(Duration::from_secs(5));
    while path.controller.poll_event().is_some() {}
    path.run_for(Duration::from_secs(5));
    assert_eq!(path.controller.poll_event(), None);
    path.rate = Bitrate::from_kbps(2_000);
    path.run_for(Duration::from_secs(3));
    let events = core::iter::from_fn(|| path.controller.poll_event());
    let rates: Vec<_> = events
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
fn mark_reduces_single_loss_does_not() {
    let mut path = Path::new(Bitrate::from_kbps(10_000), ms(50));
    path.run_for(Duration::from_secs(5));
    // A moment with hardly any queue.
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
fn persistent_congestion_leaves_minimum() {
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
fn sent_packets_stay_bounded() {
    let mut sent_packets = SentPackets::default();
    for number in 0..2 * PACKETS_MAX as u64 {
        sent_packets.handle_sent(Instant::ZERO, number, PACKET);
    }
    assert_eq!(sent_packets.len(), PACKETS_MAX);
    sent_packets.handle_ack(Instant::ZERO, 0, Instant::ZERO, PACKET);
    sent_packets.handle_ack(Instant::ZERO, u64::MAX, Instant::NEVER, PACKET);
    assert!(sent_packets.end_batch(Instant::ZERO).is_some());
    // Numbers that start over.
    sent_packets.handle_sent(Instant::ZERO, 0, PACKET);
    assert_eq!(sent_packets.len(), 1);
}

#[test]
fn cube_root_has_nine_digits() {
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

/// Anything that a transport may report, in any order.
#[derive(Clone, Debug)]
enum Input {
    Sent(u64, u64),
    CwndLimited,
    Ack(u64, u64, u64),
    AcksEnd(u64, bool),
    Lost(u64, u64),
    Congestion(u64, Congestion),
    Spurious,
    Size(u64),
    Clock(u64),
    Pass(u64),
}

fn input() -> impl Strategy<Value = Input> {
    let number = prop_oneof![0..50u64, any::<u64>()];
    let size = prop_oneof![0..2_000u64, any::<u64>()];
    let time = prop_oneof![0..10_000_000_000u64, any::<u64>()];
    let cause = prop_oneof![
        Just(Congestion::Loss),
        Just(Congestion::Persistent),
        Just(Congestion::Mark)
    ];
    prop_oneof![
        (number.clone(), size.clone()).prop_map(|(n, s)| Input::Sent(n, s)),
        Just(Input::CwndLimited),
        (number.clone(), time.clone(), size.clone()).prop_map(|(n, t, s)| Input::Ack(n, t, s)),
        (size.clone(), any::<bool>()).prop_map(|(s, short)| Input::AcksEnd(s, short)),
        (number, size.clone()).prop_map(|(n, s)| Input::Lost(n, s)),
        (time, cause).prop_map(|(t, cause)| Input::Congestion(t, cause)),
        Just(Input::Spurious),
        size.prop_map(Input::Size),
        any::<u64>().prop_map(Input::Clock),
        prop_oneof![0..100_000_000u64, any::<u64>()].prop_map(Input::Pass),
    ]
}

proptest! {
    #[test]
    fn controller_is_total(inputs in proptest::collection::vec(input(), 0..300)) {
        let mut now = Instant::ZERO;
        let mut controller = Controller::new(PACKET);
        for input in inputs {
            match input {
                Input::Sent(n, s) => controller.handle_sent(now, n, DataSize::from_bytes(s)),
                Input::CwndLimited => controller.handle_full(),
                Input::Ack(n, t, s) => {
                    controller.handle_ack(now, n, Instant::from_nanos(t), DataSize::from_bytes(s));
                }
                Input::AcksEnd(s, short) => {
                    controller.handle_acks_end(now, DataSize::from_bytes(s), short);
                }
                Input::Lost(n, s) => controller.handle_lost(n, DataSize::from_bytes(s)),
                Input::Congestion(t, cause) => {
                    controller.handle_congestion(now, Instant::from_nanos(t), cause);
                }
                Input::Spurious => controller.handle_spurious_loss(),
                Input::Size(s) => controller.handle_packet_size(DataSize::from_bytes(s)),
                Input::Clock(t) => controller.handle_clock(Instant::from_nanos(t)),
                Input::Pass(nanos) => now = now + Duration::from_nanos(nanos),
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
fn delayed_ack_keeps_window() {
    // The next packet leaves when the acknowledgement has arrived, or shortly before.
    for (apart, most) in [(150, 1.1), (33, 1.25)] {
        let mut path = Path::new(Bitrate::from_kbps(2_000), ms(20));
        path.ack_delay = ms(28);
        path.run_for(Duration::from_secs(5));
        path.backlog = Some(0);
        path.run_for(ms(500));
        let window = path.controller.window();
        for _ in 0..20 {
            path.backlog = Some(1);
            path.run_for(ms(apart));
        }
        let kept = path.controller.window().as_bytes() as f64 / window.as_bytes() as f64;
        // Under jitter a window may grow a little.
        assert!((0.9..=most).contains(&kept), "{apart} ms: {kept}");
    }
}
