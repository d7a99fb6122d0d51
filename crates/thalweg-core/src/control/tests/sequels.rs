//! Proves that a producer which was silent and is back goes on after the end of another, that one which is dead does not, and that who
//! waits for either is told once, and soon.

use alloc::vec;
use alloc::vec::Vec;

use super::super::sequel::ANSWER_WITHIN;
use super::super::{EndCause, Notice, Sequel, Subscription};
use super::{A, B, C, D, E, Fabric, NodeId, name, publication};
use crate::id::{Epoch, StreamId};
use crate::mailbox::{Held, News};
use crate::routing::pulse::Hearing;
use crate::session::{LEASE, RENEW};
use crate::time::Duration;

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

/// The end of a stream has been read at C.
fn read_end(fabric: &mut Fabric, stream: StreamId) -> Sequel {
    let sequel = fabric.at(C, |c, now, keys| {
        c.handle_ended(&name(), (stream, EndCause::Finished), now, keys)
    });
    fabric.settle();
    sequel
}

/// What is sent to a producer, and by it, is lost, and its relay hears nothing of it.
fn fall_silent(fabric: &mut Fabric, producer: NodeId) {
    fabric.wires.retain(|wire| !wire.contains(&producer));
    hear(fabric, producer, Hearing::Silent);
    fabric.pass(Duration::from_millis(500));
}

fn come_back(fabric: &mut Fabric, producer: NodeId) {
    fabric.wires.push([B.min(producer), B.max(producer)]);
    hear(fabric, producer, Hearing::Answering);
}

fn hear(fabric: &mut Fabric, producer: NodeId, hearing: Hearing) {
    fabric.at(B, |c, now, keys| {
        c.handle_hearing(producer, hearing, now, keys);
    });
    fabric.settle();
}

/// A has served C and is silent, so that D does; returns their streams.
fn turned(fabric: &mut Fabric) -> [StreamId; 2] {
    let of_a = fabric.publish(A, publication(None, false));
    fabric.subscribe(C);
    let of_d = fabric.publish(D, publication(None, false));
    assert_eq!(found(fabric), Some(A));
    fall_silent(fabric, A);
    assert_eq!(found(fabric), Some(D));
    [of_a, of_d]
}

#[test]
fn who_was_silent_and_is_back_goes_on_after_the_end_of_another() {
    let mut fabric = star();
    let [of_a, of_d] = turned(&mut fabric);
    come_back(&mut fabric, A);
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
    assert_eq!(sequels(&fabric), [true], "no time has passed");
    assert_eq!(found(&fabric), Some(A));
    assert_eq!(
        read_end(&mut fabric, of_d),
        Sequel::GoesOn,
        "who asks later"
    );
    // It had not heard that it was left, and makes another plan all the same: what the one before brings is not for who is back.
    assert_eq!(fabric.way(A, of_a), (Epoch(2), vec![A, B, C]));
    let node = fabric.node(C);
    assert_eq!(node.anew.last(), Some(&(of_a, Some(Epoch(1)))));
    assert_eq!(node.found.last(), Some(&(name(), of_a)));
    assert_eq!(fabric.node(A).replays.last(), Some(&(of_a, Epoch(2))));
    // It answers, so who comes to stand by does no more than that.
    let of_e = fabric.publish(E, publication(None, false));
    assert_eq!(found(&fabric), Some(A));
    fabric.at(E, |c, now, keys| c.unpublish(of_e, now, keys));
    fabric.pass(LEASE + LEASE);
    assert_eq!((found(&fabric), sequels(&fabric)), (Some(A), &[true][..]));
    assert_eq!(fabric.way(A, of_a).0, Epoch(2));
    // Its end is an end like any other.
    fabric.at(D, |c, now, keys| c.unpublish(of_d, now, keys));
    fabric.settle();
    assert_eq!(read_end(&mut fabric, of_a), Sequel::Over);
}

#[test]
fn who_is_dead_does_not_go_on_and_that_is_known_soon() {
    let mut fabric = star();
    let [_, of_d] = turned(&mut fabric);
    for told in 1..3 {
        assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
        assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure, "both wait");
        fabric.pass(ANSWER_WITHIN.saturating_sub(SOON));
        assert_eq!(sequels(&fabric).len(), told - 1);
        fabric.pass(SOON);
        assert_eq!(sequels(&fabric), vec![false; told]);
        assert_eq!(found(&fabric), Some(D), "nothing has been found");
    }
}

#[test]
fn who_comes_back_while_it_is_asked_goes_on() {
    let mut fabric = star();
    let [of_a, of_d] = turned(&mut fabric);
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
    // As the one that has ended goes off the air, who comes back is not told so.
    fabric.at(D, |c, now, keys| c.unpublish(of_d, now, keys));
    fabric.pass(Duration::from_millis(900));
    come_back(&mut fabric, A);
    // Its relay had told it nothing that was not lost.
    fabric.at(A, |c, now, keys| c.handle_link_down(B, now, keys));
    fabric.at(B, |c, now, keys| c.handle_link_down(A, now, keys));
    fabric.wires.retain(|wire| *wire != [A, B]);
    fabric.link([A, B]);
    fabric.settle();
    fabric.pass(Duration::from_millis(200));
    assert_eq!((found(&fabric), sequels(&fabric)), (Some(A), &[true][..]));
    assert_eq!(fabric.way(A, of_a).1, vec![A, B, C]);
    let is_gone = |notice: &Notice| matches!(notice, Notice::Gone);
    assert!(!fabric.node(C).notices.iter().any(is_gone));
    fabric.pass(LEASE + LEASE);
    assert_eq!((found(&fabric), sequels(&fabric)), (Some(A), &[true][..]));
}

#[test]
fn who_stands_by_while_another_is_asked_is_taken_at_once() {
    let mut fabric = star();
    let [of_a, of_d] = turned(&mut fabric);
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
    let of_e = fabric.publish(E, publication(None, false));
    assert_eq!((found(&fabric), sequels(&fabric)), (Some(E), &[true][..]));
    assert_eq!(fabric.way(E, of_e).1, vec![E, B, C]);
    come_back(&mut fabric, A);
    fabric.pass(LEASE + LEASE);
    assert_eq!((found(&fabric), sequels(&fabric)), (Some(E), &[true][..]));
    let source = fabric.node(A).controller.source(of_a);
    assert_eq!(source.expect("it publishes").sinks().count(), 0);
    // And one that stands by when the end is read is not waited for at all.
    assert_eq!(read_end(&mut fabric, of_e), Sequel::GoesOn);
    assert_eq!(found(&fabric), Some(A));
}

#[test]
fn of_several_that_were_silent_the_one_that_is_back_goes_on() {
    let mut fabric = star();
    let [_, of_d] = turned(&mut fabric);
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
fn of_two_that_are_back_one_is_taken_and_the_other_left() {
    let mut fabric = star();
    let [of_a, of_d] = turned(&mut fabric);
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
fn nobody_is_asked_for_who_wants_nothing_any_more() {
    let mut fabric = star();
    let [of_a, of_d] = turned(&mut fabric);
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
fn who_withdraws_its_stream_when_it_is_back_is_not_waited_for() {
    let mut fabric = star();
    let [of_a, of_d] = turned(&mut fabric);
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
    come_back(&mut fabric, A);
    fabric.at(A, |c, now, keys| c.unpublish(of_a, now, keys));
    fabric.settle();
    assert_eq!(sequels(&fabric), [false], "no time has passed");
}

#[test]
fn a_stream_that_has_ended_here_unread_does_not_come_after_another() {
    let mut fabric = star();
    let [of_a, of_d] = turned(&mut fabric);
    come_back(&mut fabric, A);
    let held = Held {
        floor: 7,
        ranges: Vec::new(),
    };
    fabric.at(C, |c, now, _| c.handle_held(of_a, held, News::Ended, now));
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Over);
}

#[test]
fn who_waits_for_the_next_stream_gets_that_of_one_that_was_silent_when_it_has_been_quiet() {
    let mut fabric = star();
    let [_, of_d] = turned(&mut fabric);
    fabric.at(C, |c, now, _| {
        c.handle_held(of_d, Held::default(), News::Ended, now);
    });
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
    fabric.at(D, |c, now, keys| c.unpublish(of_d, now, keys));
    fabric.pass(ANSWER_WITHIN);
    assert_eq!((found(&fabric), sequels(&fabric)), (None, &[false][..]));
    // Whoever has not read the end yet asks the same.
    assert_eq!(read_end(&mut fabric, of_d), Sequel::Unsure);
    fabric.pass(ANSWER_WITHIN);
    assert_eq!((found(&fabric), sequels(&fabric)), (None, &[false; 2][..]));
    come_back(&mut fabric, A);
    fabric.pass(Duration::from_secs(10));
    assert_eq!(found(&fabric), Some(A));
}
