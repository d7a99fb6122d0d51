//! Proves that what a stream carries reaches every node once, behind the record that announces it;
//! that nodes of an earlier version carry the stream without; and that nobody describes another's.

use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::description::Description;
use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::wire::description::{self, Described};

use super::{Bytes, Controller, Fabric, FakeKeys, Keys as _, Message, Note, Publication, wire};

const SOURCE: NodeId = NodeId([1; 32]);
const EARLY: NodeId = NodeId([2; 32]);
const HUB: NodeId = NodeId([3; 32]);
const SINK: NodeId = NodeId([4; 32]);

fn radar() -> Description {
    Description {
        encoding: "bytes".into(),
        schema: "sweep".into(),
        labels: [("kind".into(), "radar".into())].into(),
    }
}

fn described() -> Publication {
    Publication {
        description: radar(),
        ..super::publication(None, false)
    }
}

fn at(fabric: &Fabric, node: NodeId, stream: StreamId) -> Option<&Description> {
    fabric.node(node).controller.description(SOURCE, stream)
}

fn frame(by: NodeId, described: &Described) -> Bytes {
    let mut keys = FakeKeys { id: by, drawn: 0 };
    let description = description::encode(described);
    let signature = keys.sign(&[&b"thalweg description v1"[..], &description].concat());
    let message = Message::Description {
        description,
        signature,
    };
    wire::encode(&message).into()
}

#[test]
fn description_reaches_all_and_ends() {
    let mut fabric = Fabric::linked(&[[SOURCE, HUB], [HUB, SINK]]);
    let stream = fabric.publish(SOURCE, described());
    for node in [SOURCE, HUB, SINK] {
        assert_eq!(at(&fabric, node, stream), Some(&radar()), "{node:?}");
    }
    fabric.link([SOURCE, SINK]);
    fabric.settle();
    fabric.at(SOURCE, |c, now, keys| c.unpublish(stream, now, keys));
    fabric.settle();
    for node in [SOURCE, HUB, SINK] {
        assert_eq!(at(&fabric, node, stream), None, "{node:?}");
    }
}

#[test]
fn new_neighbour_gets_descriptions() {
    let mut fabric = Fabric::linked(&[[SOURCE, HUB]]);
    let stream = fabric.publish(SOURCE, described());
    fabric.start(SINK, super::Duration::from_secs(1_000));
    fabric.link([HUB, SINK]);
    fabric.settle();
    assert_eq!(at(&fabric, SINK, stream), Some(&radar()));
}

#[test]
fn earlier_node_carries_undescribed_stream() {
    let mut fabric = Fabric::linked(&[[SOURCE, EARLY], [EARLY, SINK]]);
    fabric.early = Some(EARLY);
    let stream = fabric.publish(SOURCE, described());
    assert_eq!(at(&fabric, SINK, stream), None);
    fabric.subscribe(SINK);
    let (_, path) = fabric.plan_path(SOURCE, stream);
    assert_eq!(path, [SOURCE, EARLY, SINK]);
}

#[test]
fn lacking_description_is_requested() {
    // Enough records that neighbours meet by summaries.
    let leaf = |number: u8| NodeId([100 + number; 32]);
    let mut wires = vec![[SOURCE, EARLY], [EARLY, HUB]];
    wires.extend((0..20).map(|number| [HUB, leaf(number)]));
    let mut fabric = Fabric::linked(&wires);
    fabric.early = Some(EARLY);
    let stream = fabric.publish(SOURCE, described());
    assert_eq!(at(&fabric, HUB, stream), None);
    fabric.link([SOURCE, HUB]);
    fabric.settle();
    for node in [HUB, leaf(7)] {
        assert_eq!(at(&fabric, node, stream), Some(&radar()), "{node:?}");
    }
}

#[test]
fn foreign_description_is_refused() {
    let mut fabric = Fabric::linked(&[[SOURCE, HUB], [HUB, SINK]]);
    let stream = fabric.publish(SOURCE, super::publication(None, false));
    let said = |node, stream| Described {
        node,
        stream,
        description: radar(),
    };
    let hand = |fabric: &mut Fabric, frame: &Bytes| {
        fabric.at(SINK, |c: &mut Controller, now, keys| {
            c.handle_frame(HUB, frame, now, keys);
        });
        fabric.settle();
    };
    // A relay describes the stream of another; a node, one that it does not announce.
    hand(&mut fabric, &frame(HUB, &said(SOURCE, stream)));
    hand(&mut fabric, &frame(SOURCE, &said(SOURCE, StreamId(7))));
    let notes = fabric.node(SINK).notes.iter();
    let forged: Vec<&Note> = notes
        .filter(|note| matches!(note, Note::DescriptionForged { .. }))
        .collect();
    assert_eq!(forged.len(), 1, "{forged:?}");
    assert_eq!(at(&fabric, SINK, stream), None);
    assert_eq!(at(&fabric, SINK, StreamId(7)), None);
    // The first description of its own stays: another cannot replace it.
    hand(&mut fabric, &frame(SOURCE, &said(SOURCE, stream)));
    let other = Described {
        description: Description::encoded("json"),
        ..said(SOURCE, stream)
    };
    hand(&mut fabric, &frame(SOURCE, &other));
    assert_eq!(at(&fabric, SINK, stream), Some(&radar()));
}
