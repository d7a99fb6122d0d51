//! Proves that a node which asks for traces gets them from the source, with the nodes of the path,
//! and no other node does; and that implausible stamps are not passed on.

use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::limits::TRACERS_MAX;
use thalweg_base::time::Duration;
use thalweg_base::trace::{LEASE, Stamp, Traced};
use thalweg_planner::planner::Planner;

use super::super::Note;
use super::{A, B, C, D, E, Fabric, name, publication};

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

/// A source A, a relay B, a sink C; D and E are bystanders.
fn fabric() -> (Fabric, StreamId, Epoch) {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [C, D], [B, E]]);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    let (epoch, path) = fabric.plan_path(A, stream);
    assert_eq!(path, [A, B, C]);
    (fabric, stream, epoch)
}

fn ask(fabric: &mut Fabric, node: NodeId) {
    let asked = fabric.at(node, |c, now, keys| c.trace(&name(), EVERY, now, keys));
    assert_eq!(asked.map(|(_, source)| source), Ok(A));
    fabric.settle();
}

fn deliver(fabric: &mut Fabric, node: NodeId, traced: Traced) {
    fabric.at(node, |c, now, keys| c.handle_stamped(traced, now, keys));
    fabric.settle();
}

#[test]
fn any_node_gets_traces_with_path() {
    let (mut fabric, stream, epoch) = fabric();
    for node in [A, B, C, D] {
        ask(&mut fabric, node);
        assert_eq!(fabric.node(node).answers, [Ok(1)]);
    }
    assert_eq!(fabric.node(A).markings.len(), 4);
    deliver(&mut fabric, C, traced(stream, epoch, 3));
    for node in [A, B, C, D] {
        let traces = &fabric.node(node).traced;
        assert_eq!((traces.len(), &traces[0].path[..]), (1, &[A, B, C][..]));
    }
    assert_eq!(fabric.node(E).traced, [], "it has not asked");
}

#[test]
fn traces_stop_without_renewal() {
    let (mut fabric, stream, epoch) = fabric();
    ask(&mut fabric, D);
    fabric.pass(LEASE);
    deliver(&mut fabric, C, traced(stream, epoch, 3));
    assert_eq!(fabric.node(D).traced, []);
}

#[test]
fn refused_tracer_gets_reason() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [C, D], [B, E]]);
    let asked = fabric.at(D, |c, now, keys| c.trace(&name(), EVERY, now, keys));
    assert_eq!(asked, Err("no node publishes `cam`".into()));
    fabric.publish(A, publication(Some(Planner::Exact), false));
    for node in [B, C, D, E].into_iter().take(TRACERS_MAX) {
        ask(&mut fabric, node);
        assert_eq!(fabric.node(node).answers, [Ok(0)], "no sink subscribes");
    }
    ask(&mut fabric, A);
    let refused = fabric.node(A).answers[0].clone();
    assert_eq!(refused, Err("4 nodes trace the stream already".into()));
}

#[test]
fn mismatched_stamps_are_refused() {
    let (mut fabric, stream, epoch) = fabric();
    ask(&mut fabric, D);
    // The relay has a part of the plan, but the plan does not end there.
    deliver(&mut fabric, B, traced(stream, epoch, 3));
    deliver(&mut fabric, C, traced(stream, epoch, 2));
    assert_eq!(fabric.node(D).traced, []);
    let notes = &fabric.node(A).notes;
    for from in [B, C] {
        assert!(notes.contains(&Note::TraceAstray { from }), "{notes:?}");
    }
}
