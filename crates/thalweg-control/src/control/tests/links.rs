//! Proves that rates are computed from the time of a reading, not of its delivery; that a low rate
//! from long ago does not refuse a stream without another path; and that a slow path serves streams
//! that tolerate loss.

use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::needs::Reliability;
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_link::gauge::{DOUBT, Reading, SAMPLE_EVERY, Sample};
use thalweg_planner::planner::Planner;

use super::{A, B, C, Duration, Fabric, LINK, StreamId, name, publication};
use crate::control::{Note, Peer, PlanState, Publication};

/// Returns the gauge's reading after each sample of a link that is full at 800 kbit/s, if the
/// samples are delivered this much later, in turn.
fn readings(late_ms: &[u64]) -> Vec<Reading> {
    let mut fabric = Fabric::linked(&[[A, B]]);
    let start = fabric.now;
    let late = late_ms.iter().cycle();
    let after = (1..=20).zip(late).map(|(step, late)| {
        let at = start + Duration::from_nanos(step * SAMPLE_EVERY.as_nanos());
        let sample = Sample {
            sent: DataSize::from_bytes(step * 25_000),
            waiting: DataSize::from_bytes(10_000),
            heard: step,
            ..LINK
        };
        fabric.now = at + Duration::from_millis(*late);
        fabric.at(A, |c, now, keys| {
            c.handle_link_sample(B, (at, sample), now, keys);
        });
        fabric.settle();
        let link = fabric.node(A).controller.links().get(B);
        link.expect("they are linked").reading()
    });
    after.collect()
}

#[test]
fn late_samples_give_same_rate() {
    let prompt = readings(&[0]);
    assert_eq!(prompt[19].capacity, Some(Bitrate::from_kbps(800)));
    assert_eq!(readings(&[0, 120, 40, 200]), prompt);
}

/// Keeps the link from A to B full for this time, at a capacity in kbit/s.
fn fill(fabric: &mut Fabric, kbps: u64, time: Duration) {
    fill_link(fabric, [A, B], kbps, time);
}

/// Keeps a link full in one direction, as [`fill`] does.
fn fill_link(fabric: &mut Fabric, [near, far]: [NodeId; 2], kbps: u64, time: Duration) {
    let steps = time.as_nanos() / SAMPLE_EVERY.as_nanos();
    // The counter continues from what was sent before.
    let start = fabric.now.as_nanos() / 1_000_000;
    for step in 1..=steps {
        fabric.pass(SAMPLE_EVERY);
        let sample = Sample {
            sent: DataSize::from_bytes(start * 1_000 + step * kbps * 125 / 4),
            waiting: DataSize::from_bytes(100_000),
            heard: start + step,
            ..LINK
        };
        fabric.at(near, |c, now, keys| {
            c.handle_link_sample(far, (now, sample), now, keys);
        });
        fabric.settle();
    }
}

/// Returns the state of the plan for B, and whether a shortcoming is recorded.
fn state(fabric: &Fabric, stream: StreamId) -> (PlanState, bool) {
    let source = fabric.node(A).controller.source(stream).expect("published");
    let (_, plan) = source.plans().next().expect("one sink");
    (plan.state, plan.reason.is_some())
}

/// A stream of 100 kbit/s goes from A to B by C, as the link A–B was full at half of that a moment ago.
fn detoured() -> (Fabric, StreamId) {
    let mut fabric = Fabric::linked(&[[A, B], [A, C], [B, C]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    assert_eq!(fabric.plan_path(A, stream).1, [A, B]);
    fill(&mut fabric, 50, Duration::from_secs(10));
    assert_eq!(fabric.plan_path(A, stream).1, [A, C, B]);
    (fabric, stream)
}

#[test]
fn formerly_slow_link_is_used_if_only_one() {
    let (mut fabric, stream) = detoured();
    fabric.pass(DOUBT + DOUBT);
    assert_eq!(
        fabric.plan_path(A, stream).1,
        [A, C, B],
        "it is well where it is"
    );
    fabric.cut([B, C]);
    assert_eq!(fabric.plan_path(A, stream).1, [A, B], "no time has passed");
    assert_eq!(state(&fabric, stream), (PlanState::Active, false));
    let paths = fabric.node(A).controller.paths(A, B, None);
    assert!(paths.expect("both are on the map").best.feasible);
}

#[test]
fn slow_link_is_used_when_reading_expires() {
    let (mut fabric, stream) = detoured();
    fabric.pass(DOUBT.saturating_sub(Duration::from_secs(5)));
    fabric.cut([B, C]);
    assert_eq!(state(&fabric, stream), (PlanState::Failed, true));
    fabric.pass(Duration::from_secs(6));
    assert_eq!(fabric.plan_path(A, stream).1, [A, B]);
    assert_eq!(state(&fabric, stream), (PlanState::Active, false));
}

#[test]
fn slow_link_is_left_for_new_path() {
    let (mut fabric, stream) = detoured();
    fabric.pass(DOUBT + DOUBT);
    fabric.cut([B, C]);
    fill(&mut fabric, 50, Duration::from_secs(10));
    // It goes on, as there is no other path.
    assert_eq!(fabric.plan_path(A, stream).1, [A, B]);
    assert_eq!(state(&fabric, stream), (PlanState::Failed, true));
    let notice = fabric.node(B).notices.last().expect("a notice");
    let notice = notice.sentence(&name());
    assert!(
        notice.ends_with("; still delivering what arrives"),
        "{notice}"
    );
    fabric.link([B, C]);
    fabric.pass(Duration::from_secs(1));
    let before = fabric.plan_path(A, stream);
    assert_eq!(before.1, [A, C, B]);
    fabric.pass(Duration::from_secs(600));
    assert_eq!(fabric.plan_path(A, stream), before);
}

#[test]
fn refound_plan_is_active() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    let before = fabric.plan_path(A, stream);
    fill(&mut fabric, 50, Duration::from_secs(10));
    assert_eq!(state(&fabric, stream), (PlanState::Failed, true));
    fill(&mut fabric, 400, Duration::from_secs(20));
    assert_eq!(state(&fabric, stream), (PlanState::Active, false));
    assert_eq!(fabric.plan_path(A, stream), before);
}

/// A stream of 100 kbit/s with a deadline.
fn live() -> Publication {
    let mut live = publication(Some(Planner::Exact), false);
    live.needs.deadline = Duration::from_millis(500);
    live
}

/// Returns why only a part of the stream reaches B, if its plan says so.
fn lack(fabric: &Fabric, stream: StreamId) -> Option<&str> {
    let source = fabric.node(A).controller.source(stream).expect("published");
    let (_, plan) = source.plans().next().expect("one sink");
    plan.words.as_ref()?.lack.as_deref()
}

#[test]
fn slow_path_serves_lossy_stream() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fill(&mut fabric, 50, Duration::from_secs(10));
    fabric.subscribe(B);
    let stream = fabric.publish(A, live());
    assert_eq!(fabric.plan_path(A, stream).1, [A, B]);
    assert_eq!(state(&fabric, stream), (PlanState::Active, false));
    let lack = lack(&fabric, stream).expect("it is too slow");
    assert!(
        lack.starts_with("only a part is sent: no plan satisfies its needs: "),
        "{lack}"
    );
    let notes = fabric.node(A).notes.iter();
    let notice = notes.filter(|note| matches!(note, Note::TooSlow { .. }));
    assert_eq!(notice.count(), 1);
}

#[test]
fn slow_path_refuses_reliable_stream() {
    let half = Duration::from_millis(500);
    for (reliability, deadline) in [
        (Reliability::UntilDeadline, Duration::NEVER),
        (Reliability::Full, half),
    ] {
        let mut fabric = Fabric::linked(&[[A, B]]);
        fill(&mut fabric, 50, Duration::from_secs(10));
        fabric.subscribe(B);
        let mut whole = live();
        (whole.needs.reliability, whole.needs.deadline) = (reliability, deadline);
        let stream = fabric.publish(A, whole);
        assert_eq!(state(&fabric, stream), (PlanState::Failed, true));
        assert_eq!(lack(&fabric, stream), None);
    }
}

#[test]
fn faster_of_two_slow_paths_is_taken() {
    for (direct, detour, path) in [(50, 20, &[A, B][..]), (10, 40, &[A, C, B])] {
        let mut fabric = Fabric::linked(&[[A, B], [A, C], [B, C]]);
        fill(&mut fabric, direct, Duration::from_secs(10));
        fill_link(&mut fabric, [A, C], detour, Duration::from_secs(10));
        fabric.subscribe(B);
        let stream = fabric.publish(A, live());
        assert_eq!(fabric.plan_path(A, stream).1, path);
        assert!(lack(&fabric, stream).is_some());
    }
}

#[test]
fn broken_path_falls_back_to_slow_one() {
    let mut fabric = Fabric::linked(&[[A, B], [A, C], [B, C]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, live());
    fill(&mut fabric, 50, Duration::from_secs(10));
    assert_eq!(fabric.plan_path(A, stream).1, [A, C, B]);
    fabric.cut([B, C]);
    assert_eq!(fabric.plan_path(A, stream).1, [A, B]);
    assert_eq!(state(&fabric, stream), (PlanState::Active, false));
    assert!(lack(&fabric, stream).is_some());
    fabric.link([B, C]);
    fabric.pass(Duration::from_secs(1));
    assert_eq!(fabric.plan_path(A, stream).1, [A, C, B]);
    assert_eq!(lack(&fabric, stream), None);
}

#[test]
fn reconfigured_peer_changes_map() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    let rate = Bitrate::from_kbps(2_000);
    let peer = Peer {
        key: B,
        name: "base".parse().expect("a name"),
        trusted: true,
        rate: Some(rate),
        secure: true,
    };
    fabric.at(A, |c, now, keys| c.handle_peer(peer.clone(), now, keys));
    fabric.settle();
    let announced = |fabric: &Fabric, at| {
        let record = fabric.node(at).controller.directory().record(A);
        let there = record.and_then(|record| record.neighbour(B).copied());
        there.expect("they are linked").rate
    };
    for at in [A, B] {
        assert_eq!(announced(&fabric, at), rate);
    }
    assert_eq!(fabric.node(A).controller.name_of(B), "base");
    fabric.at(A, |c, now, keys| c.handle_peer_gone(B, now, keys));
    fabric.settle();
    assert_eq!(announced(&fabric, B), Bitrate::ZERO);
    assert!(
        fabric.node(A).controller.links().get(B).is_some(),
        "the link is its driver's"
    );
}
