//! Proves that what a link carries is reckoned from when it was read, and not from when that is said, and that a plan is in
//! force again when its link carries it again.

use alloc::vec::Vec;

use super::{A, B, Duration, Fabric, LINK, StreamId, publication};
use crate::control::PlanState;
use crate::planner::Planner;
use crate::routing::gauge::{Reading, SAMPLE_EVERY, Sample};
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
        fabric.at(A, |c, now, keys| {
            c.handle_link_sample(B, (now, sample), now, keys);
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
