//! Proves which of several producers of one name serves a sink, and when the sink switches.

use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::time::Duration;
use thalweg_base::wire::control::Message;
use thalweg_base::wire::receipt::Silence;
use thalweg_link::pulse::Hearing;

use super::super::{EndCause, Note, Notice, Sequel, Subscription};
use super::{A, B, C, D, E, Fabric, NodeId, name, publication, wire};
use crate::session::{LEASE, Part, RENEW};
use crate::sinks::REFUSED_FOR;

/// Returns the producer that a sink uses.
fn source_of(fabric: &Fabric, sink: NodeId) -> Option<NodeId> {
    match fabric.node(sink).controller.subscription(&name()) {
        Some(Subscription::Found { source, .. }) => Some(source),
        _ => None,
    }
}

#[test]
fn sink_keeps_producer_until_it_is_gone() {
    // B relays, A and D publish, C subscribes.
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
    assert_eq!(fabric.plan_path(A, stream_of_a).1, vec![A, B, C]);
    let replays = &fabric.node(A).replays;
    assert_eq!(replays, &[(stream_of_a, Epoch(1))], "from its newest key");
    // A producer that returns stands by.
    fabric.publish(D, publication(None, false));
    assert_eq!(source_of(&fabric, C), Some(A));
}

/// A reader at C reaches the end of the stream.
fn read_end(fabric: &mut Fabric, stream: StreamId) -> Sequel {
    let sequel = fabric.at(C, |c, now, keys| {
        c.handle_ended(&name(), (stream, EndCause::Finished), now, keys)
    });
    fabric.settle();
    sequel
}

#[test]
fn ended_stream_goes_to_standby_or_ends() {
    let mut fabric = Fabric::linked(&[[A, B], [B, D], [B, C]]);
    fabric.subscribe(C);
    let stream_of_a = fabric.publish(A, publication(None, false));
    let ended = |fabric: &mut Fabric, stream| match read_end(fabric, stream) {
        Sequel::GoesOn => true,
        Sequel::Over => false,
        Sequel::Unsure => panic!("no producer was silent"),
    };
    assert!(!ended(&mut fabric, stream_of_a), "no producer stands by");
    let stream_of_d = fabric.publish(D, publication(None, false));
    assert_eq!(source_of(&fabric, C), Some(A));
    assert!(ended(&mut fabric, stream_of_a));
    assert_eq!(
        source_of(&fabric, C),
        Some(D),
        "though A still announces it"
    );
    assert_eq!(fabric.plan_path(D, stream_of_d).1, vec![D, B, C]);
    assert!(
        ended(&mut fabric, stream_of_a),
        "a later reader gets the same answer"
    );
    assert!(
        !ended(&mut fabric, stream_of_d),
        "neither goes on, though both are announced"
    );
    fabric.pass(LEASE + LEASE);
    assert_eq!(source_of(&fabric, C), Some(D));
    // A publishes a new stream, which has not ended, and stands by.
    fabric.at(A, |c, now, keys| c.unpublish(stream_of_a, now, keys));
    fabric.settle();
    fabric.publish(A, publication(None, false));
    assert_eq!(source_of(&fabric, C), Some(D));
    assert!(ended(&mut fabric, stream_of_d));
    assert_eq!(source_of(&fabric, C), Some(A));
}

#[test]
fn silent_producer_is_replaced_early() {
    // Two hops before the sink, and a second sink that is fed by copies from the first relay.
    let mut fabric = Fabric::linked(&[[A, B], [B, E], [B, C], [D, E]]);
    let stream_of_a = fabric.publish(A, publication(None, false));
    fabric.subscribe(E);
    fabric.subscribe(C);
    let set_hearing = |fabric: &mut Fabric, hearing| {
        fabric.at(B, |c, now, keys| {
            c.handle_hearing(A, hearing, now, keys);
        });
        fabric.settle();
    };
    set_hearing(&mut fabric, Hearing::Silent);
    fabric.pass(Duration::from_secs(5));
    for sink in [C, E] {
        assert_eq!(source_of(&fabric, sink), Some(A), "no producer stands by");
    }
    set_hearing(&mut fabric, Hearing::Answering);
    let stream_of_d = fabric.publish(D, publication(None, false));
    fabric.pass(Duration::from_secs(5));
    for sink in [C, E] {
        assert_eq!(source_of(&fabric, sink), Some(A), "a served sink stays");
    }
    set_hearing(&mut fabric, Hearing::Silent);
    fabric.pass(Duration::from_millis(499));
    for sink in [C, E] {
        assert_eq!(
            source_of(&fabric, sink),
            Some(A),
            "it may find another path"
        );
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
    assert_eq!(left, 0, "both sinks have unsubscribed");
    set_hearing(&mut fabric, Hearing::Answering);
    fabric.pass(LEASE);
    for sink in [C, E] {
        assert_eq!(source_of(&fabric, sink), Some(D), "no sink switches back");
    }
}

#[test]
fn silence_counts_only_from_previous_node() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [C, D]]);
    let stream = fabric.publish(A, publication(None, false));
    fabric.publish(D, publication(None, false));
    fabric.subscribe(C);
    assert_eq!(source_of(&fabric, C), Some(A));
    let (epoch, _) = fabric.plan_path(A, stream);
    let silence = |epoch| Message::Silence(Silence { stream, epoch });
    let mut say = |from, epoch| {
        let frame = wire::encode(&silence(epoch));
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
fn returned_producer_stands_by() {
    let mut fabric = Fabric::linked(&[[A, B], [B, D], [B, C]]);
    fabric.subscribe(C);
    fabric.publish(A, publication(None, false));
    let stream_of_d = fabric.publish(D, publication(None, false));
    assert_eq!(source_of(&fabric, C), Some(A));
    fabric.cut([A, B]);
    assert_eq!(source_of(&fabric, C), Some(D), "no time has passed");
    assert_eq!(fabric.plan_path(D, stream_of_d).1, vec![D, B, C]);
    fabric.link([A, B]);
    fabric.pass(LEASE + LEASE);
    assert_eq!(source_of(&fabric, C), Some(D));
    // A sink without an alternative waits for its producer.
    fabric.cut([B, D]);
    assert_eq!(source_of(&fabric, C), Some(A));
    fabric.cut([A, B]);
    assert_eq!(source_of(&fabric, C), Some(A));
}

/// Has a node publish what it cannot send to C by B, as C lacks the module.
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
    let notices = fabric.node(at).notices.iter();
    notices
        .filter(|notice| matches!(notice, Notice::Refused { .. }))
        .count()
}

#[test]
fn refusing_producer_is_left() {
    let mut fabric = Fabric::linked(&[[A, B], [B, D], [B, C]]);
    publish_in_vain(&mut fabric, A);
    fabric.subscribe(C);
    fabric.pass(Duration::from_secs(2));
    assert_eq!(source_of(&fabric, C), Some(A), "there is no other");
    assert_eq!(refusals(&fabric, C), 1);
    let stream_of_d = fabric.publish(D, publication(None, false));
    fabric.pass(Duration::from_secs(2));
    assert_eq!(source_of(&fabric, C), Some(D));
    assert_eq!(fabric.plan_path(D, stream_of_d).1, vec![D, B, C]);
    let left = fabric.node(A).controller.sources().next().expect("one");
    assert_eq!(left.plans().count(), 0, "the sink has unsubscribed");
    fabric.pass(REFUSED_FOR + REFUSED_FOR);
    assert_eq!(source_of(&fabric, C), Some(D));
    assert_eq!(refusals(&fabric, C), 1);
}

#[test]
fn failed_producer_is_left_after_last_plan() {
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
    assert_eq!(fabric.plan_path(A, stream_of_a).1, vec![A, B, C]);
    // There is a path to A, by E, but the plan that A was given does not work.
    fabric.cut([B, C]);
    fabric.pass(Duration::from_secs(2));
    assert_eq!(source_of(&fabric, C), Some(A), "its part is held yet");
    fabric.pass(LEASE + RENEW + RENEW);
    assert_eq!(source_of(&fabric, C), Some(D));
    assert_eq!(refusals(&fabric, C), 1);
    fabric.link([B, C]);
    fabric.pass(REFUSED_FOR + LEASE);
    assert_eq!(
        source_of(&fabric, C),
        Some(D),
        "a returned producer stands by"
    );
}

#[test]
fn restarted_sink_hears_refusal_again() {
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
    assert_eq!(refusals(&fabric, C), 1, "it begins again");
    fabric.pass(Duration::from_secs(60));
    assert_eq!(refusals(&fabric, C), 1, "and once");
}

#[test]
fn refusing_producers_are_asked_in_turn() {
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
