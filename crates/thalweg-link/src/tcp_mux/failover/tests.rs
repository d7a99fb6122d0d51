//! Proves when a connection is left, from both sides of each edge, and that fail-overs are rare.

use super::*;

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

const RTT: Duration = Duration::from_millis(150);

#[test]
fn two_rtts_without_progress_stall() {
    let mut failover = Failover::default();
    failover.handle_sent(at(1_000));
    let edge = at(1_300);
    let before = Instant::from_nanos(edge.as_nanos() - 1);
    assert_eq!(failover.judge(before, RTT, 0, true), Verdict::Steady);
    assert_eq!(failover.poll_timeout(RTT, true, false), edge);
    assert_eq!(failover.judge(edge, RTT, 0, true), Verdict::Switch);
}

#[test]
fn stall_time_has_minima() {
    let mut failover = Failover::default();
    failover.handle_sent(at(0));
    let short = Duration::from_millis(1);
    assert_eq!(failover.judge(at(199), short, 0, true), Verdict::Steady);
    assert_eq!(failover.judge(at(200), short, 0, true), Verdict::Switch);
    assert_eq!(
        failover.judge(at(999), Duration::ZERO, 0, true),
        Verdict::Steady
    );
    assert_eq!(
        failover.judge(at(1_000), Duration::ZERO, 0, true),
        Verdict::Switch
    );
}

#[test]
fn progress_restarts_wait() {
    let mut failover = Failover::default();
    failover.handle_sent(at(0));
    failover.handle_progress(at(250), true);
    assert_eq!(failover.judge(at(500), RTT, 0, true), Verdict::Steady);
    failover.handle_progress(at(500), false);
    assert_eq!(failover.judge(at(9_000), RTT, 9, true), Verdict::Steady);
    assert_eq!(failover.poll_timeout(RTT, true, false), Instant::NEVER);
}

#[test]
fn two_timeouts_are_a_stall() {
    let mut failover = Failover::default();
    failover.handle_sent(at(0));
    assert_eq!(failover.judge(at(10), RTT, 1, true), Verdict::Steady);
    assert_eq!(failover.judge(at(10), RTT, 2, true), Verdict::Switch);
}

#[test]
fn missing_standby_holds_stall() {
    let mut failover = Failover::default();
    failover.handle_sent(at(0));
    for ms in [300, 400, 500] {
        assert_eq!(failover.judge(at(ms), RTT, 0, false), Verdict::Held);
    }
    assert_eq!((failover.count(), failover.held_back()), (0, 1));
    assert_eq!(failover.poll_timeout(RTT, false, false), Instant::NEVER);
    assert_eq!(failover.judge(at(600), RTT, 0, true), Verdict::Switch);
}

#[test]
fn repeated_failovers_back_off() {
    let mut failover = Failover::default();
    let mut switches = alloc::vec::Vec::new();
    for ms in 0..60_000 {
        failover.handle_sent(at(ms));
        if failover.judge(at(ms), RTT, 0, true) == Verdict::Switch {
            failover.handle_switched(at(ms));
            switches.push(ms);
        }
    }
    let gaps: alloc::vec::Vec<u64> = switches.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [1_000, 2_000, 4_000, 8_000, 16_000, 16_000]);
    assert_eq!(failover.count(), 7);
}

#[test]
fn quiet_time_resets_back_off() {
    let mut failover = Failover::default();
    failover.handle_switched(at(0));
    failover.handle_switched(at(1_000));
    failover.handle_switched(at(5_000));
    failover.handle_sent(at(5_000));
    assert_eq!(failover.judge(at(5_999), RTT, 0, true), Verdict::Held);
    assert_eq!(failover.judge(at(6_000), RTT, 0, true), Verdict::Switch);
}

/// Reports the kernel's state: the bytes acknowledged, and whether those are all.
fn kernel(failover: &mut Failover, ms: u64, acknowledged: u64, is_all: bool) {
    failover.handle_kernel(&path(acknowledged, is_all), at(ms));
}

fn path(acknowledged: u64, is_all: bool) -> KernelPath {
    KernelPath {
        acknowledged: DataSize::from_bytes(acknowledged),
        in_flight: DataSize::from_bytes(u64::from(!is_all)),
        ..KernelPath::default()
    }
}

#[test]
fn busy_peer_gets_a_second() {
    let mut failover = Failover::default();
    failover.handle_sent(at(0));
    assert!(!failover.wants_kernel(at(149), RTT));
    assert!(failover.wants_kernel(at(150), RTT));
    assert_eq!(failover.poll_timeout(RTT, true, true), at(150));
    for (ms, acknowledged) in [(150, 10), (300, 20), (600, 30), (900, 40)] {
        kernel(&mut failover, ms, acknowledged, false);
        let verdict = failover.judge(at(ms), RTT, 0, true);
        assert_eq!(verdict, Verdict::Steady, "at {ms} ms");
    }
    assert_eq!(failover.judge(at(999), RTT, 0, true), Verdict::Steady);
    assert_eq!(failover.judge(at(1_000), RTT, 0, true), Verdict::Switch);
}

#[test]
fn lossy_line_gets_no_longer_wait() {
    let mut failover = Failover::default();
    failover.handle_sent(at(0));
    for (ms, acknowledged) in [(150, 10), (300, 20)] {
        let path = KernelPath {
            segments_again: acknowledged,
            ..path(acknowledged, false)
        };
        failover.handle_kernel(&path, at(ms));
    }
    assert_eq!(failover.judge(at(300), RTT, 0, true), Verdict::Switch);
    // Retransmissions from before the wait prove nothing; and once all has arrived, retransmissions
    // do not matter.
    let mut failover = Failover::default();
    failover.handle_sent(at(0));
    for (ms, acknowledged, again, is_all) in
        [(150, 10, 7, false), (300, 20, 7, false), (600, 30, 9, true)]
    {
        let path = KernelPath {
            segments_again: again,
            ..path(acknowledged, is_all)
        };
        failover.handle_kernel(&path, at(ms));
        assert_eq!(
            failover.judge(at(ms), RTT, 0, true),
            Verdict::Steady,
            "at {ms} ms"
        );
    }
}

#[test]
fn silent_kernel_is_a_stall() {
    let mut failover = Failover::default();
    failover.handle_sent(at(0));
    kernel(&mut failover, 0, 10, false);
    assert!(!failover.wants_kernel(at(299), RTT));
    kernel(&mut failover, 300, 10, false);
    assert_eq!(failover.judge(at(300), RTT, 0, true), Verdict::Switch);
}

#[test]
fn earlier_kernel_state_is_ignored() {
    let mut failover = Failover::default();
    failover.handle_sent(at(0));
    kernel(&mut failover, 100, 10, true);
    failover.handle_progress(at(200), false);
    kernel(&mut failover, 250, 20, true);
    failover.handle_sent(at(300));
    assert!(failover.wants_kernel(at(450), RTT));
    kernel(&mut failover, 450, 20, false);
    kernel(&mut failover, 600, 20, false);
    assert_eq!(failover.judge(at(600), RTT, 0, true), Verdict::Switch);
}

/// Fails over from a stalled connection on which the peer's kernel has all of what was sent at
/// `ms`, or nothing; returns when another may be dialled.
fn fail_over(failover: &mut Failover, ms: u64, is_all: bool) -> Instant {
    failover.handle_sent(at(ms));
    let stalled = if is_all { ms + 1_000 } else { ms + 300 };
    for asked in (ms + 150..=stalled).step_by(150).chain([stalled]) {
        failover.handle_kernel(&path(0, is_all), at(asked));
    }
    assert_eq!(failover.judge(at(stalled), RTT, 0, true), Verdict::Switch);
    failover.handle_switched(at(stalled));
    failover.dial_at()
}

#[test]
fn busy_peer_gets_no_handshake() {
    let mut failover = Failover::default();
    // A line that stalls gives no rest, even if it worked shortly before.
    assert_eq!(fail_over(&mut failover, 0, false), Instant::ZERO);
    failover.handle_sent(at(50_000));
    kernel(&mut failover, 50_150, 10, true);
    kernel(&mut failover, 50_450, 10, false);
    assert_eq!(failover.judge(at(50_450), RTT, 0, true), Verdict::Switch);
    failover.handle_switched(at(50_450));
    assert_eq!(failover.dial_at(), Instant::ZERO);
    assert_eq!(fail_over(&mut failover, 100_000, true), at(117_000));
    // Again as soon as it may be dialled, and soon after that; then a quiet time, and one more.
    assert_eq!(fail_over(&mut failover, 117_000, true), at(150_000));
    assert_eq!(fail_over(&mut failover, 180_000, true), at(245_000));
    assert_eq!(fail_over(&mut failover, 260_000, true), at(389_000));
    assert_eq!(fail_over(&mut failover, 390_000, true), at(519_000));
    assert_eq!(fail_over(&mut failover, 700_000, true), at(717_000));
    // There is no standby, and the line stalls: another connection is wanted now.
    failover.handle_sent(at(705_000));
    assert_eq!(failover.judge(at(705_300), RTT, 0, false), Verdict::Held);
    assert_eq!(failover.dial_at(), at(705_300));
}
