//! Proves how long plans lie that gave way, and what they are still given.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::super::{Feed, LEASE, Output, Part, RENEW, RENEW_GRID, Session};
use super::{LATE_MAX, LEFT_MIN, UNDER_WAY_MAX};
use crate::id::{Epoch, NodeId, Sequence};
use crate::time::{Duration, Instant};

/// What is under way.
const NOTHING: fn(Epoch) -> bool = |_| false;

const SOURCE: NodeId = NodeId([1; 32]);
const RELAY: NodeId = NodeId([2; 32]);
const SINK: NodeId = NodeId([3; 32]);
const OTHER: NodeId = NodeId([4; 32]);
const NEXT: Sequence = Sequence(43);

/// Returns the way to a sink, with an adapter on its relay.
fn to(sink: NodeId, adapter: &str) -> Vec<Part> {
    let part = |node| Part {
        node,
        adapters: Vec::new(),
        plaintext: true,
    };
    let mut parts: Vec<Part> = [SOURCE, RELAY, sink].map(part).into();
    parts[1].adapters.push(adapter.into());
    parts
}

fn outputs(session: &mut Session) -> Vec<Output> {
    core::iter::from_fn(|| session.poll_output()).collect()
}

/// Has a plan made and come into force; what that asks for is done.
fn serve(session: &mut Session, sink: NodeId, adapter: &str, now: Instant) -> Epoch {
    session.handle_subscribe(sink, now);
    let epoch = session.handle_plan(sink, to(sink, adapter), now);
    let epoch = epoch.expect("a new plan");
    for node in [SOURCE, RELAY, sink] {
        session.handle_ready(node, epoch, now);
    }
    session.handle_casting(RELAY, epoch, now);
    assert!(session.active().any(|active| active == (sink, epoch)));
    outputs(session);
    epoch
}

/// Returns a session in which the second plan is grafted on the first.
fn shared() -> (Session, [Epoch; 2]) {
    let mut session = Session::recast(Duration::from_secs(1));
    let epochs = [SINK, OTHER].map(|sink| serve(&mut session, sink, "null", Instant::ZERO));
    assert_eq!(
        session.graft(epochs[1]).map(|graft| graft.base),
        Some(epochs[0])
    );
    outputs(&mut session);
    (session, epochs)
}

/// Returns what casters are told of plans.
fn told(outputs: &[Output]) -> Vec<(Epoch, Feed)> {
    let cast = |output: &Output| match output {
        Output::Cast { epoch, feed, .. } => Some((*epoch, *feed)),
        _ => None,
    };
    outputs.iter().filter_map(cast).collect()
}

/// Lets time pass; returns when each of these plans was released, and how often it was renewed at its sink until then.
fn pass(
    session: &mut Session,
    epochs: [Epoch; 2],
    is_under_way: impl Fn(Epoch) -> bool,
) -> [(Option<Instant>, usize); 2] {
    let mut ends = [(None, 0); 2];
    let mut now = Instant::ZERO;
    while now < Instant::ZERO + UNDER_WAY_MAX + LEASE {
        now = session.poll_timeout().max(now);
        if now.is_never() {
            break;
        }
        for sink in [SINK, OTHER] {
            // Or their leases end.
            session.handle_subscribe(sink, now);
        }
        session.handle_timeout(&is_under_way, now);
        for output in outputs(session) {
            for (epoch, (released, renewals)) in epochs.iter().zip(&mut ends) {
                let is_at_sink = |route: &[NodeId]| route.len() == 3;
                match &output {
                    Output::Release { epoch: of, .. } if of == epoch => *released = Some(now),
                    Output::Renew { epochs, route } if is_at_sink(route) => {
                        *renewals += usize::from(epochs.contains(epoch));
                    }
                    _ => {}
                }
            }
        }
    }
    ends
}

#[test]
fn what_was_taken_over_from_is_given_what_was_given_before_and_nothing_twice() {
    let (mut session, [base, graft]) = shared();
    let now = Instant::ZERO + RENEW;
    session.handle_next(NEXT);
    assert_eq!(
        told(&outputs(&mut session)),
        [],
        "nothing was taken over from"
    );
    serve(&mut session, OTHER, "keep:1", now);
    assert_eq!(told(&outputs(&mut session)), []);
    session.handle_next(NEXT);
    session.handle_timeout(NOTHING, now);
    assert_eq!(told(&outputs(&mut session)), [(graft, Feed::Until(NEXT))]);
    // What its caster has forgotten, it is told again.
    session.handle_lacking(RELAY, &[base, graft], now);
    assert_eq!(told(&outputs(&mut session)), [(graft, Feed::Until(NEXT))]);
    session.handle_next(Sequence(NEXT.0 + 1));
    session.handle_timeout(NOTHING, now);
    assert_eq!(told(&outputs(&mut session)), []);
}

/// Has a plan for the last of a line of sinks made and come into force: each is a node of the way to those behind it.
fn serve_line(session: &mut Session, line: &[NodeId], adapter: &str) -> Epoch {
    let (now, sink) = (Instant::ZERO, line[line.len() - 1]);
    let mut parts = to(line[0], adapter);
    let behind = line[1..].iter().map(|node| Part {
        node: *node,
        ..parts[2].clone()
    });
    let behind: Vec<Part> = behind.collect();
    parts.extend(behind);
    session.handle_subscribe(sink, now);
    let epoch = session.handle_plan(sink, parts, now).expect("a new plan");
    for node in [SOURCE, RELAY].iter().chain(line) {
        session.handle_ready(*node, epoch, now);
    }
    for node in [RELAY].iter().chain(line) {
        session.handle_casting(*node, epoch, now);
    }
    assert!(session.active().any(|active| active == (sink, epoch)));
    outputs(session);
    epoch
}

#[test]
fn what_something_in_force_lives_on_is_given_all_until_that_moves() {
    let line = [5, 6, 7].map(|node| NodeId([node; 32]));
    for depth in 1..=line.len() {
        let mut session = Session::recast(Duration::from_secs(1));
        serve(&mut session, SINK, "null", Instant::ZERO);
        let all = 1..=depth;
        let before: Vec<Epoch> = all
            .clone()
            .map(|depth| serve_line(&mut session, &line[..depth], "null"))
            .collect();
        // One after the other moves, the first first; what the last lives on is not its sink's any more, however far before it.
        for moved in all {
            session.handle_next(NEXT);
            session.handle_timeout(NOTHING, Instant::ZERO);
            let said = outputs(&mut session);
            assert_eq!(told(&said), [], "{moved} of {depth}");
            serve_line(&mut session, &line[..moved], "keep:1");
        }
        session.handle_next(NEXT);
        session.handle_timeout(NOTHING, Instant::ZERO);
        let until = before.iter().rev().map(|plan| (*plan, Feed::Until(NEXT)));
        assert_eq!(told(&outputs(&mut session)), until.collect::<Vec<_>>());
    }
}

#[test]
fn nothing_is_copied_for_who_has_left() {
    let (mut session, [_, graft]) = shared();
    session.handle_unsubscribe(OTHER, Instant::ZERO);
    session.handle_next(NEXT);
    assert_eq!(session.poll_timeout(), Instant::ZERO);
    session.handle_timeout(NOTHING, Instant::ZERO);
    assert_eq!(told(&outputs(&mut session)), [(graft, Feed::Off)]);
}

#[test]
fn a_plan_lies_while_something_is_under_way_by_it_or_by_its_base() {
    let start = Instant::ZERO;
    let usual = Some(start + LEASE);
    for (is_base, is_graft, until) in [
        (false, false, [usual; 2]),
        // Nothing that is under way by the graft was given by its base alone.
        (false, true, [Some(start + UNDER_WAY_MAX); 2]),
        (true, false, [Some(start + UNDER_WAY_MAX); 2]),
    ] {
        let (mut session, epochs) = shared();
        for sink in [SINK, OTHER] {
            serve(&mut session, sink, "keep:1", start);
        }
        outputs(&mut session);
        let [base, graft] = epochs;
        let is_under_way = |epoch| epoch == base && is_base || epoch == graft && is_graft;
        let ends = pass(&mut session, epochs, is_under_way);
        assert_eq!(ends.map(|(released, _)| released), until);
        // Leases are longer than twice what lies between.
        let least = until[0].unwrap_or(start).as_nanos() / RENEW.as_nanos();
        for (_, renewals) in ends {
            assert!(renewals as u64 + 1 >= least, "{renewals} of {least}");
        }
    }
}

#[test]
fn what_is_under_way_for_a_while_keeps_a_plan_until_then() {
    let (mut session, [base, graft]) = shared();
    serve(&mut session, OTHER, "keep:1", Instant::ZERO);
    let end = Instant::ZERO + LEASE;
    for sink in [SINK, OTHER] {
        session.handle_subscribe(sink, end);
    }
    session.handle_timeout(|epoch| epoch == graft, end);
    let released = |said: &[Output]| {
        let is_it = |o: &&Output| matches!(o, Output::Release { epoch, .. } if *epoch == graft);
        said.iter().filter(is_it).count()
    };
    assert_eq!(released(&outputs(&mut session)), 0);
    // By a plan in force there is always something under way.
    session.handle_timeout(|epoch| epoch == base, end + RENEW_GRID);
    assert_eq!(released(&outputs(&mut session)), 3);
}

#[test]
fn a_node_that_leaves_waits_while_something_is_under_way_and_no_longer() {
    const DEADLINE: Duration = Duration::from_secs(5);
    let start = Instant::ZERO;
    for is_left_first in [false, true] {
        for (is_open, end) in [(false, LEFT_MIN), (true, DEADLINE)] {
            let mut session = Session::recast(DEADLINE);
            let before = serve(&mut session, SINK, "null", start);
            if is_left_first {
                session.handle_leave(RELAY, start);
            }
            // By another node, as a leaver asks for.
            let mut around = to(SINK, "null");
            around[1].node = OTHER;
            let after = session.handle_plan(SINK, around, start);
            for node in [SOURCE, OTHER, SINK] {
                session.handle_ready(node, after.expect("a new plan"), start);
            }
            session.handle_leave(RELAY, start);
            outputs(&mut session);
            let [(released, _), _] = pass(&mut session, [before; 2], |_| is_open);
            assert_eq!(released, Some(start + end), "left first: {is_left_first}");
        }
    }
}

#[test]
fn of_many_plans_that_give_way_at_once_a_few_lie_longer() {
    let mut session = Session::recast(Duration::from_secs(1));
    let sinks: Vec<NodeId> = (10..10 + LATE_MAX as u8 + 6)
        .map(|n| NodeId([n; 32]))
        .collect();
    for adapter in ["null", "keep:1"] {
        for sink in &sinks {
            serve(&mut session, *sink, adapter, Instant::ZERO);
        }
    }
    let mut released = |now| {
        for sink in &sinks {
            session.handle_subscribe(*sink, now);
        }
        session.handle_timeout(|_| true, now);
        let said = outputs(&mut session);
        let plans = said.iter().filter_map(|output| match output {
            Output::Release { epoch, .. } => Some(*epoch),
            _ => None,
        });
        plans.collect::<BTreeSet<Epoch>>().len()
    };
    assert_eq!(released(Instant::ZERO + LEASE), 6);
    assert_eq!(released(Instant::ZERO + LEASE + RENEW), 0);
    assert_eq!(released(Instant::ZERO + UNDER_WAY_MAX), LATE_MAX);
}

#[test]
fn who_comes_and_goes_before_it_is_served_leaves_nothing_behind() {
    let mut session = Session::recast(Duration::from_secs(1));
    session.handle_subscribe(SINK, Instant::ZERO);
    session.handle_plan(SINK, to(SINK, "null"), Instant::ZERO);
    session.handle_unsubscribe(SINK, Instant::ZERO);
    session.handle_timeout(NOTHING, Instant::ZERO);
    let said = outputs(&mut session);
    let released = |o: &&Output| matches!(o, Output::Release { .. });
    assert_eq!(said.iter().filter(released).count(), 3);
    assert_eq!(session.poll_timeout(), Instant::NEVER);
}

#[test]
fn what_only_one_to_come_into_force_lived_on_is_ended_when_that_is_given_up() {
    let (mut session, [_, graft]) = shared();
    let third = NodeId([5; 32]);
    let behind = |adapter| {
        let mut parts = to(OTHER, adapter);
        parts.push(Part {
            node: third,
            ..parts[2].clone()
        });
        parts
    };
    session.handle_subscribe(third, Instant::ZERO);
    session.handle_plan(third, behind("null"), Instant::ZERO);
    serve(&mut session, OTHER, "keep:1", Instant::ZERO);
    session.handle_next(NEXT);
    session.handle_timeout(NOTHING, Instant::ZERO);
    assert_eq!(told(&outputs(&mut session)), []);
    // It changes nothing of what is given, so the driver has nothing more to say.
    session.handle_plan(third, behind("keep:1"), Instant::ZERO);
    session.handle_timeout(NOTHING, Instant::ZERO);
    let said = told(&outputs(&mut session));
    assert!(said.contains(&(graft, Feed::Until(NEXT))), "{said:?}");
}
