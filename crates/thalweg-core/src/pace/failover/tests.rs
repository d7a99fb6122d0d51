//! Proves when a connection is left, from both sides of each edge, and that it is not left often.

use super::*;

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

const RTT: Duration = Duration::from_millis(150);

#[test]
fn a_stall_is_two_round_trips_without_progress_and_not_a_nanosecond_less() {
    let mut failover = Failover::default();
    failover.handle_sent(at(1_000));
    let edge = at(1_300);
    let before = Instant::from_nanos(edge.as_nanos() - 1);
    assert_eq!(failover.judge(before, RTT, 0, true), Verdict::Steady);
    assert_eq!(failover.poll_timeout(RTT, true, false), edge);
    assert_eq!(failover.judge(edge, RTT, 0, true), Verdict::Switch);
}

#[test]
fn short_round_trips_have_200_ms_and_an_unknown_one_a_second() {
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
fn progress_begins_the_wait_anew_and_nothing_outstanding_ends_it() {
    let mut failover = Failover::default();
    failover.handle_sent(at(0));
    failover.handle_progress(at(250), true);
    assert_eq!(failover.judge(at(500), RTT, 0, true), Verdict::Steady);
    failover.handle_progress(at(500), false);
    assert_eq!(failover.judge(at(9_000), RTT, 9, true), Verdict::Steady);
    assert_eq!(failover.poll_timeout(RTT, true, false), Instant::NEVER);
}

#[test]
fn two_timeouts_in_a_row_are_a_stall_and_one_is_not() {
    let mut failover = Failover::default();
    failover.handle_sent(at(0));
    assert_eq!(failover.judge(at(10), RTT, 1, true), Verdict::Steady);
    assert_eq!(failover.judge(at(10), RTT, 2, true), Verdict::Switch);
}

#[test]
fn without_a_standby_a_stall_is_held_and_counted_once() {
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
fn a_line_that_always_stalls_is_changed_ever_more_rarely() {
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
fn after_a_calm_the_next_change_is_as_quick_as_the_first() {
    let mut failover = Failover::default();
    failover.handle_switched(at(0));
    failover.handle_switched(at(1_000));
    failover.handle_switched(at(5_000));
    failover.handle_sent(at(5_000));
    assert_eq!(failover.judge(at(5_999), RTT, 0, true), Verdict::Held);
    assert_eq!(failover.judge(at(6_000), RTT, 0, true), Verdict::Switch);
}

/// What the kernel says: so many bytes are acknowledged, and whether those are all.
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
fn a_peer_whose_kernel_acknowledges_is_given_a_second() {
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
fn a_line_that_loses_is_not_waited_for_though_a_little_comes_through() {
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
    // What was sent again before says nothing; and when all has come it has come, however often it was sent.
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
fn a_line_whose_kernel_has_no_answer_either_has_stalled() {
    let mut failover = Failover::default();
    failover.handle_sent(at(0));
    kernel(&mut failover, 0, 10, false);
    assert!(!failover.wants_kernel(at(299), RTT));
    kernel(&mut failover, 300, 10, false);
    assert_eq!(failover.judge(at(300), RTT, 0, true), Verdict::Switch);
}

#[test]
fn what_the_kernel_said_before_the_waiting_began_proves_nothing() {
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

/// Leaves a connection that has stalled, whose peer's kernel has all of what was sent at `ms` or nothing of it; returns from when
/// on another may be dialled.
fn left(failover: &mut Failover, ms: u64, is_all: bool) -> Instant {
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
fn a_peer_that_was_busy_is_given_no_handshake_for_a_while() {
    let mut failover = Failover::default();
    // A line that stalls is another matter, also one that carried until shortly before.
    assert_eq!(left(&mut failover, 0, false), Instant::ZERO);
    failover.handle_sent(at(50_000));
    kernel(&mut failover, 50_150, 10, true);
    kernel(&mut failover, 50_450, 10, false);
    assert_eq!(failover.judge(at(50_450), RTT, 0, true), Verdict::Switch);
    failover.handle_switched(at(50_450));
    assert_eq!(failover.dial_at(), Instant::ZERO);
    assert_eq!(left(&mut failover, 100_000, true), at(117_000));
    // Again as soon as it may be dialled, and soon after that; calm, and one more.
    assert_eq!(left(&mut failover, 117_000, true), at(150_000));
    assert_eq!(left(&mut failover, 180_000, true), at(245_000));
    assert_eq!(left(&mut failover, 260_000, true), at(389_000));
    assert_eq!(left(&mut failover, 390_000, true), at(519_000));
    assert_eq!(left(&mut failover, 700_000, true), at(717_000));
    // It has no standby, and its line stalls: another connection is wanted now.
    failover.handle_sent(at(705_000));
    assert_eq!(failover.judge(at(705_300), RTT, 0, false), Verdict::Held);
    assert_eq!(failover.dial_at(), at(705_300));
}
