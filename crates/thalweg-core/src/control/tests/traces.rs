//! Proves that who asks what hops cost is told it by the source, with the nodes of the way, and nobody else; and that what
//! cannot be true is not passed on.

use alloc::vec;
use alloc::vec::Vec;

use super::super::Note;
use super::{A, B, C, D, E, Fabric, name, publication};
use crate::id::{Epoch, NodeId, Sequence, StreamId};
use crate::limits::TRACERS_MAX;
use crate::planner::Planner;
use crate::time::Duration;
use crate::trace::{LEASE, Stamp, Traced};

const EVERY: Duration = Duration::from_millis(200);

fn traced(stream: StreamId, epoch: Epoch, stamps: usize) -> Traced {
    Traced {
        stream,
        epoch,
        sequence: Sequence(5),
        budget: Duration::from_millis(300),
        path: Vec::new(),
        stamps: vec![Stamp::default(); stamps],
    }
}

/// A source A, a relay B, a sink C; D and E look on.
fn fabric() -> (Fabric, StreamId, Epoch) {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [C, D], [B, E]]);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    let (epoch, way) = fabric.way(A, stream);
    assert_eq!(way, [A, B, C]);
    (fabric, stream, epoch)
}

fn ask(fabric: &mut Fabric, who: NodeId) {
    let asked = fabric.at(who, |c, now, keys| c.trace(&name(), EVERY, now, keys));
    assert_eq!(asked.map(|(_, source)| source), Ok(A));
    fabric.settle();
}

fn tell(fabric: &mut Fabric, who: NodeId, traced: Traced) {
    fabric.at(who, |c, now, keys| c.handle_stamped(traced, now, keys));
    fabric.settle();
}

#[test]
fn every_node_may_ask_and_is_told_the_way_with_its_nodes() {
    let (mut fabric, stream, epoch) = fabric();
    for who in [A, B, C, D] {
        ask(&mut fabric, who);
        assert_eq!(fabric.node(who).answers, [Ok(1)]);
    }
    assert_eq!(fabric.node(A).markings.len(), 4);
    tell(&mut fabric, C, traced(stream, epoch, 3));
    for who in [A, B, C, D] {
        let told = &fabric.node(who).traced;
        assert_eq!((told.len(), &told[0].path[..]), (1, &[A, B, C][..]));
    }
    assert_eq!(fabric.node(E).traced, [], "it has not asked");
}

#[test]
fn who_asks_no_more_is_told_no_more() {
    let (mut fabric, stream, epoch) = fabric();
    ask(&mut fabric, D);
    fabric.pass(LEASE);
    tell(&mut fabric, C, traced(stream, epoch, 3));
    assert_eq!(fabric.node(D).traced, []);
}

#[test]
fn a_stream_that_nobody_publishes_and_one_tracer_too_many_are_told_why() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [C, D], [B, E]]);
    let asked = fabric.at(D, |c, now, keys| c.trace(&name(), EVERY, now, keys));
    assert_eq!(asked, Err("no node publishes `cam`".into()));
    fabric.publish(A, publication(Some(Planner::Exact), false));
    for who in [B, C, D, E].into_iter().take(TRACERS_MAX) {
        ask(&mut fabric, who);
        assert_eq!(fabric.node(who).answers, [Ok(0)], "nobody subscribes");
    }
    ask(&mut fabric, A);
    let refused = fabric.node(A).answers[0].clone();
    assert_eq!(refused, Err("4 nodes trace the stream already".into()));
}

#[test]
fn a_way_that_does_not_end_at_who_tells_it_or_has_another_length_is_astray() {
    let (mut fabric, stream, epoch) = fabric();
    ask(&mut fabric, D);
    // The relay has a part of the plan, and is not where it ends.
    tell(&mut fabric, B, traced(stream, epoch, 3));
    tell(&mut fabric, C, traced(stream, epoch, 2));
    assert_eq!(fabric.node(D).traced, []);
    let notes = &fabric.node(A).notes;
    for from in [B, C] {
        assert!(notes.contains(&Note::TraceAstray { from }), "{notes:?}");
    }
}
