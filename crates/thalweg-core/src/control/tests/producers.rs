//! Proves which of several producers of one name a sink is served by, and when it takes another.

use alloc::vec;
use alloc::vec::Vec;

use super::super::sink::REFUSED_FOR;
use super::super::{EndCause, Note, Notice, Sequel, Subscription};
use super::{A, B, C, D, E, Fabric, NodeId, name, publication, wire};
use crate::id::{Epoch, StreamId};
use crate::routing::pulse::Hearing;
use crate::session::{LEASE, Part, RENEW};
use crate::time::Duration;
use crate::wire::control::Message;
use crate::wire::receipt::Silence;

/// Returns from which node a stream is wanted.
fn source_of(fabric: &Fabric, sink: NodeId) -> Option<NodeId> {
    match fabric.node(sink).controller.subscription(&name()) {
        Some(Subscription::Found { source, .. }) => Some(source),
        _ => None,
    }
}

#[test]
fn a_sink_stays_with_its_producer_and_takes_the_one_that_stands_by_when_that_is_gone() {
    // B relays, A and D publish, C wants.
    let mut fabric = Fabric::linked(&[[A, B], [B, D], [B, C]]);
    fabric.subscribe(C);
    let stream_of_d = fabric.publish(D, publication(None, false));
    assert_eq!(source_of(&fabric, C), Some(D));
    let stream_of_a = fabric.publish(A, publication(None, false));
    assert_eq!(
        source_of(&fabric, C),
        Some(D),
        "though A has the smaller key"
    );
    assert!(!fabric.node(A).active.contains_key(&stream_of_a));
    fabric.pass(LEASE + LEASE);
    assert_eq!(source_of(&fabric, C), Some(D));
    fabric.at(D, |c, now, keys| c.unpublish(stream_of_d, now, keys));
    fabric.settle();
    assert_eq!(source_of(&fabric, C), Some(A), "no time has passed");
    assert_eq!(fabric.way(A, stream_of_a).1, vec![A, B, C]);
    let replays = &fabric.node(A).replays;
    assert_eq!(replays, &[(stream_of_a, Epoch(1))], "from its newest key");
    // Who comes back stands by.
    fabric.publish(D, publication(None, false));
    assert_eq!(source_of(&fabric, C), Some(A));
}

/// The end of a stream has been read at C.
fn read_end(fabric: &mut Fabric, stream: StreamId) -> Sequel {
    let sequel = fabric.at(C, |c, now, keys| {
        c.handle_ended(&name(), (stream, EndCause::Finished), now, keys)
    });
    fabric.settle();
    sequel
}

#[test]
fn a_producer_that_has_ended_is_replaced_and_where_nobody_stands_by_the_end_is_the_end() {
    let mut fabric = Fabric::linked(&[[A, B], [B, D], [B, C]]);
    fabric.subscribe(C);
    let stream_of_a = fabric.publish(A, publication(None, false));
    let ended = |fabric: &mut Fabric, stream| match read_end(fabric, stream) {
        Sequel::GoesOn => true,
        Sequel::Over => false,
        Sequel::Unsure => panic!("nobody was silent"),
    };
    assert!(!ended(&mut fabric, stream_of_a), "nobody stands by");
    let stream_of_d = fabric.publish(D, publication(None, false));
    assert_eq!(source_of(&fabric, C), Some(A));
    assert!(ended(&mut fabric, stream_of_a));
    assert_eq!(
        source_of(&fabric, C),
        Some(D),
        "though A still announces it"
    );
    assert_eq!(fabric.way(D, stream_of_d).1, vec![D, B, C]);
    assert!(
        ended(&mut fabric, stream_of_a),
        "who asks later is told the same"
    );
    assert!(
        !ended(&mut fabric, stream_of_d),
        "neither goes on, though both are announced"
    );
    fabric.pass(LEASE + LEASE);
    assert_eq!(source_of(&fabric, C), Some(D));
    // A begins anew, with a stream that has not ended, and stands by.
    fabric.at(A, |c, now, keys| c.unpublish(stream_of_a, now, keys));
    fabric.settle();
    fabric.publish(A, publication(None, false));
    assert_eq!(source_of(&fabric, C), Some(D));
    assert!(ended(&mut fabric, stream_of_d));
    assert_eq!(source_of(&fabric, C), Some(A));
}

#[test]
fn a_producer_that_is_silent_is_replaced_long_before_its_links_are_given_up() {
    // Two hops before the sink, and one more sink that has its copies from the first relay.
    let mut fabric = Fabric::linked(&[[A, B], [B, E], [B, C], [D, E]]);
    let stream_of_a = fabric.publish(A, publication(None, false));
    fabric.subscribe(E);
    fabric.subscribe(C);
    let hear = |fabric: &mut Fabric, hearing| {
        fabric.at(B, |c, now, keys| {
            c.handle_hearing(A, hearing, now, keys);
        });
        fabric.settle();
    };
    hear(&mut fabric, Hearing::Silent);
    fabric.pass(Duration::from_secs(5));
    for sink in [C, E] {
        assert_eq!(source_of(&fabric, sink), Some(A), "nobody stands by");
    }
    hear(&mut fabric, Hearing::Answering);
    let stream_of_d = fabric.publish(D, publication(None, false));
    fabric.pass(Duration::from_secs(5));
    for sink in [C, E] {
        assert_eq!(source_of(&fabric, sink), Some(A), "who is served stays");
    }
    hear(&mut fabric, Hearing::Silent);
    fabric.pass(Duration::from_millis(499));
    for sink in [C, E] {
        assert_eq!(source_of(&fabric, sink), Some(A), "it may find another way");
    }
    fabric.pass(Duration::from_millis(1));
    for sink in [C, E] {
        assert_eq!(source_of(&fabric, sink), Some(D));
        let source = fabric.node(D).controller.source(stream_of_d);
        let mut served = source.expect("it publishes").sinks();
        assert!(served.any(|served| served == sink), "{sink:?}");
    }
    let source = fabric.node(A).controller.source(stream_of_a);
    let left = source.expect("it publishes").sinks().count();
    assert_eq!(left, 0, "both have said that they go");
    hear(&mut fabric, Hearing::Answering);
    fabric.pass(LEASE);
    for sink in [C, E] {
        assert_eq!(source_of(&fabric, sink), Some(D), "nobody goes back");
    }
}

#[test]
fn only_the_node_that_adus_come_from_can_say_that_their_source_is_silent() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [C, D]]);
    let stream = fabric.publish(A, publication(None, false));
    fabric.publish(D, publication(None, false));
    fabric.subscribe(C);
    assert_eq!(source_of(&fabric, C), Some(A));
    let (epoch, _) = fabric.way(A, stream);
    let said = |epoch| Message::Silence(Silence { stream, epoch });
    let mut say = |from, epoch| {
        let frame = wire::encode(&said(epoch));
        fabric.at(C, |c, now, keys| c.handle_frame(from, &frame, now, keys));
        fabric.settle();
        let astray = fabric.node(C).notes.iter();
        let astray = astray.filter(|note| matches!(note, Note::SilenceAstray { .. }));
        (astray.count(), source_of(&fabric, C))
    };
    assert_eq!(say(D, epoch), (1, Some(A)));
    assert_eq!(say(B, Epoch(epoch.0 + 1)), (2, Some(A)));
    assert_eq!(say(B, epoch), (2, Some(D)));
}

#[test]
fn a_producer_that_cannot_be_reached_is_replaced_and_stands_by_when_it_is_back() {
    let mut fabric = Fabric::linked(&[[A, B], [B, D], [B, C]]);
    fabric.subscribe(C);
    fabric.publish(A, publication(None, false));
    let stream_of_d = fabric.publish(D, publication(None, false));
    assert_eq!(source_of(&fabric, C), Some(A));
    fabric.cut([A, B]);
    assert_eq!(source_of(&fabric, C), Some(D), "no time has passed");
    assert_eq!(fabric.way(D, stream_of_d).1, vec![D, B, C]);
    fabric.link([A, B]);
    fabric.pass(LEASE + LEASE);
    assert_eq!(source_of(&fabric, C), Some(D));
    // Who has no other waits for the one that it has.
    fabric.cut([B, D]);
    assert_eq!(source_of(&fabric, C), Some(A));
    fabric.cut([A, B]);
    assert_eq!(source_of(&fabric, C), Some(A));
}

/// Has a node publish what it cannot send to C by B, for C lacks the module.
fn publish_in_vain(fabric: &mut Fabric, at: NodeId) {
    let lacking = fabric.nodes.get_mut(&C).expect("linked");
    lacking.unknown.push("nowhere");
    let part = |node, adapters| Part {
        node,
        adapters,
        plaintext: true,
    };
    let to_sink = part(C, vec!["nowhere".into()]);
    let given = Some(vec![part(at, vec![]), part(B, vec![]), to_sink]);
    let published = fabric.at(at, |c, now, keys| {
        c.publish(publication(None, false), given, now, keys)
    });
    published.expect("a given plan");
    fabric.settle();
}

fn refusals(fabric: &Fabric, at: NodeId) -> usize {
    let told = fabric.node(at).notices.iter();
    told.filter(|notice| matches!(notice, Notice::Refused { .. }))
        .count()
}

#[test]
fn a_producer_that_refuses_is_left_for_one_that_serves() {
    let mut fabric = Fabric::linked(&[[A, B], [B, D], [B, C]]);
    publish_in_vain(&mut fabric, A);
    fabric.subscribe(C);
    fabric.pass(Duration::from_secs(2));
    assert_eq!(source_of(&fabric, C), Some(A), "there is no other");
    assert_eq!(refusals(&fabric, C), 1);
    let stream_of_d = fabric.publish(D, publication(None, false));
    fabric.pass(Duration::from_secs(2));
    assert_eq!(source_of(&fabric, C), Some(D));
    assert_eq!(fabric.way(D, stream_of_d).1, vec![D, B, C]);
    let left = fabric.node(A).controller.sources().next().expect("one");
    assert_eq!(left.plans().count(), 0, "it has been told");
    fabric.pass(REFUSED_FOR + REFUSED_FOR);
    assert_eq!(source_of(&fabric, C), Some(D));
    assert_eq!(refusals(&fabric, C), 1);
}

#[test]
fn a_producer_that_served_and_cannot_any_more_is_left_when_its_last_plan_is_over() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [A, E], [C, E], [D, E]]);
    let part = |node| Part {
        node,
        adapters: vec![],
        plaintext: true,
    };
    let given = Some(vec![part(A), part(B), part(C)]);
    let published = fabric.at(A, |c, now, keys| {
        c.publish(publication(None, false), given, now, keys)
    });
    let stream_of_a = published.expect("a given plan");
    fabric.subscribe(C);
    fabric.publish(D, publication(None, false));
    fabric.pass(Duration::from_secs(2));
    assert_eq!(source_of(&fabric, C), Some(A));
    assert_eq!(fabric.way(A, stream_of_a).1, vec![A, B, C]);
    // There is a way to A, by E, and the plan that A was given has none.
    fabric.cut([B, C]);
    fabric.pass(Duration::from_secs(2));
    assert_eq!(source_of(&fabric, C), Some(A), "its part is held yet");
    fabric.pass(LEASE + RENEW + RENEW);
    assert_eq!(source_of(&fabric, C), Some(D));
    assert_eq!(refusals(&fabric, C), 1);
    fabric.link([B, C]);
    fabric.pass(REFUSED_FOR + LEASE);
    assert_eq!(source_of(&fabric, C), Some(D), "who is back stands by");
}

#[test]
fn a_sink_that_is_restarted_is_told_again_why_it_is_not_served() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    publish_in_vain(&mut fabric, A);
    fabric.subscribe(C);
    fabric.pass(Duration::from_secs(2));
    assert_eq!(refusals(&fabric, C), 1);
    // It is back before its subscription lapses.
    fabric.cut([B, C]);
    fabric.nodes.remove(&C);
    fabric.start(C, Duration::from_secs(2_000));
    let lacking = fabric.nodes.get_mut(&C).expect("started");
    lacking.unknown.push("nowhere");
    fabric.link([B, C]);
    fabric.settle();
    fabric.subscribe(C);
    fabric.pass(Duration::from_secs(1));
    assert_eq!(refusals(&fabric, C), 1, "it begins anew");
    fabric.pass(Duration::from_secs(60));
    assert_eq!(refusals(&fabric, C), 1, "and once");
}

#[test]
fn of_producers_that_all_refuse_each_is_asked_in_its_turn_and_each_word_told_once() {
    let mut fabric = Fabric::linked(&[[A, B], [B, D], [B, C]]);
    publish_in_vain(&mut fabric, A);
    publish_in_vain(&mut fabric, D);
    fabric.subscribe(C);
    fabric.pass(Duration::from_secs(100));
    let asked: Vec<StreamId> = fabric.node(C).found.iter().map(|(_, one)| *one).collect();
    assert_eq!(
        asked.len(),
        8,
        "both at first, and after each of three times: {asked:?}"
    );
    assert!(asked.windows(2).all(|two| two[0] != two[1]), "{asked:?}");
    assert_eq!(refusals(&fabric, C), 2);
}
