//! Proves that a producer which was silent and is back follows the end of another, that a dead one
//! does not, and that waiting readers are notified once, and soon.

use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::seen::{Held, News};
use thalweg_base::time::Duration;
use thalweg_link::pulse::Hearing;

use super::super::{EndCause, Notice, Sequel, Subscription};
use super::{A, B, C, D, E, Fabric, NodeId, name, publication};
use crate::session::{LEASE, RENEW};
use crate::sinks::ANSWER_WITHIN;

const SOON: Duration = Duration::from_millis(1);

/// C is behind the relay B, and so are the producers A, D and E.
fn star() -> Fabric {
    Fabric::linked(&[[A, B], [B, C], [B, D], [B, E]])
}

fn found(fabric: &Fabric) -> Option<NodeId> {
    match fabric.node(C).controller.subscription(&name()) {
        Some(Subscription::Found { source, .. }) => Some(source),
        _ => None,
    }
}

fn sequels(fabric: &Fabric) -> &[bool] {
    &fabric.node(C).sequels
}

/// A reader at C reaches the end of the stream.
fn read_end(fabric: &mut Fabric, stream: StreamId) -> Sequel {
    let sequel = fabric.at(C, |c, now, keys| {
        c.handle_ended(&name(), (stream, EndCause::Finished), now, keys)
    });
    fabric.settle();
    sequel
}

/// Frames to and from a producer are lost, and its relay finds it silent.
fn fall_silent(fabric: &mut Fabric, producer: NodeId) {
    fabric.wires.retain(|wire| !wire.contains(&producer));
    set_hearing(fabric, producer, Hearing::Silent);
    fabric.pass(Duration::from_millis(500));
}

fn come_back(fabric: &mut Fabric, producer: NodeId) {
    fabric.wires.push([B.min(producer), B.max(producer)]);
    set_hearing(fabric, producer, Hearing::Answering);
}

fn set_hearing(fabric: &mut Fabric, producer: NodeId, hearing: Hearing) {
    fabric.at(B, |c, now, keys| {
        c.handle_hearing(producer, hearing, now, keys);
    });
    fabric.settle();
}

/// A has served C and falls silent, so that D takes over; returns their streams.
fn switched(fabric: &mut Fabric) -> [StreamId; 2] {
    let of_a = fabric.publish(A, publication(None, false));
    fabric.subscribe(C);
    let of_d = fabric.publish(D, publication(None, false));
    assert_eq!(found(fabric), Some(A));
    fall_silent(fabric, A);
    assert_eq!(found(fabric), Some(D));
    [of_a, of_d]
}

#[test]
fn returned_producer_follows_end_of_another() {
    let mut fabric = star();
    let [of_a, of_d] = switched(&mut fabric);
    come_back(&mut fabric, A);
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
    assert_eq!(sequels(&fabric), [true], "no time has passed");
    assert_eq!(found(&fabric), Some(A));
    assert_eq!(
        read_end(&mut fabric, of_d),
        Sequel::GoesOn,
        "a later reader"
    );
    // A does not know that it was left, and makes another plan. What its former plan brings is not
    // for C's return.
    assert_eq!(fabric.plan_path(A, of_a), (Epoch(2), vec![A, B, C]));
    let node = fabric.node(C);
    assert_eq!(node.restarts.last(), Some(&(of_a, Some(Epoch(1)))));
    assert_eq!(node.found.last(), Some(&(name(), of_a)));
    assert_eq!(fabric.node(A).replays.last(), Some(&(of_a, Epoch(2))));
    // It has answered, so another producer that stands by changes nothing.
    let of_e = fabric.publish(E, publication(None, false));
    assert_eq!(found(&fabric), Some(A));
    fabric.at(E, |c, now, keys| c.unpublish(of_e, now, keys));
    fabric.pass(LEASE + LEASE);
    assert_eq!((found(&fabric), sequels(&fabric)), (Some(A), &[true][..]));
    assert_eq!(fabric.plan_path(A, of_a).0, Epoch(2));
    // Its end is handled like any other.
    fabric.at(D, |c, now, keys| c.unpublish(of_d, now, keys));
    fabric.settle();
    assert_eq!(read_end(&mut fabric, of_a), Sequel::Over);
}

#[test]
fn dead_producer_ends_stream() {
    let mut fabric = star();
    let [_, of_d] = switched(&mut fabric);
    for round in 1..3 {
        assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
        assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure, "both wait");
        fabric.pass(ANSWER_WITHIN.saturating_sub(SOON));
        assert_eq!(sequels(&fabric).len(), round - 1);
        fabric.pass(SOON);
        assert_eq!(sequels(&fabric), vec![false; round]);
        assert_eq!(found(&fabric), Some(D), "nothing has been found");
    }
}

#[test]
fn producer_returning_in_probe_is_taken() {
    let mut fabric = star();
    let [of_a, of_d] = switched(&mut fabric);
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
    // The ended stream is withdrawn meanwhile; the reader that waits for A gets no notice of it.
    fabric.at(D, |c, now, keys| c.unpublish(of_d, now, keys));
    fabric.pass(Duration::from_millis(900));
    come_back(&mut fabric, A);
    // Everything that its relay sent it was lost.
    fabric.at(A, |c, now, keys| c.handle_link_down(B, now, keys));
    fabric.at(B, |c, now, keys| c.handle_link_down(A, now, keys));
    fabric.wires.retain(|wire| *wire != [A, B]);
    fabric.link([A, B]);
    fabric.settle();
    fabric.pass(Duration::from_millis(200));
    assert_eq!((found(&fabric), sequels(&fabric)), (Some(A), &[true][..]));
    assert_eq!(fabric.plan_path(A, of_a).1, vec![A, B, C]);
    let is_gone = |notice: &Notice| matches!(notice, Notice::Gone);
    assert!(!fabric.node(C).notices.iter().any(is_gone));
    fabric.pass(LEASE + LEASE);
    assert_eq!((found(&fabric), sequels(&fabric)), (Some(A), &[true][..]));
}

#[test]
fn standby_producer_ends_probe() {
    let mut fabric = star();
    let [of_a, of_d] = switched(&mut fabric);
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
    let of_e = fabric.publish(E, publication(None, false));
    assert_eq!((found(&fabric), sequels(&fabric)), (Some(E), &[true][..]));
    assert_eq!(fabric.plan_path(E, of_e).1, vec![E, B, C]);
    come_back(&mut fabric, A);
    fabric.pass(LEASE + LEASE);
    assert_eq!((found(&fabric), sequels(&fabric)), (Some(E), &[true][..]));
    let source = fabric.node(A).controller.source(of_a);
    assert_eq!(source.expect("it publishes").sinks().count(), 0);
    // A producer that stands by when the end is read needs no probe.
    assert_eq!(read_end(&mut fabric, of_e), Sequel::GoesOn);
    assert_eq!(found(&fabric), Some(A));
}

#[test]
fn first_to_serve_of_silent_is_taken() {
    let mut fabric = star();
    let [_, of_d] = switched(&mut fabric);
    let of_e = fabric.publish(E, publication(None, false));
    fall_silent(&mut fabric, D);
    assert_eq!(found(&fabric), Some(E));
    come_back(&mut fabric, D);
    assert_eq!(read_end(&mut fabric, of_e), Sequel::Unsure);
    assert_eq!((found(&fabric), sequels(&fabric)), (Some(D), &[true][..]));
    // It ends, and the other is still dead.
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
    fabric.pass(ANSWER_WITHIN);
    assert_eq!(sequels(&fabric), [true, false]);
}

#[test]
fn second_returned_producer_is_left() {
    let mut fabric = star();
    let [of_a, of_d] = switched(&mut fabric);
    let of_e = fabric.publish(E, publication(None, false));
    fall_silent(&mut fabric, D);
    come_back(&mut fabric, A);
    come_back(&mut fabric, D);
    assert_eq!(read_end(&mut fabric, of_e), Sequel::Unsure);
    assert_eq!(sequels(&fabric), [true]);
    fabric.pass(RENEW + RENEW);
    let served = [(A, of_a), (D, of_d)].map(|(producer, stream)| {
        let source = fabric.node(producer).controller.source(stream);
        let sinks = source.expect("it publishes").sinks().count();
        assert_eq!(sinks == 1, found(&fabric) == Some(producer));
        sinks
    });
    assert_eq!(served.iter().sum::<usize>(), 1);
}

#[test]
fn unsubscribe_cancels_probe() {
    let mut fabric = star();
    let [of_a, of_d] = switched(&mut fabric);
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
    fabric.at(C, |c, now, keys| c.unsubscribe(&name(), now, keys));
    assert_eq!(sequels(&fabric), [], "the driver has not heard yet");
    fabric.settle();
    assert_eq!(sequels(&fabric), [false]);
    come_back(&mut fabric, A);
    fabric.pass(LEASE + LEASE);
    assert_eq!(sequels(&fabric), [false]);
    let source = fabric.node(A).controller.source(of_a);
    assert_eq!(source.expect("it publishes").sinks().count(), 0);
}

#[test]
fn withdrawn_stream_ends_probe() {
    let mut fabric = star();
    let [of_a, of_d] = switched(&mut fabric);
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
    come_back(&mut fabric, A);
    fabric.at(A, |c, now, keys| c.unpublish(of_a, now, keys));
    fabric.settle();
    assert_eq!(sequels(&fabric), [false], "no time has passed");
}

#[test]
fn ended_unread_stream_is_no_successor() {
    let mut fabric = star();
    let [of_a, of_d] = switched(&mut fabric);
    come_back(&mut fabric, A);
    let held = Held {
        floor: 7,
        ranges: Vec::new(),
    };
    fabric.at(C, |c, now, _| c.handle_held(of_a, held, News::Ended, now));
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Over);
}

#[test]
fn silent_producer_returns_after_hold() {
    let mut fabric = star();
    let [_, of_d] = switched(&mut fabric);
    fabric.at(C, |c, now, _| {
        c.handle_held(of_d, Held::default(), News::Ended, now);
    });
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
    fabric.at(D, |c, now, keys| c.unpublish(of_d, now, keys));
    fabric.pass(ANSWER_WITHIN);
    assert_eq!((found(&fabric), sequels(&fabric)), (None, &[false][..]));
    // A reader that reaches the end later gets the same answer.
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
    fabric.pass(ANSWER_WITHIN);
    assert_eq!((found(&fabric), sequels(&fabric)), (None, &[false; 2][..]));
    come_back(&mut fabric, A);
    fabric.pass(Duration::from_secs(10));
    assert_eq!(found(&fabric), Some(A));
}
