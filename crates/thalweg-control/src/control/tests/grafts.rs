//! Proves that every link carries one copy for all sinks behind it, that no plan outlives its base,
//! and that reports on grafted plans reach the source and count only from the right neighbour.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::adu::{Importance, Mark};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::seen::{Held, News};
use thalweg_base::time::Duration;
use thalweg_base::wire::control::{self as wire, Branch, Message, Said};
use thalweg_base::wire::receipt::{Advice, Receipt};
use thalweg_link::pulse::Hearing;
use thalweg_planner::planner::Planner;

use super::super::Note;
use super::{A, B, C, D, E, Fabric, NEXT, name, publication};
use crate::ledger::{Band, Counts, EVERY, SETTLE, SLACK};
use crate::session::{Feed, Given, LEASE, RENEW};

/// Returns a stream from A by B to C and D.
fn forked() -> (Fabric, StreamId) {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [B, D]]);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    fabric.subscribe(D);
    (fabric, stream)
}

fn given(epoch: u32, serves: &[u32]) -> Given {
    Given {
        epoch: Epoch(epoch),
        serves: serves.iter().copied().map(Epoch).collect(),
    }
}

/// Tells a node how a neighbour answers.
fn set_hearing(fabric: &mut Fabric, at: NodeId, peer: NodeId, hearing: Hearing) {
    fabric.at(at, |c, now, keys| {
        c.handle_hearing(peer, hearing, now, keys);
    });
    fabric.settle();
}

fn given_plans(fabric: &Fabric, stream: StreamId) -> &[Given] {
    &fabric.node(A).given[&stream]
}

/// Returns the plans of a stream installed on a node, each with the plan that it is grafted on there.
fn installed_plans(fabric: &Fabric, id: NodeId) -> Vec<(u32, Option<u32>)> {
    let parts = fabric.node(id).parts();
    let part = |part: &&super::Installation| (part.epoch.0, part.base.map(|base| base.0));
    parts.iter().map(part).collect()
}

/// Returns the plans into which a node copies everything that arrives for their bases.
fn casting(fabric: &Fabric, id: NodeId) -> Vec<u32> {
    let casting = fabric.node(id).casting.iter();
    let all = casting.filter(|(_, until)| until.is_none());
    all.map(|((_, epoch), _)| epoch.0).collect()
}

#[test]
fn shared_path_carries_one_plan() {
    let (mut fabric, stream) = forked();
    for _ in 0..2 {
        assert_eq!(given_plans(&fabric, stream), [given(1, &[1, 2])]);
        assert_eq!(installed_plans(&fabric, A), [(1, None)]);
        assert_eq!(installed_plans(&fabric, B), [(1, None), (2, Some(1))]);
        assert_eq!(casting(&fabric, B), [2]);
        assert_eq!(installed_plans(&fabric, C), [(1, None)]);
        assert_eq!(installed_plans(&fabric, D), [(2, None)]);
        let (part, _) = &fabric.node(B).installed[&(stream, Epoch(2))];
        assert_eq!((part.previous, part.next), (B, Some(D)));
        // And it stays so.
        fabric.pass(LEASE + LEASE);
    }
}

#[test]
fn sink_on_path_feeds_next_sink() {
    for first in [B, C] {
        let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
        let stream = fabric.publish(A, publication(None, false));
        let second = if first == B { C } else { B };
        fabric.subscribe(first);
        fabric.subscribe(second);
        assert_eq!(
            given_plans(&fabric, stream),
            [given(1, &[1, 2])],
            "{first:?}"
        );
        assert_eq!(installed_plans(&fabric, B), [(1, None), (2, Some(1))]);
        assert_eq!(installed_plans(&fabric, A), [(1, None)]);
    }
}

#[test]
fn simultaneous_sinks_are_grafted() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [B, D], [B, E]]);
    for sink in [C, D, E] {
        fabric.subscribe(sink);
    }
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    assert_eq!(given_plans(&fabric, stream), [given(1, &[1, 2, 3])]);
    assert_eq!(casting(&fabric, B), [2, 3]);
}

#[test]
fn trees_follow_shared_paths() {
    // A to B to C, where D and E part.
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [C, D], [C, E]]);
    let stream = fabric.publish(A, publication(None, false));
    for sink in [B, D, E] {
        fabric.subscribe(sink);
    }
    assert_eq!(given_plans(&fabric, stream), [given(1, &[1, 2, 3])]);
    assert_eq!(installed_plans(&fabric, A), [(1, None)]);
    assert_eq!(installed_plans(&fabric, B), [(1, None), (2, Some(1))]);
    assert_eq!(installed_plans(&fabric, C), [(2, None), (3, Some(2))]);
    let source = fabric.node(A).controller.source(stream).expect("published");
    assert_eq!(source.root(Epoch(3)), Epoch(1));
}

/// Returns the plans that a node first gave what it keeps.
pub(super) fn replays(fabric: &Fabric, id: NodeId) -> Vec<u32> {
    let replays = fabric.node(id).replays.iter();
    replays.map(|(_, epoch)| epoch.0).collect()
}

#[test]
fn only_new_sink_gets_replay() {
    let (mut fabric, stream) = forked();
    assert_eq!(replays(&fabric, A), [1], "the first sink, by the source");
    assert_eq!(replays(&fabric, B), [2], "the second, where they part");
    fabric.pass(RENEW + RENEW);
    fabric.at(C, |c, now, keys| c.unsubscribe(&name(), now, keys));
    fabric.settle();
    assert_eq!(given_plans(&fabric, stream), [given(3, &[3])]);
    fabric.subscribe(C);
    assert_eq!(given_plans(&fabric, stream), [given(3, &[3, 4])]);
    assert_eq!(replays(&fabric, A), [1], "D has what came before it moved");
    assert_eq!(replays(&fabric, B), [2, 4], "C had left, and begins again");
}

/// Restarts C, a neighbour of B, without notice, with its clock at this time; it subscribes again.
pub(super) fn restart_sink(fabric: &mut Fabric, since_1970: Duration) {
    fabric.nodes.remove(&C);
    fabric.wires.retain(|wire| *wire != [B, C]);
    fabric.pass(Duration::from_millis(500));
    fabric.start(C, since_1970);
    fabric.link([B, C]);
    fabric.subscribe(C);
}

#[test]
fn restarted_sink_gets_replay() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(None, false));
    assert_eq!(replays(&fabric, A), [1]);
    restart_sink(&mut fabric, Duration::from_secs(2_000));
    let (epoch, _) = fabric.plan_path(A, stream);
    assert!(epoch > Epoch(1));
    assert_eq!(replays(&fabric, A), [1, epoch.0]);
}

#[test]
fn reliable_stream_is_replayed_once() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    let mut whole = publication(None, false);
    whole.needs = Needs {
        reliability: Reliability::Full,
        ..whole.needs
    };
    let stream = fabric.publish(A, whole);
    fabric.subscribe(B);
    // Its source keeps the opening of it, and no group after that.
    assert_eq!(fabric.node(A).replays, [(stream, Epoch(1))]);
    fabric.pass(LEASE);
    assert_eq!(fabric.node(A).replays.len(), 1);
}

#[test]
fn orphan_moves_before_base_is_released() {
    let (mut fabric, stream) = forked();
    fabric.at(C, |c, now, keys| c.unsubscribe(&name(), now, keys));
    fabric.settle();
    // D has a plan of its own now, and nothing is sent under that of C any more.
    assert_eq!(given_plans(&fabric, stream), [given(3, &[3])]);
    // ADUs sent before may still be in flight to B.
    assert_eq!(casting(&fabric, B), []);
    let rest = BTreeMap::from([((stream, Epoch(2)), Some(NEXT))]);
    assert_eq!(fabric.node(B).casting, rest);
    fabric.pass(LEASE + RENEW);
    assert_eq!(fabric.node(B).casting, BTreeMap::new());
    for id in [A, B, D] {
        assert_eq!(installed_plans(&fabric, id), [(3, None)], "{id:?}");
    }
    assert_eq!(installed_plans(&fabric, C), []);
}

#[test]
fn base_is_renewed_while_graft_is_in_force() {
    let (mut fabric, stream) = forked();
    // D refuses new parts, so it keeps its present plan.
    fabric.nodes.get_mut(&D).expect("linked").unknown.push("");
    fabric.wires.retain(|wire| *wire != [B, D]);
    fabric.at(C, |c, now, keys| c.unsubscribe(&name(), now, keys));
    fabric.settle();
    assert_eq!(given_plans(&fabric, stream), [given(1, &[2])]);
    fabric.pass(Duration::from_secs(5));
    assert_eq!(installed_plans(&fabric, A), [(1, None), (3, None)]);
    fabric.pass(LEASE + LEASE);
    assert_eq!(given_plans(&fabric, stream), []);
    assert_eq!(
        (installed_plans(&fabric, A), installed_plans(&fabric, B)),
        (vec![], vec![])
    );
}

#[test]
fn reliable_stream_is_never_grafted() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [B, D]]);
    let mut publication = publication(None, false);
    publication.needs = Needs {
        reliability: Reliability::Full,
        ..publication.needs
    };
    let stream = fabric.publish(A, publication);
    fabric.subscribe(C);
    fabric.subscribe(D);
    assert_eq!(
        given_plans(&fabric, stream),
        [given(1, &[1]), given(2, &[2])]
    );
}

#[test]
fn broken_shared_path_resends_to_both() {
    // Two paths to B, where C and D part.
    let mut fabric = Fabric::linked(&[[A, B], [A, E], [B, E], [B, C], [B, D]]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    fabric.subscribe(C);
    fabric.subscribe(D);
    assert_eq!(given_plans(&fabric, stream), [given(1, &[1, 2])]);
    set_hearing(&mut fabric, A, B, Hearing::Silent);
    let after = given_plans(&fabric, stream);
    assert_eq!(after.len(), 1, "{after:?}");
    let (root, serves) = (after[0].epoch, &after[0].serves);
    assert!(root > Epoch(2) && serves.len() == 2, "{after:?}");
    assert_eq!(fabric.node(E).installed.keys().count(), 1, "one plan by E");
    let resent = &fabric.node(A).resent;
    assert_eq!(resent.len(), 2);
    for ((from, to, under), old) in resent.iter().zip([1, 2]) {
        assert_eq!((&from[..], *under), (&[Epoch(old)][..], root));
        assert!(serves.contains(to));
    }
    // The abandoned plan is copied no more, except for what is in flight.
    assert_eq!(casting(&fabric, B).len(), 1);
}

#[test]
fn silent_node_behind_graft_is_avoided() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [B, D], [D, E], [C, E]]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    fabric.subscribe(D);
    fabric.subscribe(E);
    let before = given_plans(&fabric, stream).to_vec();
    assert_eq!(before.len(), 1);
    // On either path, the caster or its next node hears nothing from the node after.
    let (caster, silent) = if installed_plans(&fabric, C).is_empty() {
        (D, E)
    } else {
        (B, C)
    };
    set_hearing(&mut fabric, caster, silent, Hearing::Silent);
    let after = given_plans(&fabric, stream);
    assert_eq!(after.len(), 1);
    assert!(
        after[0].serves != before[0].serves,
        "it has moved: {after:?}"
    );
    assert_eq!(fabric.node(A).resent.len(), 1);
}

#[test]
fn dead_sink_does_not_block_sinks_behind() {
    let mut fabric = Fabric::linked(&[[A, B], [A, C], [B, D], [C, D]]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    fabric.subscribe(D);
    let relay = fabric.plan_path(A, stream).1[1];
    fabric.subscribe(relay);
    assert_eq!(given_plans(&fabric, stream), [given(1, &[1, 2])]);
    // Perhaps only its link is cut: the source plans for it by the other path, behind D.
    fabric.nodes.remove(&relay);
    set_hearing(&mut fabric, A, relay, Hearing::Silent);
    let resent = &fabric.node(A).resent;
    let [(from, to, _)] = &resent[..] else {
        panic!("D is served, and no time has passed: {resent:?}");
    };
    assert_eq!(from, &[Epoch(1)]);
    let other = if relay == B { C } else { B };
    let (part, _) = &fabric.node(D).installed[&(stream, *to)];
    assert_eq!(part.previous, other);
}

#[test]
fn source_learns_fate_of_copies() {
    let (mut fabric, stream) = forked();
    let band = Band::of(Importance(200));
    let at = band.index();
    let mut counts = Counts::default();
    let none = Mark::NONE.index();
    let set = |counts: &mut Counts, [arrived, sent, left]: [u64; 3]| {
        counts.arrived[none][at] = arrived;
        counts.sent[none][at] = sent;
        counts.left[none][at] = left;
    };
    set(&mut counts, [10, 10, 10]);
    for (id, epoch) in [(A, 1), (B, 1)] {
        fabric.at(id, |c, now, _| {
            c.handle_counts(stream, Epoch(epoch), &counts, now);
        });
    }
    let mut copied = Counts::default();
    set(&mut copied, [8, 8, 7]);
    copied.fail(Mark::NONE, band, DropCause::Expired);
    fabric.at(B, |c, now, _| {
        c.handle_counts(stream, Epoch(2), &copied, now);
    });
    for (id, epoch, got) in [(C, 1, 10), (D, 2, 7)] {
        let mut counts = Counts::default();
        set(&mut counts, [got, 0, 0]);
        counts.delivered[at] = got;
        fabric.at(id, |c, now, _| {
            c.handle_counts(stream, Epoch(epoch), &counts, now);
        });
    }
    fabric.pass(EVERY + SLACK);
    let check = |fabric: &Fabric| {
        let reading = fabric.node(A).controller.reading(stream).expect("known");
        assert_eq!((reading.given, reading.delivered), (18, 17));
        let [loss] = reading.losses[..] else {
            panic!("{reading:?}");
        };
        let loss = (loss.node, loss.cause, loss.adus);
        assert_eq!(loss, (Some(B), DropCause::Expired, 1));
        assert_eq!(reading.open(), 0);
    };
    check(&fabric);
    let astray =
        |note: &Note| matches!(note, Note::BranchAstray { .. } | Note::AccountAstray { .. });
    assert!(!fabric.node(A).notes.iter().any(astray));
    // And when its plan is over.
    fabric.at(D, |c, now, keys| c.unsubscribe(&name(), now, keys));
    fabric.pass(RENEW + RENEW);
    check(&fabric);
    assert_eq!(given_plans(&fabric, stream), [given(1, &[1])]);
    assert_eq!(casting(&fabric, B), []);
}

#[test]
fn source_knows_when_copies_are_counted() {
    let (mut fabric, stream) = forked();
    let knows = |fabric: &Fabric| {
        let plans = [1, 2].map(Epoch);
        fabric
            .node(A)
            .controller
            .accounting()
            .knows_given(stream, &plans)
    };
    assert!(!knows(&fabric), "the end was not copied yet");
    let mut copied = Counts {
        is_end_copied: true,
        ..Counts::default()
    };
    copied.arrive(Mark::from_index(1), Band::of(Importance(200)));
    fabric.at(B, |c, now, _| {
        c.handle_counts(stream, Epoch(2), &copied, now);
    });
    // The sink leaves as soon as it has the end.
    fabric.at(D, |c, now, keys| c.unsubscribe(&name(), now, keys));
    fabric.settle();
    assert_eq!(given_plans(&fabric, stream), [given(1, &[1])]);
    assert!(!knows(&fabric), "what left before the end may come yet");
    fabric.pass(SETTLE + SETTLE);
    assert!(knows(&fabric));
    let reading = fabric.node(A).controller.reading(stream).expect("known");
    assert_eq!((reading.given, reading.open()), (1, 1));
}

#[test]
fn receipt_of_grafted_sink_reaches_source() {
    let (mut fabric, stream) = forked();
    let held = Held {
        floor: 5,
        ranges: vec![7..9, 11..12],
    };
    let copy = held.clone();
    fabric.at(D, |c, now, _| c.handle_held(stream, copy, News::Usual, now));
    fabric.pass(Duration::from_secs(1));
    let acknowledged = &fabric.node(A).acknowledged;
    assert_eq!(acknowledged.last(), Some(&(vec![Epoch(2)], held)));
}

#[test]
fn branch_counts_only_from_next_node() {
    let (mut fabric, stream) = forked();
    let held = Held {
        floor: 9,
        ranges: vec![],
    };
    let receipt = |epoch| {
        Said::Receipt(Receipt {
            stream,
            epoch: Epoch(epoch),
            since: 1,
            held: held.clone(),
        })
    };
    let known = fabric.node(A).acknowledged.len();
    let mut send = |via, said| {
        let via = Epoch(via);
        let frame = wire::encode(&Message::Branch(Branch { stream, via, said }));
        fabric.at(A, |c, now, keys| c.handle_frame(B, &frame, now, keys));
        fabric.settle();
    };
    // Another stream's plan, a plan not grafted on this one, and a plan with no path here.
    send(1, receipt(1));
    send(1, receipt(3));
    send(2, receipt(2));
    let advice = Advice {
        stream,
        epoch: Epoch(2),
        distance: 1,
        is_doubt: false,
    };
    send(1, Said::Advice(advice));
    let astray = |note: &&Note| matches!(note, Note::BranchAstray { from } | Note::AdviceAstray { from } if *from == B);
    let notes = fabric.node(A).notes.iter();
    assert_eq!(notes.filter(astray).count(), 4, "D is the last of its plan");
    assert_eq!(fabric.node(A).acknowledged.len(), known);
    // A node that is not the source of a plan cannot have it copied.
    let cast = wire::Body::Cast {
        stream,
        epoch: Epoch(2),
        feed: Feed::Off,
    };
    fabric.at(C, |c, _, keys| {
        c.mail.route(vec![C, B], cast, &c.ground.local(), keys);
    });
    fabric.settle();
    assert_eq!(casting(&fabric, B), [2]);
}

#[test]
fn leaving_node_is_replanned_without_resend() {
    let mut fabric = Fabric::linked(&[[A, B], [A, C], [B, D], [B, E], [C, D], [C, E]]);
    let mut publication = publication(Some(Planner::Exact), false);
    let deadline = Duration::from_secs(1);
    publication.needs.deadline = deadline;
    let stream = fabric.publish(A, publication);
    for sink in [D, E] {
        fabric.subscribe(sink);
    }
    assert_eq!(given_plans(&fabric, stream), [given(1, &[1, 2])]);
    let (leaver, other) = if installed_plans(&fabric, B).is_empty() {
        (C, B)
    } else {
        (B, C)
    };
    fabric.at(leaver, |c, now, keys| c.leave(now, keys));
    fabric.settle();
    let [now] = given_plans(&fabric, stream) else {
        panic!("one copy: {:?}", given_plans(&fabric, stream));
    };
    assert!(now.epoch > Epoch(2) && now.serves.len() == 2, "{now:?}");
    assert_eq!(installed_plans(&fabric, other).len(), 2);
    assert!(fabric.node(A).resent.is_empty(), "it still carries");
    assert!(fabric.node(leaver).controller.parts().is_passed());
    fabric.pass(deadline + Duration::from_millis(1));
    assert!(!fabric.node(leaver).controller.parts().is_passed());
    // It takes no new part, and a node that speaks for another is ignored.
    assert_eq!(installed_plans(&fabric, leaver), []);
    let body = wire::Body::Leave { stream };
    fabric.at(leaver, |c, _, keys| {
        c.mail.route(vec![leaver, A], body, &c.ground.local(), keys);
    });
    fabric.settle();
    let left = |note: &&Note| matches!(note, Note::Leaving { .. });
    let notes = fabric.node(A).notes.iter();
    assert_eq!(notes.filter(left).count(), 1, "it is on no path any more");
}

#[test]
fn feeding_sink_leaves_at_once() {
    let (mut fabric, stream) = forked();
    fabric.at(C, |c, now, keys| c.leave(now, keys));
    fabric.settle();
    assert_eq!(given_plans(&fabric, stream), [given(3, &[3])]);
    assert!(!fabric.node(C).controller.parts().is_passed());
}
