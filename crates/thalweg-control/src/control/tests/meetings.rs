//! Proves that new neighbours send each other exactly the records that the other lacks.

use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::wire::control::Message;
use thalweg_base::wire::summary::{Lack, Prefix};

use super::{Duration, Fabric, LINK, Note, Output, publication, wire};
use crate::records::meeting::{ANSWER_MAX, RECORDS_FEW};

const HUB: NodeId = NodeId([100; 32]);

/// More records than are sent without a summary.
const LEAVES: usize = RECORDS_FEW + 4;

fn leaf(number: usize) -> NodeId {
    NodeId([number as u8 + 1; 32])
}

fn star() -> Fabric {
    let wires: Vec<[NodeId; 2]> = (0..LEAVES).map(|number| [leaf(number), HUB]).collect();
    let mut fabric = Fabric::linked(&wires);
    // The hub announces its many links in one record.
    fabric.pass(Duration::from_secs(1));
    fabric
}

fn known(fabric: &Fabric, node: NodeId) -> usize {
    fabric.node(node).controller.directory().signed().count()
}

/// Returns the messages that a node sends another now.
fn messages(fabric: &mut Fabric, node: NodeId, to: NodeId) -> Vec<Message> {
    let outputs = fabric.at(node, |c, _, _| {
        core::iter::from_fn(|| c.poll_output()).collect::<Vec<_>>()
    });
    let frames = outputs.into_iter().filter_map(|output| match output {
        Output::Send { to: at, frame } if at == to => Some(frame),
        _ => None,
    });
    frames
        .map(|frame| wire::decode(&frame).expect("we made it"))
        .collect()
}

fn records(sent: &[Message]) -> usize {
    let records = sent.iter();
    let records = records.filter(|message| matches!(message, Message::Record { .. }));
    records.count()
}

#[test]
fn new_node_and_others_learn_all_records() {
    let mut fabric = star();
    let new = NodeId([200; 32]);
    fabric.start(new, Duration::from_secs(1_000));
    fabric.link([leaf(0), new]);
    fabric.settle();
    fabric.pass(Duration::from_secs(1));
    for node in [new, leaf(0), leaf(1), HUB] {
        assert_eq!(known(&fabric, node), LEAVES + 2);
    }
}

#[test]
fn returning_link_sends_only_newer_records() {
    let mut fabric = star();
    // It publishes: a leaf of the hub is not sent the records of others at once.
    let back = leaf(3);
    fabric.publish(back, publication(None, false));
    fabric.cut([back, HUB]);
    fabric.pass(Duration::from_secs(1));
    for (node, peer) in [(HUB, back), (back, HUB)] {
        fabric.at(node, |c, now, keys| c.handle_link_up(peer, LINK, now, keys));
    }
    let sent = messages(&mut fabric, HUB, back);
    let [Message::Summary(summary), ..] = &sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(summary.records.len(), LEAVES + 1);
    assert!(records(&sent) <= 1, "at most its own record: {sent:?}");
    // It was away while the hub announced that, so it lacks only the hub's newest record.
    let frame = wire::encode(&sent[0]);
    fabric.at(back, |c, now, keys| c.handle_frame(HUB, &frame, now, keys));
    let answer = messages(&mut fabric, back, HUB);
    let lacks = answer.iter().find_map(|message| match message {
        Message::Lack(lack) => Some(&lack.nodes[..]),
        _ => None,
    });
    assert_eq!(lacks, Some(&[Prefix::from(HUB)][..]));
}

#[test]
fn unanswered_summary_sends_all_records() {
    let mut fabric = star();
    let old = leaf(3);
    fabric.publish(old, publication(None, false));
    fabric.cut([old, HUB]);
    fabric.at(HUB, |c, now, keys| c.handle_link_up(old, LINK, now, keys));
    let sent = messages(&mut fabric, HUB, old);
    assert!(records(&sent) <= 1);
    let later = |fabric: &mut Fabric, duration| {
        fabric.now = fabric.now + duration;
        fabric.at(HUB, |c, now, keys| c.handle_timeout(now, keys));
        records(&messages(fabric, HUB, old))
    };
    let moment = Duration::from_millis(1);
    let count = later(&mut fabric, ANSWER_MAX.saturating_sub(moment));
    assert!(
        count <= 1,
        "so far only the record of its own links: {count}"
    );
    assert!(later(&mut fabric, moment) >= LEAVES);
    assert_eq!(later(&mut fabric, ANSWER_MAX), 0, "once");
}

#[test]
fn unsolicited_lack_is_ignored() {
    let mut fabric = star();
    let nodes = (0..LEAVES).map(|number| Prefix::from(leaf(number)));
    let lack = Message::Lack(Lack {
        nodes: nodes.collect(),
    });
    let frame = wire::encode(&lack);
    let peer = leaf(5);
    fabric.at(HUB, |c, now, keys| c.handle_frame(peer, &frame, now, keys));
    fabric.settle();
    let notes = &fabric.node(HUB).notes;
    assert!(
        notes.contains(&Note::LackAstray { from: peer }),
        "{notes:?}"
    );
}
