//! Proves that while a way is doubted nothing takes over from a plan that is well, and how that ends.

use alloc::vec;
use alloc::vec::Vec;

use super::super::{DEPLOY_MAX, LEASE, Output, Part, RENEW, Session};
use crate::id::{Epoch, NodeId};
use crate::time::{Duration, Instant};

/// What is under way.
const NOTHING: fn(Epoch) -> bool = |_| false;

const SOURCE: NodeId = NodeId([1; 32]);
const UPPER: NodeId = NodeId([2; 32]);
const LOWER: NodeId = NodeId([3; 32]);
const SINK: NodeId = NodeId([4; 32]);
const OTHER: NodeId = NodeId([5; 32]);
const THIRD: NodeId = NodeId([6; 32]);

const DOUBT: Duration = Duration::from_secs(2);

fn by(relay: NodeId) -> Vec<Part> {
    let part = |node| Part {
        node,
        adapters: Vec::new(),
        plaintext: true,
    };
    [SOURCE, relay, SINK].map(part).into()
}

/// Returns the like to the other sink.
fn to_other(relay: NodeId) -> Vec<Part> {
    let mut parts = by(relay);
    parts[2].node = OTHER;
    parts
}

fn outputs(session: &mut Session) -> Vec<Output> {
    core::iter::from_fn(|| session.poll_output()).collect()
}

fn answer(session: &mut Session, epoch: Epoch, relay: NodeId, now: Instant) {
    for node in [SOURCE, relay, SINK] {
        session.handle_ready(node, epoch, now);
    }
}

/// Returns a session with a plan in force by the upper way.
fn served() -> Session {
    let mut session = Session::recast(Duration::from_secs(1));
    session.handle_subscribe(SINK, Instant::ZERO);
    let epoch = session.handle_plan(SINK, by(UPPER), Instant::ZERO);
    answer(&mut session, epoch.expect("a plan"), UPPER, Instant::ZERO);
    outputs(&mut session);
    session
}

/// Doubts the upper way until then, and makes the lower ready.
fn doubted(session: &mut Session, now: Instant) -> Epoch {
    session.handle_doubt(SOURCE, UPPER, now + DOUBT);
    assert_eq!(outputs(session), [Output::PlanWanted { sink: SINK }]);
    let epoch = session.handle_plan(SINK, by(LOWER), now).expect("a plan");
    answer(session, epoch, LOWER, now);
    outputs(session);
    epoch
}

/// Returns the plans that are to be cast by now and were not before.
fn cast(session: &mut Session) -> Vec<Epoch> {
    let cast = |output| match output {
        Output::Cast { epoch, .. } => Some(epoch),
        _ => None,
    };
    outputs(session).into_iter().filter_map(cast).collect()
}

fn active(session: &Session) -> Vec<Epoch> {
    session.active().map(|(_, epoch)| epoch).collect()
}

#[test]
fn what_stands_by_takes_over_with_the_plan_that_is_found_when_the_way_is_broken() {
    let mut session = served();
    let now = Instant::from_nanos(7);
    let second = doubted(&mut session, now);
    assert_eq!(active(&session), [Epoch(1)]);
    session.handle_suspect(SOURCE, UPPER, now + RENEW);
    assert_eq!(outputs(&mut session), [Output::PlanWanted { sink: SINK }]);
    assert_eq!(session.handle_plan(SINK, by(LOWER), now), None);
    let (sink, from) = (SINK, vec![Epoch(1)]);
    let switched = Output::Switched {
        sink,
        epoch: second,
    };
    let resend = Output::Resend {
        sink,
        from,
        to: second,
        under: second,
    };
    assert_eq!(outputs(&mut session), [switched, resend]);
}

#[test]
fn what_is_not_ready_when_the_way_breaks_takes_over_when_it_is() {
    let mut session = served();
    let now = Instant::from_nanos(7);
    session.handle_doubt(SOURCE, UPPER, now + DOUBT);
    let epoch = session.handle_plan(SINK, by(LOWER), now).expect("a plan");
    session.handle_ready(SOURCE, epoch, now);
    session.handle_suspect(SOURCE, UPPER, now + RENEW);
    session.handle_plan(SINK, by(LOWER), now);
    session.handle_ready(LOWER, epoch, now);
    assert_eq!(active(&session), [Epoch(1)]);
    session.handle_ready(SINK, epoch, now);
    assert_eq!(active(&session), [epoch]);
}

#[test]
fn when_the_doubt_is_over_what_stands_by_is_looked_at_anew_once() {
    let mut session = served();
    let now = Instant::from_nanos(7);
    doubted(&mut session, now);
    assert_eq!(session.poll_timeout(), now + DOUBT);
    session.handle_timeout(NOTHING, now + DOUBT);
    assert_eq!(outputs(&mut session), [Output::PlanWanted { sink: SINK }]);
    assert!(session.poll_timeout() > now + DOUBT, "while it is planned");
    assert_eq!(session.handle_plan(SINK, by(UPPER), now + DOUBT), None);
    session.handle_timeout(NOTHING, now + DOUBT);
    let released = |output: &Output| {
        matches!(
            output,
            Output::Release {
                epoch: Epoch(2),
                ..
            }
        )
    };
    let outputs = outputs(&mut session);
    assert!(
        outputs.len() == 3 && outputs.iter().all(released),
        "{outputs:?}"
    );
    assert_eq!(active(&session), [Epoch(1)]);
}

#[test]
fn a_planned_move_waits_for_the_end_of_the_doubt() {
    let mut session = served();
    let now = Instant::from_nanos(7);
    // Of another link: this stream's ways are as they were.
    session.handle_doubt(LOWER, UPPER, now + DOUBT);
    assert_eq!(outputs(&mut session), []);
    let epoch = session.handle_plan(SINK, by(LOWER), now).expect("a plan");
    answer(&mut session, epoch, LOWER, now);
    assert_eq!(active(&session), [Epoch(1)]);
    session.handle_timeout(NOTHING, now + DOUBT);
    session.handle_plan(SINK, by(LOWER), now + DOUBT);
    assert_eq!(active(&session), [epoch]);
}

#[test]
fn a_plan_that_is_not_well_or_not_there_is_replaced_at_once() {
    let now = Instant::from_nanos(7);
    let spoil: [fn(&mut Session, Instant); 4] = [
        |session, now| session.handle_change(|_, _| false, now),
        |session, now| session.handle_leave(UPPER, now),
        |session, now| {
            session.handle_key(now);
        },
        |session, now| {
            session.handle_unsubscribe(SINK, now);
            session.handle_subscribe(SINK, now);
        },
    ];
    for spoil in spoil {
        let mut session = served();
        session.handle_doubt(SOURCE, UPPER, now + DOUBT);
        spoil(&mut session, now);
        let epoch = session.handle_plan(SINK, by(LOWER), now).expect("a plan");
        answer(&mut session, epoch, LOWER, now);
        assert_eq!(active(&session), [epoch]);
    }
}

#[test]
fn what_stands_by_for_long_is_renewed_and_does_not_fail() {
    let mut session = served();
    let mut now = Instant::from_nanos(7);
    let epoch = doubted(&mut session, now);
    let end = now + LEASE + DEPLOY_MAX;
    let mut told = 0;
    while now < end {
        now = now + Duration::from_secs(1);
        session.handle_subscribe(SINK, now);
        session.handle_doubt(SOURCE, UPPER, now + DOUBT);
        session.handle_timeout(NOTHING, now);
        for output in outputs(&mut session) {
            let is_it = |of| of == epoch;
            match output {
                Output::Prepare { epoch, .. } if is_it(epoch) => told += 1,
                Output::Renew { epochs, .. } => {
                    told += epochs.into_iter().filter(|of| is_it(*of)).count();
                }
                Output::Prepare { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(told, 3 * 4, "three nodes, each ten seconds");
    session.handle_suspect(SOURCE, UPPER, now + RENEW);
    session.handle_plan(SINK, by(LOWER), now);
    assert_eq!(active(&session), [epoch]);
}

#[test]
fn what_stands_by_on_a_plan_that_comes_into_force_is_given_no_copies_before_it_is_taken_up() {
    let mut session = served();
    let now = Instant::from_nanos(7);
    session.handle_subscribe(OTHER, now);
    let second = session.handle_plan(OTHER, to_other(UPPER), now);
    let second = second.expect("a plan");
    for node in [UPPER, OTHER] {
        session.handle_ready(node, second, now);
    }
    session.handle_casting(UPPER, second, now);
    assert_eq!(active(&session), [Epoch(1), second]);
    // A move that had begun before the doubt goes on; what is grafted on it stands by.
    let third = session.handle_plan(SINK, by(LOWER), now).expect("a plan");
    session.handle_doubt(LOWER, UPPER, now + DOUBT);
    let fourth = session.handle_plan(OTHER, to_other(LOWER), now);
    let fourth = fourth.expect("a plan");
    assert_eq!(session.graft(fourth).map(|graft| graft.base), Some(third));
    for node in [LOWER, OTHER] {
        session.handle_ready(node, fourth, now);
    }
    answer(&mut session, third, LOWER, now);
    assert_eq!(active(&session), [third, second]);
    assert_eq!(cast(&mut session), [second]);
    session.handle_timeout(NOTHING, now + DOUBT);
    session.handle_plan(OTHER, to_other(LOWER), now + DOUBT);
    assert_eq!(cast(&mut session), [fourth]);
    session.handle_casting(LOWER, fourth, now + DOUBT);
    assert_eq!(active(&session), [third, fourth]);
}

#[test]
fn what_stands_by_on_a_plan_that_is_taken_up_takes_over_with_it() {
    let mut session = served();
    let now = Instant::from_nanos(7);
    session.handle_subscribe(OTHER, now);
    let second = session.handle_plan(OTHER, to_other(THIRD), now);
    for node in [SOURCE, THIRD, OTHER] {
        session.handle_ready(node, second.expect("a plan"), now);
    }
    outputs(&mut session);
    let third = doubted(&mut session, now);
    let fourth = session.handle_plan(OTHER, to_other(LOWER), now);
    let fourth = fourth.expect("a plan");
    for node in [LOWER, OTHER] {
        session.handle_ready(node, fourth, now);
    }
    assert_eq!(cast(&mut session), [fourth], "nothing comes under 3 yet");
    session.handle_casting(LOWER, fourth, now);
    assert_eq!(active(&session), [Epoch(1), Epoch(2)]);
    // What is broken is the way of the one only.
    session.handle_suspect(SOURCE, UPPER, now + RENEW);
    session.handle_plan(SINK, by(LOWER), now);
    assert_eq!(active(&session), [third, fourth]);
}
