//! Proves that what a link carries is reckoned from when it was read, and not from when that is said, and that a link which was
//! slow long ago is no reason to refuse what has no other way; nor is one that is slow now, to what can do without a part of it.

use alloc::vec::Vec;

use super::{A, B, C, Duration, Fabric, LINK, StreamId, name, publication};
use crate::control::{Note, Peer, PlanState, Publication};
use crate::id::NodeId;
use crate::needs::Reliability;
use crate::planner::Planner;
use crate::routing::gauge::{DOUBT, Reading, SAMPLE_EVERY, Sample};
use crate::units::{Bitrate, DataSize};

/// Returns what is known after each sample of a link that is full at 800 kbit/s, if they are said so much later, in turn.
fn readings(late_ms: &[u64]) -> Vec<Reading> {
    let mut fabric = Fabric::linked(&[[A, B]]);
    let begun = fabric.now;
    let late = late_ms.iter().cycle();
    let after = (1..=20).zip(late).map(|(step, late)| {
        let at = begun + Duration::from_nanos(step * SAMPLE_EVERY.as_nanos());
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
        let link = fabric.node(A).controller.link(B);
        link.expect("they are linked").reading()
    });
    after.collect()
}

#[test]
fn a_link_carries_the_same_however_late_its_samples_are_said() {
    let prompt = readings(&[0]);
    assert_eq!(prompt[19].capacity, Some(Bitrate::from_kbps(800)));
    assert_eq!(readings(&[0, 120, 40, 200]), prompt);
}

/// Has the link from A to B full for so long, at a rate in kbit/s that is all it carries.
fn fill(fabric: &mut Fabric, kbps: u64, time: Duration) {
    fill_link(fabric, [A, B], kbps, time);
}

/// Has a link full one way, as [`fill`] has.
fn fill_link(fabric: &mut Fabric, [near, far]: [NodeId; 2], kbps: u64, time: Duration) {
    let steps = time.as_nanos() / SAMPLE_EVERY.as_nanos();
    // What has left on it before is told apart by nothing but the difference.
    let begun = fabric.now.as_nanos() / 1_000_000;
    for step in 1..=steps {
        fabric.pass(SAMPLE_EVERY);
        let sample = Sample {
            sent: DataSize::from_bytes(begun * 1_000 + step * kbps * 125 / 4),
            waiting: DataSize::from_bytes(100_000),
            heard: begun + step,
            ..LINK
        };
        fabric.at(near, |c, now, keys| {
            c.handle_link_sample(far, (now, sample), now, keys);
        });
        fabric.settle();
    }
}

/// Returns how the plan for B is, and whether it is known why it is not as it should be.
fn state(fabric: &Fabric, stream: StreamId) -> (PlanState, bool) {
    let source = fabric.node(A).controller.source(stream).expect("published");
    let (_, plan) = source.plans().next().expect("one sink");
    (plan.state, plan.reason.is_some())
}

/// A stream of 100 kbit/s goes from A to B by C, for the link between A and B was full at half of that, a moment ago.
fn detoured() -> (Fabric, StreamId) {
    let mut fabric = Fabric::linked(&[[A, B], [A, C], [B, C]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    assert_eq!(fabric.way(A, stream).1, [A, B]);
    fill(&mut fabric, 50, Duration::from_secs(10));
    assert_eq!(fabric.way(A, stream).1, [A, C, B]);
    (fabric, stream)
}

#[test]
fn a_link_that_was_slow_long_ago_is_taken_where_there_is_no_other_way() {
    let (mut fabric, stream) = detoured();
    fabric.pass(DOUBT + DOUBT);
    assert_eq!(fabric.way(A, stream).1, [A, C, B], "it is well where it is");
    fabric.cut([B, C]);
    assert_eq!(fabric.way(A, stream).1, [A, B], "no time has passed");
    assert_eq!(state(&fabric, stream), (PlanState::Active, false));
    let ways = fabric.node(A).controller.ways(A, B, None);
    assert!(ways.expect("both are on the map").best.feasible);
}

#[test]
fn a_link_that_was_slow_a_moment_ago_is_taken_when_that_is_doubted() {
    let (mut fabric, stream) = detoured();
    fabric.pass(DOUBT.saturating_sub(Duration::from_secs(5)));
    fabric.cut([B, C]);
    assert_eq!(state(&fabric, stream), (PlanState::Failed, true));
    fabric.pass(Duration::from_secs(6));
    assert_eq!(fabric.way(A, stream).1, [A, B]);
    assert_eq!(state(&fabric, stream), (PlanState::Active, false));
}

#[test]
fn a_link_that_is_slow_yet_is_left_as_soon_as_there_is_another_and_not_tried_again() {
    let (mut fabric, stream) = detoured();
    fabric.pass(DOUBT + DOUBT);
    fabric.cut([B, C]);
    fill(&mut fabric, 50, Duration::from_secs(10));
    // It goes on, for what else is there?
    assert_eq!(fabric.way(A, stream).1, [A, B]);
    assert_eq!(state(&fabric, stream), (PlanState::Failed, true));
    let told = fabric.node(B).notices.last().expect("it is told");
    let told = told.sentence(&name());
    assert!(told.ends_with("; going on with what comes"), "{told}");
    fabric.link([B, C]);
    fabric.pass(Duration::from_secs(1));
    let before = fabric.way(A, stream);
    assert_eq!(before.1, [A, C, B]);
    fabric.pass(Duration::from_secs(600));
    assert_eq!(fabric.way(A, stream), before);
}

#[test]
fn a_plan_that_is_found_again_is_in_force_as_if_it_had_not_been_missed() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    let before = fabric.way(A, stream);
    fill(&mut fabric, 50, Duration::from_secs(10));
    assert_eq!(state(&fabric, stream), (PlanState::Failed, true));
    fill(&mut fabric, 400, Duration::from_secs(20));
    assert_eq!(state(&fabric, stream), (PlanState::Active, false));
    assert_eq!(fabric.way(A, stream), before);
}

/// A stream of 100 kbit/s whose ADUs are worth nothing after a while.
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
fn who_comes_while_the_only_way_is_too_slow_gets_what_fits() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fill(&mut fabric, 50, Duration::from_secs(10));
    fabric.subscribe(B);
    let stream = fabric.publish(A, live());
    assert_eq!(fabric.way(A, stream).1, [A, B]);
    assert_eq!(state(&fabric, stream), (PlanState::Active, false));
    let lack = lack(&fabric, stream).expect("it is too slow");
    assert!(
        lack.starts_with("what fits is sent, for no plan satisfies its needs: "),
        "{lack}"
    );
    let notes = fabric.node(A).notes.iter();
    let told = notes.filter(|note| matches!(note, Note::TooSlow { .. }));
    assert_eq!(told.count(), 1);
}

#[test]
fn who_comes_while_the_only_way_is_too_slow_gets_nothing_of_what_must_come_whole() {
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
fn of_two_ways_that_are_too_slow_the_less_slow_is_taken() {
    for (direct, detour, way) in [(50, 20, &[A, B][..]), (10, 40, &[A, C, B])] {
        let mut fabric = Fabric::linked(&[[A, B], [A, C], [B, C]]);
        fill(&mut fabric, direct, Duration::from_secs(10));
        fill_link(&mut fabric, [A, C], detour, Duration::from_secs(10));
        fabric.subscribe(B);
        let stream = fabric.publish(A, live());
        assert_eq!(fabric.way(A, stream).1, way);
        assert!(lack(&fabric, stream).is_some());
    }
}

#[test]
fn whose_way_breaks_goes_on_by_one_that_is_too_slow_until_there_is_a_better() {
    let mut fabric = Fabric::linked(&[[A, B], [A, C], [B, C]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, live());
    fill(&mut fabric, 50, Duration::from_secs(10));
    assert_eq!(fabric.way(A, stream).1, [A, C, B]);
    fabric.cut([B, C]);
    assert_eq!(fabric.way(A, stream).1, [A, B]);
    assert_eq!(state(&fabric, stream), (PlanState::Active, false));
    assert!(lack(&fabric, stream).is_some());
    fabric.link([B, C]);
    fabric.pass(Duration::from_secs(1));
    assert_eq!(fabric.way(A, stream).1, [A, C, B]);
    assert_eq!(lack(&fabric, stream), None);
}

#[test]
fn peer_that_is_configured_anew_has_its_name_and_rate_on_the_map() {
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
    let told = |fabric: &Fabric, at| {
        let record = fabric.node(at).controller.directory().record(A);
        let there = record.and_then(|record| record.neighbour(B).copied());
        there.expect("they are linked").rate
    };
    for at in [A, B] {
        assert_eq!(told(&fabric, at), rate);
    }
    assert_eq!(fabric.node(A).controller.name_of(B), "base");
    fabric.at(A, |c, now, keys| c.handle_peer_gone(B, now, keys));
    fabric.settle();
    assert_eq!(told(&fabric, B), Bitrate::ZERO);
    assert!(
        fabric.node(A).controller.link(B).is_some(),
        "the link is its driver's"
    );
}
