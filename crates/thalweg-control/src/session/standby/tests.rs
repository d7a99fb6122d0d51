//! Proves that no plan replaces a healthy one while a link is doubted, and what happens afterwards.

use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId};
use thalweg_base::time::{Duration, Instant};

use super::super::{DEPLOY_MAX, LEASE, Output, Part, RENEW, Session};
use crate::routing::LinkChanges;

/// No plan has ADUs in flight.
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

/// Returns the same path to the other sink.
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

/// Returns a session with a plan in force by the upper relay.
fn served() -> Session {
    let mut session = Session::recast(Duration::from_secs(1));
    session.handle_subscribe(SINK, Instant::ZERO);
    let epoch = session.handle_plan(SINK, by(UPPER), Instant::ZERO);
    answer(&mut session, epoch.expect("a plan"), UPPER, Instant::ZERO);
    outputs(&mut session);
    session
}

/// Doubts the upper relay until then, and prepares the lower.
fn doubted(session: &mut Session, now: Instant) -> Epoch {
    session.handle_doubt(SOURCE, UPPER, now + DOUBT);
    assert_eq!(outputs(session), [Output::PlanWanted { sink: SINK }]);
    let epoch = session.handle_plan(SINK, by(LOWER), now).expect("a plan");
    answer(session, epoch, LOWER, now);
    outputs(session);
    epoch
}

/// Returns the plans cast since the last call.
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
fn standby_takes_over_when_path_breaks() {
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
fn unready_standby_takes_over_later() {
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
fn end_of_doubt_replans_once() {
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
fn planned_move_waits_for_end_of_doubt() {
    let mut session = served();
    let now = Instant::from_nanos(7);
    // A doubt of another link does not touch this stream's paths.
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
fn unhealthy_plan_is_replaced_at_once() {
    let now = Instant::from_nanos(7);
    let damage: [fn(&mut Session, Instant); 4] = [
        |session, now| session.handle_change(&LinkChanges::all(), |_, _| false, now),
        |session, now| session.handle_leave(UPPER, now),
        |session, now| {
            session.handle_key(now);
        },
        |session, now| {
            session.handle_unsubscribe(SINK, now);
            session.handle_subscribe(SINK, now);
        },
    ];
    for damage in damage {
        let mut session = served();
        session.handle_doubt(SOURCE, UPPER, now + DOUBT);
        damage(&mut session, now);
        let epoch = session.handle_plan(SINK, by(LOWER), now).expect("a plan");
        answer(&mut session, epoch, LOWER, now);
        assert_eq!(active(&session), [epoch]);
    }
}

#[test]
fn long_standby_is_renewed() {
    let mut session = served();
    let mut now = Instant::from_nanos(7);
    let epoch = doubted(&mut session, now);
    let end = now + LEASE + DEPLOY_MAX;
    let mut messages = 0;
    while now < end {
        now = now + Duration::from_secs(1);
        session.handle_subscribe(SINK, now);
        session.handle_doubt(SOURCE, UPPER, now + DOUBT);
        session.handle_timeout(NOTHING, now);
        for output in outputs(&mut session) {
            let is_it = |of| of == epoch;
            match output {
                Output::Prepare { epoch, .. } if is_it(epoch) => messages += 1,
                Output::Renew { epochs, .. } => {
                    messages += epochs.into_iter().filter(|of| is_it(*of)).count();
                }
                Output::Prepare { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(messages, 3 * 4, "three nodes, each ten seconds");
    session.handle_suspect(SOURCE, UPPER, now + RENEW);
    session.handle_plan(SINK, by(LOWER), now);
    assert_eq!(active(&session), [epoch]);
}

#[test]
fn standby_on_live_base_is_not_cast() {
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
    // A move that started before the doubt goes on; its graft stands by.
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
fn standby_follows_its_standby_base() {
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
    // Only the path of the one plan is broken.
    session.handle_suspect(SOURCE, UPPER, now + RENEW);
    session.handle_plan(SINK, by(LOWER), now);
    assert_eq!(active(&session), [third, fourth]);
}
