//! Proves that the name of a dead producer is free at once, that what it sent still reaches its
//! sinks, and that those wait for the next producer of the name.

use alloc::vec::Vec;

use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::limits::OPENING_MAX;
use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;

use super::super::{EndCause, Notice, PublishError, Sequel, Subscription};
use super::{A, B, C, D, Fabric, name, publication};
use crate::session::RENEW;

fn found(fabric: &Fabric, sink: NodeId) -> Option<StreamId> {
    match fabric.node(sink).controller.subscription(&name()) {
        Some(Subscription::Found { stream, .. }) => Some(stream),
        _ => None,
    }
}

fn drain(fabric: &mut Fabric, stream: StreamId) {
    fabric.at(A, |c, now, keys| c.drain(stream, now, keys));
    fabric.settle();
}

fn read_end(fabric: &mut Fabric, stream: StreamId, cause: EndCause) -> Sequel {
    let sequel = fabric.at(C, |c, now, keys| {
        c.handle_ended(&name(), (stream, cause), now, keys)
    });
    fabric.settle();
    sequel
}

/// A publishes for C, and its program dies.
fn orphaned() -> (Fabric, StreamId) {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [B, D]]);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(None, false));
    assert_eq!(found(&fabric, C), Some(stream));
    drain(&mut fabric, stream);
    (fabric, stream)
}

#[test]
fn draining_frees_name_and_keeps_sinks() {
    let (mut fabric, dead) = orphaned();
    let next = fabric.publish(A, publication(None, false));
    assert_ne!(next, dead);
    // The sink keeps renewing, and its plan stays: what was sent may be in flight for any time.
    fabric.pass(RENEW + RENEW);
    assert_eq!(found(&fabric, C), Some(dead));
    assert_eq!(fabric.plan_path(A, dead).1, [A, B, C]);
    // A sink that subscribes now is too late.
    fabric.subscribe(D);
    assert_eq!(found(&fabric, D), Some(next));
}

#[test]
fn cut_off_stream_continues_with_next() {
    let (mut fabric, dead) = orphaned();
    let next = fabric.publish(A, publication(None, false));
    assert_eq!(
        read_end(&mut fabric, dead, EndCause::CutOff),
        Sequel::GoesOn
    );
    assert_eq!(found(&fabric, C), Some(next));
    assert_eq!(fabric.plan_path(A, next).1, [A, B, C]);
    // The dead stream stays announced until its end has settled, and is not taken again.
    fabric.pass(RENEW + RENEW);
    assert_eq!(found(&fabric, C), Some(next));
}

#[test]
fn cut_off_stream_awaits_successor() {
    let (mut fabric, dead) = orphaned();
    for reader in 0..2 {
        let sequel = read_end(&mut fabric, dead, EndCause::CutOff);
        assert_eq!(sequel, Sequel::GoesOn, "reader {reader}");
    }
    assert_eq!(found(&fabric, C), None);
    fabric.at(A, |c, now, keys| c.unpublish(dead, now, keys));
    fabric.pass(Duration::from_secs(1));
    // Each reader reports the end itself when it reaches it.
    assert!(!fabric.node(C).notices.contains(&Notice::Gone));
    let next = fabric.publish(D, publication(None, false));
    assert_eq!(found(&fabric, C), Some(next), "of another node");
}

#[test]
fn finished_stream_ends_without_its_program() {
    let (mut fabric, stream) = orphaned();
    let sequel = read_end(&mut fabric, stream, EndCause::Finished);
    assert_eq!(sequel, Sequel::Over);
}

#[test]
fn draining_stream_refuses_new_sink() {
    let (mut fabric, _) = orphaned();
    fabric.pass(OPENING_MAX);
    fabric.subscribe(D);
    let refused = |notice: &Notice| matches!(notice, Notice::Refused { .. });
    assert!(fabric.node(D).notices.iter().any(refused));
}

#[test]
fn short_stream_reaches_waiting_sink() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    let stream = fabric.at(A, |c, now, keys| {
        let stream = c.publish(publication(None, false), None, now, keys);
        let stream = stream.expect("the name is free");
        c.drain(stream, now, keys);
        stream
    });
    fabric.subscribe(C);
    assert_eq!(fabric.plan_path(A, stream).1, [A, B, C]);
}

#[test]
fn opening_goes_to_sinks_that_waited() {
    let (mut fabric, dead) = orphaned();
    let next = fabric.publish(A, publication(None, false));
    read_end(&mut fabric, dead, EndCause::CutOff);
    fabric.subscribe(D);
    assert_eq!(
        (found(&fabric, C), found(&fabric, D)),
        (Some(next), Some(next))
    );
    // C waited for both; D found the second already published.
    assert_eq!(fabric.node(A).openings, [(dead, C), (next, C)]);
}

#[test]
fn draining_streams_yield_to_publishers() {
    let held = |megabytes: u64| {
        let mut publication = publication(None, false);
        publication.needs = Needs {
            hold: Duration::from_secs(60),
            hold_size: thalweg_base::units::DataSize::from_bytes(megabytes << 20),
            ..Needs::default()
        };
        publication
    };
    let mut fabric = Fabric::linked(&[[A, B]]);
    let mut dead = Vec::new();
    for _ in 0..4 {
        let stream = fabric.publish(A, held(256));
        drain(&mut fabric, stream);
        dead.push(stream);
        fabric.pass(Duration::from_secs(1));
    }
    // The capacity for held streams is exhausted; the name is free nevertheless.
    let next = fabric.publish(A, held(256));
    let announced = |stream| fabric.node(A).controller.source(stream);
    assert!(announced(dead[0]).is_none_or(|source| !source.is_announced()));
    assert!(announced(dead[1]).is_some_and(super::super::Source::is_announced));
    let taken = fabric.at(A, |c, now, keys| c.publish(held(1), None, now, keys));
    assert_eq!(taken, Err(PublishError::Taken(name())));
    assert!(fabric.node(A).controller.source(next).is_some());
}
