//! Proves how long replaced plans stay installed, and what their casters still copy.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, Sequence};
use thalweg_base::time::{Duration, Instant};

use super::super::{Feed, LEASE, Output, Part, RENEW, RENEW_GRID, Session};
use super::{IN_FLIGHT_MAX, LATE_MAX, LEAVE_DRAIN_MIN};

/// No plan has ADUs in flight.
const NOTHING: fn(Epoch) -> bool = |_| false;

const SOURCE: NodeId = NodeId([1; 32]);
const RELAY: NodeId = NodeId([2; 32]);
const SINK: NodeId = NodeId([3; 32]);
const OTHER: NodeId = NodeId([4; 32]);
const NEXT: Sequence = Sequence(43);

/// Returns the path to a sink, with an adapter on its relay.
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

/// Deploys a plan until it is in force, and carries out its outputs.
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

/// Returns the casts among the outputs.
fn casts(outputs: &[Output]) -> Vec<(Epoch, Feed)> {
    let cast = |output: &Output| match output {
        Output::Cast { epoch, feed, .. } => Some((*epoch, *feed)),
        _ => None,
    };
    outputs.iter().filter_map(cast).collect()
}

/// Lets time pass; returns when each of these plans was released, and how often it was renewed at
/// its sink before.
fn pass(
    session: &mut Session,
    epochs: [Epoch; 2],
    is_in_flight: impl Fn(Epoch) -> bool,
) -> [(Option<Instant>, usize); 2] {
    let mut ends = [(None, 0); 2];
    let mut now = Instant::ZERO;
    while now < Instant::ZERO + IN_FLIGHT_MAX + LEASE {
        now = session.poll_timeout().max(now);
        if now.is_never() {
            break;
        }
        for sink in [SINK, OTHER] {
            // Otherwise their leases would end.
            session.handle_subscribe(sink, now);
        }
        session.handle_timeout(&is_in_flight, now);
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
fn replaced_graft_gets_only_older_adus() {
    let (mut session, [base, graft]) = shared();
    let now = Instant::ZERO + RENEW;
    session.handle_next(NEXT);
    assert_eq!(
        casts(&outputs(&mut session)),
        [],
        "nothing was taken over from"
    );
    serve(&mut session, OTHER, "keep:1", now);
    assert_eq!(casts(&outputs(&mut session)), []);
    session.handle_next(NEXT);
    session.handle_timeout(NOTHING, now);
    assert_eq!(casts(&outputs(&mut session)), [(graft, Feed::Until(NEXT))]);
    // A caster that lost its part is sent the part and the cast again.
    session.handle_lacking(RELAY, &[base, graft], now);
    assert_eq!(casts(&outputs(&mut session)), [(graft, Feed::Until(NEXT))]);
    session.handle_next(Sequence(NEXT.0 + 1));
    session.handle_timeout(NOTHING, now);
    assert_eq!(casts(&outputs(&mut session)), []);
}

/// Brings into force a plan for the last of a line of sinks, each of which relays to those behind it.
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
fn base_of_live_plan_is_fed_fully() {
    let line = [5, 6, 7].map(|node| NodeId([node; 32]));
    for depth in 1..=line.len() {
        let mut session = Session::recast(Duration::from_secs(1));
        serve(&mut session, SINK, "null", Instant::ZERO);
        let all = 1..=depth;
        let before: Vec<Epoch> = all
            .clone()
            .map(|depth| serve_line(&mut session, &line[..depth], "null"))
            .collect();
        // They move one by one from the front; the bases of the last one are no longer their own
        // sinks' plans.
        for moved in all {
            session.handle_next(NEXT);
            session.handle_timeout(NOTHING, Instant::ZERO);
            let emitted = outputs(&mut session);
            assert_eq!(casts(&emitted), [], "{moved} of {depth}");
            serve_line(&mut session, &line[..moved], "keep:1");
        }
        session.handle_next(NEXT);
        session.handle_timeout(NOTHING, Instant::ZERO);
        let until = before.iter().rev().map(|plan| (*plan, Feed::Until(NEXT)));
        assert_eq!(casts(&outputs(&mut session)), until.collect::<Vec<_>>());
    }
}

#[test]
fn no_copies_after_unsubscribe() {
    let (mut session, [_, graft]) = shared();
    session.handle_unsubscribe(OTHER, Instant::ZERO);
    session.handle_next(NEXT);
    assert_eq!(session.poll_timeout(), Instant::ZERO);
    session.handle_timeout(NOTHING, Instant::ZERO);
    assert_eq!(casts(&outputs(&mut session)), [(graft, Feed::Off)]);
}

#[test]
fn plan_stays_while_adus_are_in_flight() {
    let start = Instant::ZERO;
    let usual = Some(start + LEASE);
    for (is_base, is_graft, until) in [
        (false, false, [usual; 2]),
        // The base stays with its graft: what is in flight by the graft came through the base.
        (false, true, [Some(start + IN_FLIGHT_MAX); 2]),
        (true, false, [Some(start + IN_FLIGHT_MAX); 2]),
    ] {
        let (mut session, epochs) = shared();
        for sink in [SINK, OTHER] {
            serve(&mut session, sink, "keep:1", start);
        }
        outputs(&mut session);
        let [base, graft] = epochs;
        let is_in_flight = |epoch| epoch == base && is_base || epoch == graft && is_graft;
        let ends = pass(&mut session, epochs, is_in_flight);
        assert_eq!(ends.map(|(released, _)| released), until);
        // Leases are longer than twice the renewal interval.
        let least = until[0].unwrap_or(start).as_nanos() / RENEW.as_nanos();
        for (_, renewals) in ends {
            assert!(renewals as u64 + 1 >= least, "{renewals} of {least}");
        }
    }
}

#[test]
fn plan_is_released_when_flight_ends() {
    let (mut session, [base, graft]) = shared();
    serve(&mut session, OTHER, "keep:1", Instant::ZERO);
    let end = Instant::ZERO + LEASE;
    for sink in [SINK, OTHER] {
        session.handle_subscribe(sink, end);
    }
    session.handle_timeout(|epoch| epoch == graft, end);
    let released = |emitted: &[Output]| {
        let is_it = |o: &&Output| matches!(o, Output::Release { epoch, .. } if *epoch == graft);
        emitted.iter().filter(is_it).count()
    };
    assert_eq!(released(&outputs(&mut session)), 0);
    // A plan in force always has ADUs in flight.
    session.handle_timeout(|epoch| epoch == base, end + RENEW_GRID);
    assert_eq!(released(&outputs(&mut session)), 3);
}

#[test]
fn leaver_waits_only_for_adus_in_flight() {
    const DEADLINE: Duration = Duration::from_secs(5);
    let start = Instant::ZERO;
    for is_left_first in [false, true] {
        for (is_open, end) in [(false, LEAVE_DRAIN_MIN), (true, DEADLINE)] {
            let mut session = Session::recast(DEADLINE);
            let before = serve(&mut session, SINK, "null", start);
            if is_left_first {
                session.handle_leave(RELAY, start);
            }
            // By another node, as a leaver requests.
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
fn few_of_many_retired_plans_stay_longer() {
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
        let emitted = outputs(&mut session);
        let plans = emitted.iter().filter_map(|output| match output {
            Output::Release { epoch, .. } => Some(*epoch),
            _ => None,
        });
        plans.collect::<BTreeSet<Epoch>>().len()
    };
    assert_eq!(released(Instant::ZERO + LEASE), 6);
    assert_eq!(released(Instant::ZERO + LEASE + RENEW), 0);
    assert_eq!(released(Instant::ZERO + IN_FLIGHT_MAX), LATE_MAX);
}

#[test]
fn unserved_sink_leaves_nothing_behind() {
    let mut session = Session::recast(Duration::from_secs(1));
    session.handle_subscribe(SINK, Instant::ZERO);
    session.handle_plan(SINK, to(SINK, "null"), Instant::ZERO);
    session.handle_unsubscribe(SINK, Instant::ZERO);
    session.handle_timeout(NOTHING, Instant::ZERO);
    let emitted = outputs(&mut session);
    let released = |o: &&Output| matches!(o, Output::Release { .. });
    assert_eq!(emitted.iter().filter(released).count(), 3);
    assert_eq!(session.poll_timeout(), Instant::NEVER);
}

#[test]
fn base_of_abandoned_plan_is_ended() {
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
    assert_eq!(casts(&outputs(&mut session)), []);
    // The set of active plans does not change, so the driver reports no new sequence.
    session.handle_plan(third, behind("keep:1"), Instant::ZERO);
    session.handle_timeout(NOTHING, Instant::ZERO);
    let emitted = casts(&outputs(&mut session));
    assert!(emitted.contains(&(graft, Feed::Until(NEXT))), "{emitted:?}");
}
