//! Proves that a node with many links floods records one by one while they are rare and in batches
//! during a burst; that losses, new streams and lost security are never delayed; and that each
//! neighbour gets each record exactly once.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::units::Bitrate;
use thalweg_base::wire::control::Message;
use thalweg_base::wire::record::{self, Announced, Neighbour, Record};

use super::{Bytes, Duration, Fabric, FakeKeys, Instant, Keys as _, LINK, Output, name, wire};
use crate::mail::flood::{LATE, LINKS_FEW, SOON};
use crate::records::stream_id::stream_id;

const HUB: NodeId = NodeId([100; 32]);
const FAR: NodeId = NodeId([101; 32]);

const MANY: usize = LINKS_FEW + 4;

/// How long a new record waits at most.
const SPAN: Duration = Duration::from_nanos(SOON.as_nanos() * MANY as u64);

/// How long a record without bad news waits at most.
const LONG: Duration = Duration::from_nanos(LATE.as_nanos() * MANY as u64);

const MOMENT: Duration = Duration::from_nanos(1);

fn leaf(number: usize) -> NodeId {
    NodeId([number as u8 + 1; 32])
}

/// Returns the hub of a star that has been quiet for a while.
fn star(leaves: usize) -> Fabric {
    let wires: Vec<[NodeId; 2]> = (0..leaves).map(|number| [leaf(number), HUB]).collect();
    let mut fabric = Fabric::linked(&wires);
    fabric.pass(Duration::from_secs(1));
    fabric
}

/// Returns the record of a node behind the leaves, with a link to each of these.
fn far(sequence: u64, neighbours: &[usize]) -> Record {
    let neighbour = |number: &usize| Neighbour {
        node: leaf(*number),
        rtt: Duration::from_millis(5),
        loss_ppm: 0,
        rate: Bitrate::ZERO,
        is_measured: false,
        secure: true,
    };
    Record {
        node: FAR,
        sequence,
        name: "far".into(),
        slots: 0,
        box_key: [0; 32],
        neighbours: neighbours.iter().map(neighbour).collect(),
        streams: Vec::new(),
    }
}

/// Returns the record of another node, with two links: leaves are flooded no records of leaves.
fn other(number: u8) -> Record {
    Record {
        node: NodeId([110 + number; 32]),
        ..far(1, &[1, 2])
    }
}

fn frame(record: &Record) -> Bytes {
    let mut keys = FakeKeys {
        id: record.node,
        drawn: 0,
    };
    let record = record::encode(record);
    let signature = keys.sign(&[&b"thalweg record v1"[..], &record].concat());
    wire::encode(&Message::Record { record, signature }).into()
}

impl Fabric {
    /// Hands the hub a record from a leaf.
    fn deliver(&mut self, by: usize, record: &Record) {
        let frame = frame(record);
        self.at(HUB, |c, now, keys| {
            c.handle_frame(leaf(by), &frame, now, keys);
        });
    }

    /// Sets the clock of the hub and lets it handle what is due.
    fn run_at(&mut self, now: Instant) {
        self.now = now;
        self.at(HUB, |c, now, keys| {
            if c.poll_timeout() <= now {
                c.handle_timeout(now, keys);
            }
        });
    }

    /// Returns the frame counts of each send to each leaf; adjacent frames count as one send.
    fn batches(&mut self) -> BTreeMap<NodeId, Vec<usize>> {
        let outputs = self.at(HUB, |c, _, _| {
            core::iter::from_fn(|| c.poll_output()).collect::<Vec<_>>()
        });
        let sent = outputs.iter().filter_map(|output| match output {
            Output::Send { to, .. } => Some(*to),
            _ => None,
        });
        let mut batches: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        let mut last = None;
        for to in sent {
            let of = batches.entry(to).or_default();
            match of.last_mut().filter(|_| last == Some(to)) {
                Some(frames) => *frames += 1,
                None => of.push(1),
            }
            last = Some(to);
        }
        batches
    }
}

fn all_but(from: usize, leaves: usize, frames: usize) -> BTreeMap<NodeId, Vec<usize>> {
    let others = (0..leaves).filter(|number| *number != from);
    others.map(|number| (leaf(number), vec![frames])).collect()
}

#[test]
fn lone_record_goes_at_once_burst_batched() {
    let mut fabric = star(MANY);
    let start = fabric.now;
    fabric.deliver(0, &other(0));
    assert_eq!(fabric.batches(), all_but(0, MANY, 1));
    for number in 1..=5 {
        fabric.now = start + MOMENT;
        fabric.deliver(0, &other(number));
    }
    fabric.run_at(start + SPAN.saturating_sub(MOMENT));
    assert!(fabric.batches().is_empty(), "it waits for more");
    let due = fabric.at(HUB, |c, _, _| c.poll_timeout());
    assert_eq!(due, start + SPAN);
    fabric.run_at(due);
    assert_eq!(fabric.batches(), all_but(0, MANY, 5));
    // One span later the next record is isolated again.
    fabric.now = due + SPAN.saturating_sub(MOMENT);
    fabric.deliver(0, &other(6));
    assert!(fabric.batches().is_empty());
    fabric.run_at(due + SPAN);
    assert_eq!(fabric.batches(), all_but(0, MANY, 1));
    fabric.now = due + SPAN + SPAN;
    fabric.deliver(0, &other(7));
    assert_eq!(fabric.batches(), all_but(0, MANY, 1));
}

#[test]
fn few_links_never_batch() {
    for (leaves, is_gathered) in [(LINKS_FEW, false), (LINKS_FEW + 1, true)] {
        let mut fabric = star(leaves);
        fabric.deliver(0, &other(0));
        fabric.batches();
        fabric.deliver(0, &other(1));
        assert_eq!(fabric.batches().is_empty(), is_gathered, "{leaves} links");
    }
}

#[test]
fn bad_news_never_waits() {
    let mut published = far(3, &[1, 2]);
    let keys = FakeKeys { id: FAR, drawn: 0 };
    published.streams.push(Announced {
        id: stream_id(FAR, &name(), [3; 8], &keys),
        start: [3; 8],
        name: name(),
        confidential: false,
        layers: vec![Bitrate::ZERO],
    });
    let mut unsafe_now = far(3, &[1, 2]);
    unsafe_now.neighbours[1].secure = false;
    let mut rekeyed = far(3, &[1, 2]);
    rekeyed.box_key = [1; 32];
    let mut worse = far(3, &[1, 2]);
    worse.neighbours[0].loss_ppm = 1;
    let mut better = far(3, &[1, 2]);
    better.neighbours[1].rtt = Duration::from_millis(1);
    let mut known = far(3, &[1, 2]);
    known.neighbours[1].rate = Bitrate::from_kbps(1);
    let cases = [
        ("it repeats itself", far(3, &[1, 2]), LONG),
        ("a link is better", better.clone(), LONG),
        ("a link is worse", worse, SPAN),
        ("a link's rate is known", known, SPAN),
        ("a link has come", far(3, &[1, 2, 3]), SPAN),
        ("a link is gone", far(3, &[1]), Duration::ZERO),
        ("one has come, one is gone", far(3, &[1, 3]), Duration::ZERO),
        ("a stream is published", published.clone(), Duration::ZERO),
        ("a link can be listened to", unsafe_now, Duration::ZERO),
        ("it has another key", rekeyed, Duration::ZERO),
    ];
    for (what, record, wait) in cases {
        let mut fabric = star(MANY);
        let start = fabric.now;
        fabric.deliver(0, &far(2, &[1, 2]));
        assert_eq!(fabric.batches(), all_but(0, MANY, 1));
        fabric.deliver(0, &record);
        if wait > Duration::ZERO {
            assert!(fabric.batches().is_empty(), "{what}");
            fabric.run_at(start + wait.saturating_sub(MOMENT));
            assert!(fabric.batches().is_empty(), "{what}");
            fabric.run_at(start + wait);
        }
        assert_eq!(fabric.batches(), all_but(0, MANY, 1), "{what}");
    }
    // An urgent record takes the waiting ones along.
    for (second, wait) in [(far(4, &[1]), Duration::ZERO), (far(4, &[1, 2, 3]), SPAN)] {
        let mut fabric = star(MANY);
        let start = fabric.now;
        fabric.deliver(0, &far(2, &[1, 2]));
        fabric.batches();
        fabric.deliver(
            0,
            &Record {
                node: NodeId([120; 32]),
                ..far(1, &[1, 2])
            },
        );
        fabric.deliver(0, &better);
        fabric.deliver(0, &second);
        fabric.run_at(start + wait);
        assert_eq!(fabric.batches(), all_but(0, MANY, 2));
    }
    // The end of a stream is urgent too.
    let mut fabric = star(MANY);
    fabric.deliver(0, &published);
    fabric.batches();
    fabric.deliver(0, &far(4, &[1, 2]));
    assert_eq!(fabric.batches(), all_but(0, MANY, 1));
}

#[test]
fn newest_waiting_record_skips_its_senders() {
    let mut fabric = star(MANY);
    fabric.deliver(0, &other(0));
    fabric.batches();
    fabric.deliver(0, &far(2, &[1, 2]));
    fabric.deliver(1, &far(3, &[1, 2]));
    fabric.deliver(1, &other(1));
    // Two more leaves have it meanwhile, and one has the one before.
    fabric.deliver(2, &far(3, &[1, 2]));
    fabric.deliver(3, &far(2, &[1, 2]));
    let start = fabric.now;
    fabric.run_at(start + SPAN);
    let mut expected = all_but(1, MANY, 2);
    expected.insert(leaf(2), vec![1]);
    assert_eq!(fabric.batches(), expected);
}

#[test]
fn other_message_flushes_waiting_records() {
    let mut fabric = star(MANY);
    let start = fabric.now;
    fabric.deliver(0, &other(0));
    fabric.batches();
    fabric.deliver(0, &other(1));
    let leaves = [leaf(4), leaf(5)];
    // The subscription goes through the hub to the publisher beside it.
    fabric.at(leaves[0], |c, now, keys| {
        let publication = super::publication(None, false);
        c.publish(publication, None, now, keys).expect("it may");
    });
    fabric.settle();
    fabric.batches();
    fabric.deliver(0, &other(2));
    fabric.at(leaves[1], |c, now, keys| c.subscribe(name(), now, keys));
    let asked: Vec<Bytes> = fabric.at(leaves[1], |c, _, _| {
        let outputs = core::iter::from_fn(|| c.poll_output());
        let frames = outputs.filter_map(|output| match output {
            Output::Send { frame, .. } => Some(frame),
            _ => None,
        });
        frames.collect()
    });
    for frame in &asked {
        fabric.at(HUB, |c, now, keys| {
            c.handle_frame(leaves[1], frame, now, keys);
        });
    }
    let batches = fabric.batches();
    assert_eq!(batches, BTreeMap::from([(leaves[0], vec![2])]));
    fabric.run_at(start + SPAN);
    let mut expected = all_but(0, MANY, 1);
    expected.remove(&leaves[0]);
    assert_eq!(fabric.batches(), expected, "once");
}

#[test]
fn new_neighbour_gets_records_once() {
    let mut fabric = star(MANY);
    fabric.deliver(0, &other(0));
    fabric.batches();
    fabric.deliver(0, &other(1));
    let new = NodeId([200; 32]);
    let start = fabric.now;
    fabric.at(HUB, |c, now, keys| c.handle_link_up(new, LINK, now, keys));
    let met = fabric.batches();
    assert_eq!(
        met.get(&new).map(Vec::len),
        Some(1),
        "in one piece: {met:?}"
    );
    // The waiting record goes to the others, and the record about the new neighbour to that: the others
    // are leaves, and need it later.
    fabric.run_at(start + SPAN + SOON);
    let mut expected = all_but(0, MANY, 1);
    expected.extend([(new, vec![1])]);
    assert_eq!(fabric.batches(), expected);
}
