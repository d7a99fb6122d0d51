//! Proves that a doubt has a standby plan prepared, that it takes over without another message, and
//! that a wrong doubt changes nothing and is over soon.

use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::time::Duration;
use thalweg_base::wire::control::{self as wire, Branch, Message, Said};
use thalweg_base::wire::receipt::Advice;
use thalweg_link::pulse::Hearing;
use thalweg_planner::planner::Planner;

use super::super::Note;
use super::{A, B, C, D, E, Fabric, publication};
use crate::health::suspects::SUSPECT_HOLD;
use crate::health::{DOUBT_EVERY, DOUBT_EVERY_MAX, DOUBT_HOLD};
use crate::session::RENEW;

/// Two paths from A to D; returns the relay that the stream uses, and the other one.
fn diamond() -> (Fabric, StreamId, [NodeId; 2]) {
    let mut fabric = Fabric::linked(&[[A, B], [A, C], [B, D], [C, D]]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    fabric.subscribe(D);
    let relay = fabric.plan_path(A, stream).1[1];
    let other = if relay == B { C } else { B };
    (fabric, stream, [relay, other])
}

fn set_hearing(fabric: &mut Fabric, at: NodeId, peer: NodeId, hearing: Hearing) {
    fabric.at(at, |c, now, keys| {
        c.handle_hearing(peer, hearing, now, keys);
    });
    fabric.settle();
}

/// Returns the plans that ADUs are sent under, each with the plans that it feeds.
fn given(fabric: &Fabric, stream: StreamId) -> Vec<(u32, Vec<u32>)> {
    let given = fabric.node(A).given[&stream].iter();
    let numbers = |epochs: &[Epoch]| epochs.iter().map(|epoch| epoch.0).collect();
    given
        .map(|given| (given.epoch.0, numbers(&given.serves)))
        .collect()
}

/// Returns the plans installed on a node.
fn installed_plans(fabric: &Fabric, id: NodeId) -> Vec<u32> {
    let parts = fabric.node(id).parts();
    parts.iter().map(|part| part.epoch.0).collect()
}

fn casting(fabric: &Fabric, id: NodeId) -> Vec<u32> {
    let casting = fabric.node(id).casting.iter();
    let all = casting.filter(|(_, until)| until.is_none());
    all.map(|((_, epoch), _)| epoch.0).collect()
}

#[test]
fn standby_takes_over_without_messages() {
    for is_far in [false, true] {
        let (mut fabric, stream, [relay, other]) = diamond();
        let link = if is_far { (relay, D) } else { (A, relay) };
        set_hearing(&mut fabric, link.0, link.1, Hearing::Doubtful);
        assert_eq!(given(&fabric, stream), [(1, vec![1])]);
        assert_eq!(installed_plans(&fabric, D), [1, 2], "a standby plan");
        assert_eq!(installed_plans(&fabric, other), [2]);
        assert!(fabric.node(A).resent.is_empty());
        // Only the advice can still get through.
        fabric.wires.retain(|wire| is_far && *wire == [A, relay]);
        set_hearing(&mut fabric, link.0, link.1, Hearing::Silent);
        assert_eq!(given(&fabric, stream), [(2, vec![2])]);
        let resent = &fabric.node(A).resent[..];
        assert_eq!(resent, [(vec![Epoch(1)], Epoch(2), Epoch(2))]);
    }
}

#[test]
fn false_doubt_changes_nothing() {
    let (mut fabric, stream, [relay, other]) = diamond();
    set_hearing(&mut fabric, relay, D, Hearing::Doubtful);
    set_hearing(&mut fabric, relay, D, Hearing::Answering);
    assert_eq!(installed_plans(&fabric, other), [2]);
    fabric.pass(DOUBT_HOLD + Duration::from_millis(500));
    assert_eq!(given(&fabric, stream), [(1, vec![1])]);
    for node in [A, relay, D] {
        assert_eq!(installed_plans(&fabric, node), [1], "{node:?}");
    }
    assert_eq!(installed_plans(&fabric, other), []);
    let is_failed = |note: &Note| matches!(note, Note::DeploymentFailed { .. });
    assert!(!fabric.node(A).notes.iter().any(is_failed));
    // The next doubt comes too soon to be acted on.
    set_hearing(&mut fabric, relay, D, Hearing::Doubtful);
    assert_eq!(installed_plans(&fabric, other), []);
    set_hearing(&mut fabric, relay, D, Hearing::Answering);
    fabric.pass(DOUBT_EVERY);
    set_hearing(&mut fabric, relay, D, Hearing::Doubtful);
    assert_eq!(installed_plans(&fabric, other), [3]);
}

/// Doubts a link wrongly once a second; returns the newest plan that was prepared.
fn made_ready(fabric: &mut Fabric, link: [NodeId; 2], seconds: u64) -> u32 {
    let mut newest = 0;
    for _ in 0..seconds {
        set_hearing(fabric, link[0], link[1], Hearing::Doubtful);
        newest = installed_plans(fabric, D)
            .into_iter()
            .fold(newest, u32::max);
        set_hearing(fabric, link[0], link[1], Hearing::Answering);
        fabric.pass(Duration::from_secs(1));
    }
    newest
}

#[test]
fn false_doubts_back_off() {
    let (mut fabric, stream, [relay, _]) = diamond();
    // At 0, 5, 15 and 35 s, then every 40 s.
    for newest in [5, 7, 8] {
        assert_eq!(made_ready(&mut fabric, [relay, D], 60), newest);
    }
    // The back-off ends after twice the maximum without a doubt, and with a silence.
    fabric.pass(DOUBT_EVERY_MAX + DOUBT_EVERY_MAX);
    assert_eq!(made_ready(&mut fabric, [relay, D], 10), 10);
    set_hearing(&mut fabric, relay, D, Hearing::Silent);
    set_hearing(&mut fabric, relay, D, Hearing::Answering);
    fabric.pass(SUSPECT_HOLD + RENEW + RENEW);
    let (epoch, path) = fabric.plan_path(A, stream);
    assert_eq!((epoch, path[1]), (Epoch(12), relay), "it has come back");
    assert_eq!(made_ready(&mut fabric, [relay, D], 10), 14);
}

#[test]
fn silence_without_doubt_moves_stream() {
    let (mut fabric, stream, [relay, _]) = diamond();
    set_hearing(&mut fabric, relay, D, Hearing::Silent);
    assert_eq!(given(&fabric, stream), [(2, vec![2])]);
    // A doubt of a link that is known to be silent requests nothing.
    set_hearing(&mut fabric, relay, D, Hearing::Doubtful);
    assert_eq!(installed_plans(&fabric, A), [1, 2]);
}

#[test]
fn doubt_without_alternative_does_nothing() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    fabric.subscribe(C);
    set_hearing(&mut fabric, B, C, Hearing::Doubtful);
    fabric.pass(DOUBT_EVERY);
    assert_eq!(given(&fabric, stream), [(1, vec![1])]);
    for node in [A, B, C] {
        assert_eq!(installed_plans(&fabric, node), [1]);
    }
}

#[test]
fn standby_graft_gets_no_copies() {
    let (mut fabric, stream, [relay, other]) = diamond();
    fabric.subscribe(other);
    assert_eq!(given(&fabric, stream), [(1, vec![1]), (2, vec![2])]);
    set_hearing(&mut fabric, A, relay, Hearing::Doubtful);
    let (part, _) = &fabric.node(other).installed[&(stream, Epoch(3))];
    assert_eq!((part.base, part.next), (Some(Epoch(2)), Some(D)));
    assert_eq!(casting(&fabric, other), []);
    assert_eq!(given(&fabric, stream), [(1, vec![1]), (2, vec![2])]);
    set_hearing(&mut fabric, A, relay, Hearing::Silent);
    assert_eq!(casting(&fabric, other), [3]);
    assert_eq!(given(&fabric, stream), [(2, vec![2, 3])]);
}

#[test]
fn graft_on_standby_takes_over_with_it() {
    // Two paths to B, where C and D part.
    let mut fabric = Fabric::linked(&[[A, B], [A, E], [B, E], [B, C], [B, D]]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    fabric.subscribe(C);
    fabric.subscribe(D);
    set_hearing(&mut fabric, A, B, Hearing::Doubtful);
    assert_eq!(given(&fabric, stream), [(1, vec![1, 2])]);
    assert_eq!(casting(&fabric, B), [2, 4], "nothing comes under 3 yet");
    fabric.wires.clear();
    set_hearing(&mut fabric, A, B, Hearing::Silent);
    assert_eq!(given(&fabric, stream), [(3, vec![3, 4])]);
}

#[test]
fn doubt_behind_graft_goes_up_its_base() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [B, D], [D, E], [C, E]]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    fabric.subscribe(D);
    fabric.subscribe(E);
    let (caster, doubted, other) = if installed_plans(&fabric, C).is_empty() {
        (D, E, C)
    } else {
        (B, C, D)
    };
    let before = given(&fabric, stream);
    set_hearing(&mut fabric, caster, doubted, Hearing::Doubtful);
    assert_eq!(given(&fabric, stream), before);
    assert!(installed_plans(&fabric, other).contains(&3));
}

#[test]
fn doubt_counts_only_from_next_node() {
    let (mut fabric, stream, [relay, other]) = diamond();
    let advice = Advice {
        stream,
        epoch: Epoch(1),
        distance: 0,
        is_doubt: true,
    };
    let branch = Branch {
        stream,
        via: Epoch(1),
        said: Said::Advice(advice),
    };
    for (from, message) in [
        (other, Message::Advice(advice)),
        (relay, Message::Branch(branch)),
        (
            relay,
            Message::Advice(Advice {
                distance: 30,
                ..advice
            }),
        ),
    ] {
        let frame = wire::encode(&message);
        fabric.at(A, |c, now, keys| c.handle_frame(from, &frame, now, keys));
        fabric.settle();
        assert_eq!(installed_plans(&fabric, other), [], "{message:?}");
    }
    let astray =
        |note: &&Note| matches!(note, Note::BranchAstray { .. } | Note::AdviceAstray { .. });
    assert_eq!(fabric.node(A).notes.iter().filter(astray).count(), 3);
}

#[test]
fn answering_link_is_preferred() {
    for is_far in [false, true] {
        let (mut fabric, stream, [relay, other]) = diamond();
        let link = |relay| if is_far { [relay, D] } else { [A, relay] };
        // One relay is silent for a moment, then the other, which is remembered of both; then the
        // first for good.
        for (silent, taken) in [(relay, other), (other, relay), (relay, other)] {
            let [near, far] = link(silent);
            set_hearing(&mut fabric, near, far, Hearing::Silent);
            assert_eq!(
                fabric.plan_path(A, stream).1,
                [A, taken, D],
                "far: {is_far}"
            );
            set_hearing(&mut fabric, near, far, Hearing::Answering);
            fabric.pass(Duration::from_secs(4));
        }
    }
}
