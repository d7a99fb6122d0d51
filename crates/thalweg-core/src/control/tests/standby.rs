//! Proves that what is doubted is made ready for, that the plan which stands by takes over without a word to anybody, and that
//! a doubt that was wrong changes nothing and is over soon.

use alloc::vec;
use alloc::vec::Vec;

use super::super::Note;
use super::super::continuity::{DOUBT_EVERY, DOUBT_EVERY_MAX, DOUBT_HOLD};
use super::super::suspects::SUSPECT_HOLD;
use super::{A, B, C, D, E, Fabric, publication};
use crate::id::{Epoch, NodeId, StreamId};
use crate::planner::Planner;
use crate::routing::pulse::Hearing;
use crate::session::RENEW;
use crate::time::Duration;
use crate::wire::control::{self as wire, Branch, Message, Said};
use crate::wire::receipt::Advice;

/// Two ways from A to D, and which relay the stream takes, and which it does not.
fn diamond() -> (Fabric, StreamId, [NodeId; 2]) {
    let mut fabric = Fabric::linked(&[[A, B], [A, C], [B, D], [C, D]]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    fabric.subscribe(D);
    let relay = fabric.way(A, stream).1[1];
    let other = if relay == B { C } else { B };
    (fabric, stream, [relay, other])
}

fn hear(fabric: &mut Fabric, at: NodeId, peer: NodeId, hearing: Hearing) {
    fabric.at(at, |c, now, keys| {
        c.handle_hearing(peer, hearing, now, keys);
    });
    fabric.settle();
}

/// Returns the plans that are given, each with those that it brings to sinks.
fn given(fabric: &Fabric, stream: StreamId) -> Vec<(u32, Vec<u32>)> {
    let given = fabric.node(A).given[&stream].iter();
    let numbers = |epochs: &[Epoch]| epochs.iter().map(|epoch| epoch.0).collect();
    given
        .map(|given| (given.epoch.0, numbers(&given.serves)))
        .collect()
}

/// Returns the plans that lie on a node.
fn lying(fabric: &Fabric, id: NodeId) -> Vec<u32> {
    let parts = fabric.node(id).parts();
    parts.iter().map(|part| part.epoch.0).collect()
}

fn casting(fabric: &Fabric, id: NodeId) -> Vec<u32> {
    let casting = fabric.node(id).casting.iter();
    let all = casting.filter(|(_, until)| until.is_none());
    all.map(|((_, epoch), _)| epoch.0).collect()
}

#[test]
fn a_plan_that_stands_by_takes_over_without_a_word_to_anybody() {
    for is_far in [false, true] {
        let (mut fabric, stream, [relay, other]) = diamond();
        let link = if is_far { (relay, D) } else { (A, relay) };
        hear(&mut fabric, link.0, link.1, Hearing::Doubtful);
        assert_eq!(given(&fabric, stream), [(1, vec![1])]);
        assert_eq!(lying(&fabric, D), [1, 2], "it is made ready");
        assert_eq!(lying(&fabric, other), [2]);
        assert!(fabric.node(A).resent.is_empty());
        // Nothing but the advice can go anywhere any more.
        fabric.wires.retain(|wire| is_far && *wire == [A, relay]);
        hear(&mut fabric, link.0, link.1, Hearing::Silent);
        assert_eq!(given(&fabric, stream), [(2, vec![2])]);
        let resent = &fabric.node(A).resent[..];
        assert_eq!(resent, [(vec![Epoch(1)], Epoch(2), Epoch(2))]);
    }
}

#[test]
fn a_doubt_that_was_wrong_changes_nothing_and_is_over_soon() {
    let (mut fabric, stream, [relay, other]) = diamond();
    hear(&mut fabric, relay, D, Hearing::Doubtful);
    hear(&mut fabric, relay, D, Hearing::Answering);
    assert_eq!(lying(&fabric, other), [2]);
    fabric.pass(DOUBT_HOLD + Duration::from_millis(500));
    assert_eq!(given(&fabric, stream), [(1, vec![1])]);
    for node in [A, relay, D] {
        assert_eq!(lying(&fabric, node), [1], "{node:?}");
    }
    assert_eq!(lying(&fabric, other), []);
    let is_failed = |note: &Note| matches!(note, Note::DeploymentFailed { .. });
    assert!(!fabric.node(A).notes.iter().any(is_failed));
    // Not so soon again.
    hear(&mut fabric, relay, D, Hearing::Doubtful);
    assert_eq!(lying(&fabric, other), []);
    hear(&mut fabric, relay, D, Hearing::Answering);
    fabric.pass(DOUBT_EVERY);
    hear(&mut fabric, relay, D, Hearing::Doubtful);
    assert_eq!(lying(&fabric, other), [3]);
}

/// Doubts a link each second for so long, and is wrong; returns the newest plan that was made ready.
fn made_ready(fabric: &mut Fabric, link: [NodeId; 2], seconds: u64) -> u32 {
    let mut newest = 0;
    for _ in 0..seconds {
        hear(fabric, link[0], link[1], Hearing::Doubtful);
        newest = lying(fabric, D).into_iter().fold(newest, u32::max);
        hear(fabric, link[0], link[1], Hearing::Answering);
        fabric.pass(Duration::from_secs(1));
    }
    newest
}

#[test]
fn who_is_doubted_again_and_again_for_nothing_is_made_ready_for_ever_less_often() {
    let (mut fabric, stream, [relay, _]) = diamond();
    // At 0, 5, 15 and 35 s, then every 40 s.
    for newest in [5, 7, 8] {
        assert_eq!(made_ready(&mut fabric, [relay, D], 60), newest);
    }
    // It is forgotten after as long again without a doubt, and with a silence.
    fabric.pass(DOUBT_EVERY_MAX + DOUBT_EVERY_MAX);
    assert_eq!(made_ready(&mut fabric, [relay, D], 10), 10);
    hear(&mut fabric, relay, D, Hearing::Silent);
    hear(&mut fabric, relay, D, Hearing::Answering);
    fabric.pass(SUSPECT_HOLD + RENEW + RENEW);
    let (epoch, way) = fabric.way(A, stream);
    assert_eq!((epoch, way[1]), (Epoch(12), relay), "it has come back");
    assert_eq!(made_ready(&mut fabric, [relay, D], 10), 14);
}

#[test]
fn silence_without_a_doubt_before_it_is_heeded_as_ever() {
    let (mut fabric, stream, [relay, _]) = diamond();
    hear(&mut fabric, relay, D, Hearing::Silent);
    assert_eq!(given(&fabric, stream), [(2, vec![2])]);
    // And a doubt of what is known to be silent asks for nothing.
    hear(&mut fabric, relay, D, Hearing::Doubtful);
    assert_eq!(lying(&fabric, A), [1, 2]);
}

#[test]
fn where_there_is_no_other_way_a_doubt_makes_nothing_ready() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    fabric.subscribe(C);
    hear(&mut fabric, B, C, Hearing::Doubtful);
    fabric.pass(DOUBT_EVERY);
    assert_eq!(given(&fabric, stream), [(1, vec![1])]);
    for node in [A, B, C] {
        assert_eq!(lying(&fabric, node), [1]);
    }
}

#[test]
fn what_stands_by_on_a_plan_in_force_is_given_no_copies_before_it_is_taken_up() {
    let (mut fabric, stream, [relay, other]) = diamond();
    fabric.subscribe(other);
    assert_eq!(given(&fabric, stream), [(1, vec![1]), (2, vec![2])]);
    hear(&mut fabric, A, relay, Hearing::Doubtful);
    let (part, _) = &fabric.node(other).installed[&(stream, Epoch(3))];
    assert_eq!((part.base, part.next), (Some(Epoch(2)), Some(D)));
    assert_eq!(casting(&fabric, other), []);
    assert_eq!(given(&fabric, stream), [(1, vec![1]), (2, vec![2])]);
    hear(&mut fabric, A, relay, Hearing::Silent);
    assert_eq!(casting(&fabric, other), [3]);
    assert_eq!(given(&fabric, stream), [(2, vec![2, 3])]);
}

#[test]
fn what_stands_by_on_a_plan_that_stands_by_takes_over_with_it() {
    // Two ways to B, where C and D part.
    let mut fabric = Fabric::linked(&[[A, B], [A, E], [B, E], [B, C], [B, D]]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    fabric.subscribe(C);
    fabric.subscribe(D);
    hear(&mut fabric, A, B, Hearing::Doubtful);
    assert_eq!(given(&fabric, stream), [(1, vec![1, 2])]);
    assert_eq!(casting(&fabric, B), [2, 4], "nothing comes under 3 yet");
    fabric.wires.clear();
    hear(&mut fabric, A, B, Hearing::Silent);
    assert_eq!(given(&fabric, stream), [(3, vec![3, 4])]);
}

#[test]
fn a_doubt_behind_a_graft_is_told_by_the_way_of_its_base() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [B, D], [D, E], [C, E]]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    fabric.subscribe(D);
    fabric.subscribe(E);
    let (caster, doubted, other) = if lying(&fabric, C).is_empty() {
        (D, E, C)
    } else {
        (B, C, D)
    };
    let before = given(&fabric, stream);
    hear(&mut fabric, caster, doubted, Hearing::Doubtful);
    assert_eq!(given(&fabric, stream), before);
    assert!(lying(&fabric, other).contains(&3));
}

#[test]
fn only_the_next_node_of_a_plan_is_believed_that_it_doubts() {
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
        assert_eq!(lying(&fabric, other), [], "{message:?}");
    }
    let astray =
        |note: &&Note| matches!(note, Note::BranchAstray { .. } | Note::AdviceAstray { .. });
    assert_eq!(fabric.node(A).notes.iter().filter(astray).count(), 3);
}

#[test]
fn of_two_ways_that_were_silent_the_one_that_answers_is_taken() {
    for is_far in [false, true] {
        let (mut fabric, stream, [relay, other]) = diamond();
        let link = |relay| if is_far { [relay, D] } else { [A, relay] };
        // The one is silent for a moment, then the other, which is remembered of both; then the first for good.
        for (silent, taken) in [(relay, other), (other, relay), (relay, other)] {
            let [near, far] = link(silent);
            hear(&mut fabric, near, far, Hearing::Silent);
            assert_eq!(fabric.way(A, stream).1, [A, taken, D], "far: {is_far}");
            hear(&mut fabric, near, far, Hearing::Answering);
            fabric.pass(Duration::from_secs(4));
        }
    }
}
