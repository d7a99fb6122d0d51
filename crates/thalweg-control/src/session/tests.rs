//! Proves that a plan takes over only when all nodes are ready, that failures are retried, and that
//! leases end.

use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId};
use thalweg_base::time::{Duration, Instant};

use super::look::{LOOK_PACE, SINKS_FEW};
use super::path::Path;
use super::{DEPLOY_MAX, Feed, LEASE, Output, Part, RENEW, RENEW_GRID, RESEND, RETRY, Session};
use crate::routing::LinkChanges;

/// No plan has ADUs in flight.
const NOTHING: fn(Epoch) -> bool = |_| false;

const SOURCE: NodeId = NodeId([1; 32]);
const RELAY: NodeId = NodeId([2; 32]);
const SINK: NodeId = NodeId([3; 32]);

fn parts(adapter: &str) -> Vec<Part> {
    let part = |node| Part {
        node,
        adapters: [adapter.into()].into(),
        plaintext: true,
    };
    [SOURCE, RELAY, SINK].map(part).into()
}

fn outputs(session: &mut Session) -> Vec<Output> {
    core::iter::from_fn(|| session.poll_output()).collect()
}

fn prepared(outputs: &[Output]) -> Vec<NodeId> {
    let node = |output: &Output| match output {
        Output::Prepare { part, .. } => Some(part.node),
        _ => None,
    };
    outputs.iter().filter_map(node).collect()
}

/// Returns the nodes with renewed parts, each with the plans.
fn renewed(outputs: &[Output]) -> Vec<(NodeId, Vec<Epoch>)> {
    let renewal = |output: &Output| match output {
        Output::Renew { epochs, route } => Some((*route.last()?, epochs.clone())),
        _ => None,
    };
    outputs.iter().filter_map(renewal).collect()
}

fn deployed(adapter: &str) -> (Session, Epoch) {
    let mut session = Session::default();
    session.handle_subscribe(SINK, Instant::ZERO);
    let epoch = session
        .handle_plan(SINK, parts(adapter), Instant::ZERO)
        .expect("a new plan");
    for node in [SOURCE, RELAY, SINK] {
        session.handle_ready(node, epoch, Instant::ZERO);
    }
    outputs(&mut session);
    (session, epoch)
}

#[test]
fn plan_takes_over_when_all_are_ready() {
    let mut session = Session::default();
    session.handle_subscribe(SINK, Instant::ZERO);
    assert_eq!(outputs(&mut session), [Output::PlanWanted { sink: SINK }]);
    let epoch = session
        .handle_plan(SINK, parts("null"), Instant::ZERO)
        .expect("a new plan");
    assert_eq!(prepared(&outputs(&mut session)), [SOURCE, RELAY, SINK]);
    session.handle_ready(SINK, epoch, Instant::ZERO);
    session.handle_ready(SOURCE, epoch, Instant::ZERO);
    assert_eq!(
        (outputs(&mut session), session.active().count()),
        (Vec::new(), 0)
    );
    session.handle_ready(RELAY, epoch, Instant::ZERO);
    let expected = [
        Output::Switched { sink: SINK, epoch },
        Output::Replay {
            sink: SINK,
            to: epoch,
        },
    ];
    assert_eq!(outputs(&mut session), expected);
    assert_eq!(session.active().collect::<Vec<_>>(), [(SINK, epoch)]);
}

#[test]
fn only_silent_nodes_are_asked_again() {
    let mut session = Session::default();
    session.handle_subscribe(SINK, Instant::ZERO);
    let epoch = session
        .handle_plan(SINK, parts("null"), Instant::ZERO)
        .expect("a new plan");
    session.handle_ready(SOURCE, epoch, Instant::ZERO);
    session.handle_ready(SINK, epoch, Instant::ZERO);
    outputs(&mut session);
    session.handle_timeout(NOTHING, Instant::ZERO + RESEND - Duration::from_nanos(1));
    assert_eq!(outputs(&mut session), []);
    session.handle_timeout(NOTHING, Instant::ZERO + RESEND);
    assert_eq!(prepared(&outputs(&mut session)), [RELAY]);
    let end = Instant::ZERO + DEPLOY_MAX;
    session.handle_timeout(NOTHING, end);
    let emitted = outputs(&mut session);
    let failed =
        |o: &Output| matches!(o, Output::Failed { reason, .. } if reason.contains("no answer"));
    assert!(emitted.iter().any(failed), "{emitted:?}");
    assert_eq!(
        emitted
            .iter()
            .filter(|o| matches!(o, Output::Release { .. }))
            .count(),
        3
    );
    session.handle_timeout(NOTHING, end + RETRY);
    assert_eq!(outputs(&mut session), [Output::PlanWanted { sink: SINK }]);
}

#[test]
fn old_plan_drains_after_switch() {
    let (mut session, first) = deployed("null");
    let now = Instant::from_nanos(1);
    let second = session
        .handle_plan(SINK, parts("keep:1"), now)
        .expect("another plan");
    assert!(second > first);
    assert_eq!(session.active().collect::<Vec<_>>(), [(SINK, first)]);
    for node in [SOURCE, RELAY, SINK] {
        session.handle_ready(node, second, now);
    }
    assert_eq!(session.active().collect::<Vec<_>>(), [(SINK, second)]);
    session.handle_subscribe(SINK, now + RENEW);
    outputs(&mut session);
    let released = |outputs: &[Output]| {
        outputs
            .iter()
            .any(|o| matches!(o, Output::Release { epoch, .. } if *epoch == first))
    };
    session.handle_timeout(NOTHING, now + LEASE - Duration::from_nanos(1));
    assert!(!released(&outputs(&mut session)));
    session.handle_timeout(NOTHING, now + LEASE);
    assert!(released(&outputs(&mut session)));
}

#[test]
fn same_plan_is_not_deployed_twice() {
    let (mut session, _) = deployed("null");
    assert_eq!(
        session.handle_plan(SINK, parts("null"), Instant::ZERO),
        None
    );
    session.handle_change(&LinkChanges::all(), |_, _| true, Instant::ZERO);
    session.handle_change(&LinkChanges::all(), |_, _| true, Instant::ZERO);
    assert_eq!(outputs(&mut session), [Output::PlanWanted { sink: SINK }]);
    assert_eq!(
        session.handle_plan(SINK, parts("null"), Instant::ZERO),
        None
    );
    assert_eq!(outputs(&mut session), []);
}

/// Deploys the same parts again, and returns the outputs once all nodes are ready.
fn redeployed(session: &mut Session, now: Instant) -> (Epoch, Vec<Output>) {
    let epoch = session.handle_plan(SINK, parts("null"), now);
    let epoch = epoch.expect("a plan of its own");
    outputs(session);
    for node in [SOURCE, RELAY, SINK] {
        session.handle_ready(node, epoch, now);
    }
    (epoch, outputs(session))
}

#[test]
fn broken_plan_is_redeployed_and_resent() {
    let (mut session, first) = deployed("null");
    let now = Instant::ZERO;
    session.handle_change(
        &LinkChanges::all(),
        |from, to| (from, to) != (RELAY, SINK),
        Instant::ZERO,
    );
    session.handle_no_plan(SINK, now);
    session.handle_change(&LinkChanges::all(), |_, _| true, Instant::ZERO);
    outputs(&mut session);
    let (second, emitted) = redeployed(&mut session, now);
    let resend = Output::Resend {
        sink: SINK,
        from: vec![first],
        to: second,
        under: second,
    };
    let epoch = second;
    assert_eq!(emitted, [Output::Switched { sink: SINK, epoch }, resend]);
    assert_eq!(session.active().collect::<Vec<_>>(), [(SINK, second)]);
}

#[test]
fn only_reliable_stream_resends_for_leaver() {
    for (session, is_resent) in [
        (Session::default(), true),
        (Session::recast(Duration::from_secs(1)), false),
    ] {
        let (mut session, now) = (session, Instant::ZERO);
        session.handle_subscribe(SINK, now);
        let mut emitted = Vec::new();
        for adapter in ["null", "keep:1"] {
            let epoch = session.handle_plan(SINK, parts(adapter), now);
            let epoch = epoch.expect("another plan");
            for node in [SOURCE, RELAY, SINK] {
                session.handle_ready(node, epoch, now);
            }
            emitted = outputs(&mut session);
            session.handle_leave(RELAY, now);
        }
        let resent = |output: &Output| matches!(output, Output::Resend { .. });
        assert_eq!(emitted.iter().any(resent), is_resent);
    }
}

#[test]
fn suspicion_requests_plan_while_it_lasts() {
    let (mut session, first) = deployed("null");
    let until = Instant::ZERO + Duration::from_secs(10);
    session.handle_suspect(SINK, RELAY, until);
    assert_eq!(outputs(&mut session), [], "no plan has this hop");
    session.handle_suspect(RELAY, SINK, until);
    assert_eq!(outputs(&mut session), [Output::PlanWanted { sink: SINK }]);
    let same = session.handle_plan(SINK, parts("null"), Instant::ZERO);
    assert_eq!(same, None, "there is no other path");
    for (now, is_resent) in [(until - Duration::from_nanos(1), true), (until, false)] {
        let (mut session, first) = (deployed("null").0, first);
        session.handle_subscribe(SINK, now);
        session.handle_suspect(RELAY, SINK, until);
        let epoch = session.handle_plan(SINK, parts("keep:1"), now);
        let epoch = epoch.expect("another path");
        outputs(&mut session);
        for node in [SOURCE, RELAY, SINK] {
            session.handle_ready(node, epoch, now);
        }
        let resend = Output::Resend {
            sink: SINK,
            from: vec![first],
            to: epoch,
            under: epoch,
        };
        assert_eq!(outputs(&mut session).contains(&resend), is_resent);
    }
}

#[test]
fn broken_former_plan_is_resent() {
    let (mut session, first) = deployed("keep:1");
    let now = Instant::ZERO;
    let (second, emitted) = redeployed(&mut session, now);
    assert_eq!(
        emitted.len(),
        1,
        "a planned move resends nothing: {emitted:?}"
    );
    session.handle_suspect(SOURCE, RELAY, now);
    assert_eq!(outputs(&mut session), [Output::PlanWanted { sink: SINK }]);
    let (third, emitted) = redeployed(&mut session, now);
    let resend = Output::Resend {
        sink: SINK,
        from: vec![first],
        to: third,
        under: third,
    };
    assert!(third > second && emitted.contains(&resend), "{emitted:?}");
    session.handle_change(&LinkChanges::all(), |from, _| from != SOURCE, Instant::ZERO);
    outputs(&mut session);
    let (_, emitted) = redeployed(&mut session, now);
    let is_first =
        |output: &Output| matches!(output, Output::Resend { from, .. } if from.contains(&first));
    assert!(!emitted.iter().any(is_first), "once is enough: {emitted:?}");
}

#[test]
fn silent_node_falls_back_to_renewals() {
    let (mut session, _) = deployed("null");
    session.handle_change(&LinkChanges::all(), |_, _| false, Instant::ZERO);
    session.handle_plan(SINK, parts("null"), Instant::ZERO);
    for second in 0..DEPLOY_MAX.as_millis() / RESEND.as_millis() {
        session.handle_timeout(NOTHING, Instant::ZERO + Duration::from_secs(second));
    }
    outputs(&mut session);
    let end = Instant::ZERO + DEPLOY_MAX;
    session.handle_timeout(NOTHING, end);
    let renewed_nodes = renewed(&outputs(&mut session)).into_iter();
    let renewed_nodes: Vec<NodeId> = renewed_nodes.map(|(node, _)| node).collect();
    assert_eq!(renewed_nodes, [SOURCE, RELAY, SINK]);
    assert_eq!(session.active().count(), 1);
    session.handle_timeout(NOTHING, end + RESEND);
    assert_eq!(outputs(&mut session), []);
}

#[test]
fn silent_subscriber_expires() {
    let (mut session, epoch) = deployed("null");
    session.handle_timeout(NOTHING, Instant::ZERO + RENEW);
    let all = [SOURCE, RELAY, SINK].map(|node| (node, [epoch].into()));
    assert_eq!(renewed(&outputs(&mut session)), all);
    session.handle_timeout(NOTHING, Instant::ZERO + LEASE);
    assert_eq!(session.active().count(), 1);
    let end = Instant::ZERO + LEASE + Duration::from_nanos(1);
    session.handle_timeout(NOTHING, end);
    assert!(outputs(&mut session).contains(&Output::Gone { sink: SINK }));
    session.handle_timeout(NOTHING, end + RENEW);
    let emitted = outputs(&mut session);
    let released = |o: &&Output| matches!(o, Output::Release { epoch: e, .. } if *e == epoch);
    assert_eq!(emitted.iter().filter(released).count(), 3);
    assert_eq!(session.poll_timeout(), Instant::NEVER);
}

#[test]
fn renewals_of_a_node_share_a_message() {
    let mut session = Session::recast(Duration::from_secs(1));
    let mut now = Instant::ZERO + Duration::from_millis(700);
    let others: Vec<NodeId> = (4..9).map(|n| NodeId([n; 32])).collect();
    for &sink in &others {
        session.handle_subscribe(sink, now);
        let mut parts = parts("null");
        parts[2].node = sink;
        let epoch = session.handle_plan(sink, parts, now).expect("a new plan");
        for node in [SOURCE, RELAY, sink] {
            session.handle_ready(node, epoch, now);
        }
        session.handle_casting(RELAY, epoch, now);
        now = now + Duration::from_millis(300);
    }
    assert_eq!(session.active().count(), others.len());
    outputs(&mut session);
    // All started within one step of the grid.
    let due = session.poll_timeout();
    assert!(due < now + RENEW && now + RENEW < due + RENEW_GRID + RENEW_GRID);
    session.handle_timeout(NOTHING, due);
    let emitted = renewed(&outputs(&mut session));
    let epochs: Vec<Epoch> = (1..=5).map(Epoch).collect();
    // Only the first sink's plan starts at the source; its grafts belong to the relay and the sinks.
    let mut wanted = [(SOURCE, [Epoch(1)].into()), (RELAY, epochs.clone())].to_vec();
    let own = others.iter().zip(&epochs);
    wanted.extend(own.map(|(sink, epoch)| (*sink, [*epoch].into())));
    assert_eq!(emitted, wanted);
}

#[test]
fn lacking_node_is_restored_once_per_resend() {
    let other = NodeId([4; 32]);
    let mut session = Session::recast(Duration::from_secs(1));
    let epochs = [SINK, other].map(|sink| {
        let mut parts = parts("null");
        parts[2].node = sink;
        session.handle_subscribe(sink, Instant::ZERO);
        let epoch = session.handle_plan(sink, parts, Instant::ZERO);
        let epoch = epoch.expect("a new plan");
        for node in [SOURCE, RELAY, sink] {
            session.handle_ready(node, epoch, Instant::ZERO);
        }
        session.handle_casting(RELAY, epoch, Instant::ZERO);
        epoch
    });
    outputs(&mut session);
    let mut lacks = |from, epochs: &[Epoch], now| {
        session.handle_lacking(from, epochs, now);
        let emitted = outputs(&mut session);
        let casts = |o: &&Output| {
            matches!(
                o,
                Output::Cast {
                    feed: Feed::Live,
                    ..
                }
            )
        };
        (prepared(&emitted), emitted.iter().filter(casts).count())
    };
    let now = Instant::ZERO + RENEW;
    assert_eq!(lacks(RELAY, &epochs, now), ([RELAY, RELAY].into(), 1));
    assert_eq!(lacks(RELAY, &epochs, now), (Vec::new(), 0));
    assert_eq!(lacks(other, &epochs, now), ([other].into(), 0));
    let later = now + RESEND;
    assert_eq!(lacks(RELAY, &epochs[1..], later), ([RELAY].into(), 1));
    // A node without a part, and an unknown plan, cause no output.
    let stranger = NodeId([9; 32]);
    assert_eq!(lacks(stranger, &epochs, later), (Vec::new(), 0));
    assert_eq!(lacks(RELAY, &[Epoch(99)], later), (Vec::new(), 0));
}

#[test]
fn retired_plan_stays_for_its_reports() {
    let (now, other) = (Instant::ZERO, NodeId([4; 32]));
    let to = |node, adapter: &str| {
        let mut parts = parts(adapter);
        parts[2].node = node;
        parts
    };
    let released = |emitted: &[Output], epoch| {
        let is_it = |o: &&Output| matches!(o, Output::Release { epoch: e, .. } if *e == epoch);
        emitted.iter().filter(is_it).count()
    };
    for is_cast in [false, true] {
        let mut session = Session::recast(Duration::from_secs(1));
        session.handle_subscribe(SINK, now);
        session.handle_subscribe(other, now);
        let base = session.handle_plan(SINK, to(SINK, "null"), now);
        for node in [SOURCE, RELAY, SINK] {
            session.handle_ready(node, base.expect("a new plan"), now);
        }
        let graft = session.handle_plan(other, to(other, "null"), now);
        let graft = graft.expect("a new plan");
        session.handle_ready(RELAY, graft, now);
        if is_cast {
            session.handle_ready(other, graft, now);
        }
        outputs(&mut session);
        session.handle_plan(other, to(other, "keep:1"), now);
        session.handle_timeout(NOTHING, now);
        let emitted = outputs(&mut session);
        assert_eq!(released(&emitted, graft) == 0, is_cast, "{emitted:?}");
        let ceases = |o: &Output| matches!(o, Output::Cast { epoch, feed: Feed::Off, .. } if *epoch == graft);
        assert!(!is_cast || emitted.iter().any(ceases), "{emitted:?}");
        session.handle_timeout(NOTHING, now + RENEW);
        let emitted = outputs(&mut session);
        assert_eq!(released(&emitted, graft) > 0, is_cast, "{emitted:?}");
    }
}

#[test]
fn refusal_fails_only_its_plan() {
    let (mut session, epoch) = deployed("null");
    session.handle_refuse(RELAY, Epoch(99), "no slot", Instant::ZERO);
    session.handle_refuse(NodeId([9; 32]), epoch, "no slot", Instant::ZERO);
    assert_eq!(session.active().count(), 1);
    session.handle_refuse(RELAY, epoch, "no slot", Instant::ZERO);
    assert_eq!(session.active().count(), 0);
    assert_eq!(session.poll_timeout(), Instant::ZERO + RETRY);
}

#[test]
fn held_sink_stays_without_a_plan() {
    let hold = Duration::from_secs(600);
    let mut session = Session::holding(hold);
    session.handle_subscribe(SINK, Instant::ZERO);
    let deploy = |session: &mut Session, now| {
        let epoch = session.handle_plan(SINK, parts("null"), now);
        for node in [SOURCE, RELAY, SINK] {
            session.handle_ready(node, epoch.expect("a new plan"), now);
        }
        epoch.expect("a new plan")
    };
    let first = deploy(&mut session, Instant::ZERO);
    session.handle_no_plan(SINK, Instant::ZERO);
    assert_eq!(session.active().count(), 1, "its path is intact");
    session.handle_change(&LinkChanges::all(), |_, _| false, Instant::ZERO);
    session.handle_no_plan(SINK, Instant::ZERO);
    assert_eq!(session.active().count(), 0);
    let late = Instant::ZERO + LEASE + hold;
    session.handle_timeout(NOTHING, late);
    assert_eq!(session.sinks().collect::<Vec<_>>(), [SINK]);
    outputs(&mut session);
    let second = deploy(&mut session, late);
    let again = Output::Resend {
        sink: SINK,
        from: vec![first],
        to: second,
        under: second,
    };
    assert!(outputs(&mut session).contains(&again));
    session.handle_timeout(NOTHING, late + Duration::from_nanos(1));
    assert_eq!(session.sinks().count(), 0);
}

#[test]
fn unreachable_sink_stays_subscribed() {
    let absence = Duration::from_secs(120);
    let subscribed = || {
        let mut session = Session::default().with_absence(absence);
        session.handle_subscribe(SINK, Instant::ZERO);
        let epoch = session.handle_plan(SINK, parts("null"), Instant::ZERO);
        for node in [SOURCE, RELAY, SINK] {
            session.handle_ready(node, epoch.expect("a new plan"), Instant::ZERO);
        }
        session
    };
    let pass = |session: &mut Session, until| {
        while session.poll_timeout() < until {
            let due = session.poll_timeout();
            session.handle_timeout(NOTHING, due);
        }
        session.sinks().count()
    };
    let lapsed = Instant::ZERO + LEASE + Duration::from_secs(1);
    // A reachable sink that does not renew is gone.
    assert_eq!(pass(&mut subscribed(), lapsed), 0);
    let mut cut = subscribed();
    cut.handle_change(
        &LinkChanges::all(),
        |from, to| (from, to) != (RELAY, SINK),
        Instant::ZERO,
    );
    assert_eq!(pass(&mut cut, Instant::ZERO + LEASE + absence), 1);
    assert_eq!(pass(&mut cut, lapsed + absence + RENEW), 0);
    // A sink with a restored path has some time to renew.
    let mut back = subscribed();
    back.handle_suspect(RELAY, SINK, lapsed + RENEW);
    assert_eq!(pass(&mut back, lapsed + RENEW), 1);
    back.handle_subscribe(SINK, lapsed + RENEW);
    assert_eq!(pass(&mut back, lapsed + LEASE), 1);
    assert_eq!(pass(&mut back, lapsed + LEASE + LEASE), 0);
}

/// Returns the sinks that a plan is requested for.
fn wanted(session: &mut Session) -> Vec<NodeId> {
    let wanted = outputs(session).into_iter();
    let wanted = wanted.filter_map(|output| match output {
        Output::PlanWanted { sink } => Some(sink),
        _ => None,
    });
    wanted.collect()
}

#[test]
fn healthy_sinks_replan_at_limited_pace() {
    for sinks in [SINKS_FEW, SINKS_FEW + 1] {
        let viewer = |number: usize| NodeId([100 + number as u8; 32]);
        let parts_of = |number: usize| {
            let mut parts = parts("null");
            parts[2].node = viewer(number);
            parts
        };
        let mut session = Session::default();
        let mut now = Instant::from_nanos(5);
        for number in 0..sinks {
            session.handle_subscribe(viewer(number), now);
            // The last sink is unreachable.
            if number + 1 < sinks {
                let epoch = session.handle_plan(viewer(number), parts_of(number), now);
                for node in [SOURCE, RELAY, viewer(number)] {
                    session.handle_ready(node, epoch.expect("a plan"), now);
                }
            }
        }
        outputs(&mut session);
        session.handle_change(&LinkChanges::all(), |_, _| true, now);
        assert_eq!(
            wanted(&mut session).len(),
            sinks,
            "the first change in a while"
        );

        let due = now + Duration::from_nanos(LOOK_PACE.as_nanos() * sinks as u64);
        now = now + Duration::from_millis(1);
        session.handle_change(&LinkChanges::all(), |_, _| true, now);
        let is_few = sinks <= SINKS_FEW;
        let urgent = wanted(&mut session);
        if is_few {
            assert_eq!(urgent.len(), sinks);
            continue;
        }
        assert_eq!(
            urgent,
            [viewer(sinks - 1)],
            "a sink without a plan does not wait"
        );
        session.handle_change(
            &LinkChanges::all(),
            |from, to| (from, to) != (RELAY, viewer(3)),
            now,
        );
        assert_eq!(wanted(&mut session), [viewer(3), viewer(sinks - 1)]);

        assert!(session.poll_timeout() <= due);
        session.handle_timeout(NOTHING, due - Duration::from_nanos(1));
        assert_eq!(wanted(&mut session), []);
        session.handle_timeout(NOTHING, due);
        assert_eq!(wanted(&mut session).len(), sinks);
        session.handle_timeout(NOTHING, due + Duration::from_nanos(1));
        assert_eq!(wanted(&mut session), [], "once for all changes");
    }
}

#[test]
fn broken_hop_outlasts_suspicion() {
    let mut path = Path::new(parts("null"));
    assert!(!path.handle_leave(SINK), "nothing leads on from a sink");
    assert!(path.handle_leave(RELAY) && path.has_leaver());
    let until = Instant::ZERO + RENEW;
    assert!(!path.handle_suspect(SINK, RELAY, until), "no such hop");
    assert!(path.handle_suspect(RELAY, SINK, until));
    assert!(path.is_suspect(Instant::ZERO) && !path.is_suspect(until));
    path.handle_change(|from, _| from != RELAY);
    path.handle_change(|_, _| true);
    assert!(path.is_doubted() && path.is_whole_to(1) && !path.is_whole_to(2));
    path.renew();
    assert!(!path.is_doubted());
}
