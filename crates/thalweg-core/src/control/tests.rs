//! Proves the control plane over wires in memory: plans take over, leave and come back; strangers change nothing.
//!
//! *How.* A [`Fabric`] of controllers on virtual time. Every output is done at once; frames arrive in order. The keys are
//! a caricature: a signature is a checksum with the signer's key in it, an envelope names its addressee.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;

use super::neighbour::{borrowed_stream, stream_id};
use super::{
    Controller, Installation, KeyContent, KeyContext, Keys, KeysError, LinkStats, Note, Notice,
    Output, Peer, PlanState, Publication, PublishError, Secrets, Settings, Subscription,
};
use crate::id::{Epoch, NodeId, StreamId, StreamName};
use crate::model::{Layer, Weights};
use crate::needs::Needs;
use crate::planner::Planner;
use crate::routing::RECORD_AGE_MAX;
use crate::session::{LEASE, Part};
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, Ratio};
use crate::wire::control::{self as wire, Body, Message, Prepare, Routed, SIGNATURE_BYTES};
use crate::wire::record::{Announced, Record};

const A: NodeId = NodeId([1; 32]);
const B: NodeId = NodeId([2; 32]);
const C: NodeId = NodeId([3; 32]);
const D: NodeId = NodeId([4; 32]);

struct FakeKeys {
    id: NodeId,
    drawn: u64,
}

fn checksum(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().copied().flatten();
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn signature(signer: NodeId, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
    let mut signature = [0; SIGNATURE_BYTES];
    signature[..8].copy_from_slice(&checksum(&[&signer.0, message]).to_be_bytes());
    signature
}

impl Keys for FakeKeys {
    fn sign(&mut self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        signature(self.id, message)
    }

    fn verify(&self, signer: NodeId, message: &[u8], given: &[u8; SIGNATURE_BYTES]) -> bool {
        signature(signer, message) == *given
    }

    fn digest(&self, message: &[u8]) -> [u8; 8] {
        checksum(&[message]).to_be_bytes()
    }

    fn random(&mut self, bytes: &mut [u8]) -> Result<(), KeysError> {
        self.drawn += 1;
        let drawn = checksum(&[&self.id.0, &self.drawn.to_be_bytes()]).to_be_bytes();
        bytes
            .iter_mut()
            .zip(drawn.iter().cycle())
            .for_each(|(byte, drawn)| *byte = *drawn);
        Ok(())
    }

    fn box_key(&self) -> [u8; 32] {
        self.id.0
    }

    fn seal_key(
        &mut self,
        content: &KeyContent,
        box_key: &[u8; 32],
        context: KeyContext,
    ) -> Result<Vec<u8>, KeysError> {
        let stream = context.stream.0.to_be_bytes();
        Ok([&box_key[..], &context.source.0, &stream, &content.key].concat())
    }

    fn open_key(&self, envelope: &[u8], context: KeyContext) -> Result<KeyContent, KeysError> {
        let stream = context.stream.0.to_be_bytes();
        let head = [&self.id.0[..], &context.source.0, &stream].concat();
        let key = envelope
            .strip_prefix(&head[..])
            .ok_or(KeysError::Unauthentic)?;
        let key = key.try_into().map_err(|_| KeysError::Unauthentic)?;
        Ok(KeyContent { key_epoch: 1, key })
    }
}

/// A node, and what its driver has been told.
struct Node {
    controller: Controller,
    keys: FakeKeys,
    installed: BTreeMap<(StreamId, Epoch), (Installation, Secrets)>,
    active: BTreeMap<StreamId, Vec<Epoch>>,
    found: Vec<(StreamName, StreamId)>,
    notices: Vec<Notice>,
    notes: Vec<Note>,
    /// Words of adapters that it does not know.
    unknown: Vec<&'static str>,
}

#[derive(Default)]
struct Fabric {
    now: Instant,
    nodes: BTreeMap<NodeId, Node>,
    wires: Vec<[NodeId; 2]>,
    frames: VecDeque<(NodeId, NodeId, Bytes)>,
}

fn peer(key: NodeId) -> Peer {
    Peer {
        key,
        name: key.short().parse().expect("digits are a name"),
        trusted: true,
        rate: None,
        secure: key != B,
    }
}

fn node(id: NodeId, since_1970: Duration, now: Instant) -> Node {
    let settings = Settings {
        id,
        name: id.short().parse().expect("digits are a name"),
        slots: 4,
        peers: [A, B, C, D].map(peer).into(),
        weights: Weights::default(),
        since_1970,
    };
    let mut keys = FakeKeys { id, drawn: 0 };
    Node {
        controller: Controller::new(settings, now, &mut keys),
        keys,
        installed: BTreeMap::new(),
        active: BTreeMap::new(),
        found: Vec::new(),
        notices: Vec::new(),
        notes: Vec::new(),
        unknown: Vec::new(),
    }
}

fn name() -> StreamName {
    "cam".parse().expect("a name")
}

fn publication(planner: Option<Planner>, confidential: bool) -> Publication {
    Publication {
        name: name(),
        needs: Needs {
            confidential,
            ..Needs::default()
        },
        layers: vec![Layer {
            rate: Bitrate::from_kbps(100),
            utility: 1.0,
        }],
        pack_ratio: Some(1.0),
        planner,
    }
}

impl Fabric {
    /// Returns nodes that are linked as said.
    fn linked(wires: &[[NodeId; 2]]) -> Self {
        let mut fabric = Self::default();
        for wire in wires {
            for id in wire {
                fabric.start(*id, Duration::from_secs(1_000));
            }
            fabric.link(*wire);
        }
        fabric.settle();
        fabric
    }

    fn start(&mut self, id: NodeId, since_1970: Duration) {
        let now = self.now;
        self.nodes
            .entry(id)
            .or_insert_with(|| node(id, since_1970, now));
    }

    fn link(&mut self, ends: [NodeId; 2]) {
        self.wires.push(ends);
        let stats = LinkStats {
            rtt: Duration::from_millis(10),
            loss: Ratio::ZERO,
        };
        for (id, peer) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            self.at(id, |c, now, keys| c.handle_link_up(peer, stats, now, keys));
        }
    }

    fn cut(&mut self, ends: [NodeId; 2]) {
        self.wires.retain(|wire| *wire != ends);
        for (id, peer) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            if self.nodes.contains_key(&id) {
                self.at(id, |c, now, keys| c.handle_link_down(peer, now, keys));
            }
        }
        self.settle();
    }

    /// Does something at a node.
    fn at<T>(
        &mut self,
        id: NodeId,
        act: impl FnOnce(&mut Controller, Instant, &mut FakeKeys) -> T,
    ) -> T {
        let node = self.nodes.get_mut(&id).expect("a node of the fabric");
        act(&mut node.controller, self.now, &mut node.keys)
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[&id]
    }

    /// Does what the nodes say, and carries frames, until nothing moves.
    fn settle(&mut self) {
        loop {
            for (id, node) in &mut self.nodes {
                while let Some(output) = node.controller.poll_output() {
                    if let Some((to, frame)) = node.obey(output, self.now) {
                        self.frames.push_back((*id, to, frame));
                    }
                }
            }
            let Some((from, to, frame)) = self.frames.pop_front() else {
                return;
            };
            let ends = [from.min(to), from.max(to)];
            if self.wires.contains(&ends) && self.nodes.contains_key(&to) {
                self.at(to, |c, now, keys| c.handle_frame(from, &frame, now, keys));
            }
        }
    }

    /// Lets this much time pass, each node being called exactly when it asked to be.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let due = self
                .nodes
                .values()
                .map(|node| node.controller.poll_timeout());
            let due = due.min().unwrap_or(Instant::NEVER);
            if due > end {
                self.now = end;
                return;
            }
            assert!(due >= self.now, "a node asked to be called in the past");
            self.now = due;
            for (id, node) in &mut self.nodes {
                if node.controller.poll_timeout() <= due {
                    node.controller.handle_timeout(due, &mut node.keys);
                    let next = node.controller.poll_timeout();
                    assert!(next > due, "{id:?} wants to be called again at once");
                }
            }
        }
    }

    fn publish(&mut self, id: NodeId, publication: Publication) -> StreamId {
        let stream = self
            .at(id, |c, now, keys| c.publish(publication, None, now, keys))
            .expect("a sound publication");
        self.settle();
        stream
    }

    fn subscribe(&mut self, id: NodeId) {
        self.at(id, |c, now, keys| c.subscribe(name(), now, keys));
        self.settle();
    }

    /// Returns the way of the one plan in force, and its epoch, after checking that every node of it has its part.
    fn way(&self, source: NodeId, stream: StreamId) -> (Epoch, Vec<NodeId>) {
        let [epoch] = self.node(source).active[&stream][..] else {
            panic!("not one plan in force: {:?}", self.node(source).active);
        };
        let mut way = vec![source];
        loop {
            let id = way[way.len() - 1];
            let (part, _) = &self.node(id).installed[&(stream, epoch)];
            assert_eq!(part.previous, way[way.len().saturating_sub(2)]);
            match part.next {
                Some(next) => way.push(next),
                None => return (epoch, way),
            }
        }
    }
}

impl Node {
    /// Does what the controller says; frames are the fabric's.
    fn obey(&mut self, output: Output, now: Instant) -> Option<(NodeId, Bytes)> {
        match output {
            Output::Send { to, frame } => return Some((to, frame)),
            Output::Plan(planning) => {
                let mut solved = planning.solve();
                solved.explain();
                self.controller.handle_solved(solved, now, &mut self.keys);
            }
            Output::Install {
                installation,
                secrets,
            } => {
                let (stream, epoch) = (installation.stream, installation.epoch);
                let known = |word: &String| !self.unknown.contains(&word.as_str());
                let result = if installation.adapters.iter().all(known) {
                    let part = (installation, secrets);
                    self.installed.insert((stream, epoch), part);
                    Ok(())
                } else {
                    Err("no module has this name".to_string())
                };
                self.controller
                    .handle_installed(stream, epoch, result, now, &mut self.keys);
            }
            Output::Remove { stream, epoch } => {
                self.installed.remove(&(stream, epoch));
            }
            Output::Active { stream, epochs } => {
                self.active.insert(stream, epochs);
            }
            Output::Found { name, stream } => self.found.push((name, stream)),
            Output::Notice { notice, .. } => self.notices.push(notice),
            Output::Note(note) => self.notes.push(note),
        }
        None
    }

    fn parts(&self) -> Vec<&Installation> {
        self.controller.installations().collect()
    }
}

#[test]
fn a_stream_is_planned_prepared_and_in_force_and_stays_so() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    fabric.subscribe(C);
    assert_eq!(fabric.node(C).notices, [Notice::Waiting]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    assert_eq!(fabric.node(C).found, [(name(), stream)]);
    let (epoch, way) = fabric.way(A, stream);
    assert_eq!((epoch, way), (Epoch(1), vec![A, B, C]));
    let source = fabric.node(A).controller.source(stream).expect("published");
    let (sink, plan) = source.plans().next().expect("one sink");
    assert_eq!(
        (sink, plan.state, source.active()),
        (C, PlanState::Active, &[Epoch(1)][..])
    );
    let words = plan.words.as_ref().expect("a planned stream");
    assert!(words.report.feasible && words.explanation.is_some());
    fabric.pass(LEASE + LEASE);
    assert_eq!(
        fabric.way(A, stream).0,
        Epoch(1),
        "renewed and not replaced"
    );
    for id in [A, B, C] {
        let node = fabric.node(id);
        let mirrored: Vec<_> = node.installed.values().map(|(part, _)| part).collect();
        assert_eq!(
            node.parts(),
            mirrored,
            "the driver's table is the controller's"
        );
    }
}

#[test]
fn a_confidential_stream_is_sealed_with_one_key_that_only_the_ends_get() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), true));
    let (epoch, _) = fabric.way(A, stream);
    let key = |id| fabric.node(id).installed[&(stream, epoch)].1.key.clone();
    assert!(key(A).is_some() && key(A) == key(C) && key(B).is_none());
    assert!(!fabric.node(C).installed[&(stream, epoch)].0.plaintext);
    let shown = alloc::format!("{:?}", fabric.node(A).installed);
    assert!(shown.contains("secret"), "the key itself is not shown");
}

#[test]
fn a_relay_that_leaves_is_gone_around_and_the_plan_before_is_released() {
    let mut fabric = Fabric::linked(&[[A, B], [B, D], [A, C], [C, D]]);
    fabric.subscribe(D);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    let (first, way) = fabric.way(A, stream);
    assert_eq!(way, [A, B, D]);
    fabric.cut([A, B]);
    let (second, way) = fabric.way(A, stream);
    assert!(second > first && way == [A, C, D]);
    assert_eq!(
        fabric.node(D).parts().len(),
        2,
        "both plans while ADUs are under way"
    );
    fabric.pass(LEASE + LEASE);
    assert_eq!(fabric.node(D).parts().len(), 1);
    assert!(fabric.node(B).parts().is_empty() && fabric.node(B).installed.is_empty());
}

#[test]
fn what_a_dead_source_leaves_behind_goes_away_by_itself() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(None, false));
    assert_eq!(fabric.way(A, stream).1, [A, B, C]);
    fabric.nodes.remove(&A);
    fabric.pass(LEASE + Duration::from_secs(1));
    for id in [B, C] {
        assert!(fabric.node(id).parts().is_empty() && fabric.node(id).installed.is_empty());
        let expired = |note: &&Note| matches!(note, Note::PartExpired { .. });
        assert_eq!(fabric.node(id).notes.iter().filter(expired).count(), 1);
    }
    fabric.cut([A, B]);
    fabric.pass(RECORD_AGE_MAX + Duration::from_secs(1));
    assert_eq!(fabric.node(C).notices, [Notice::Waiting, Notice::Gone]);
    assert_eq!(
        fabric.node(C).controller.subscription(&name()),
        Some(Subscription::Waiting)
    );
}

#[test]
fn a_stream_ends_by_either_end() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, publication(None, false));
    fabric.at(B, |c, now, keys| c.unsubscribe(&name(), now, keys));
    fabric.settle();
    assert_eq!(fabric.node(A).active[&stream], []);
    fabric.subscribe(B);
    assert_eq!(fabric.way(A, stream).1, [A, B]);
    fabric.at(A, |c, now, keys| c.unpublish(stream, now, keys));
    fabric.settle();
    assert_eq!(fabric.node(A).active[&stream], []);
    assert_eq!(fabric.node(B).notices.last(), Some(&Notice::Gone));
    fabric.pass(LEASE);
    assert_eq!(fabric.node(A).controller.sources().count(), 0);
    assert!(fabric.node(B).installed.is_empty());
}

#[test]
fn a_node_subscribes_to_itself_without_a_link() {
    let mut fabric = Fabric::default();
    fabric.start(A, Duration::ZERO);
    fabric.subscribe(A);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), true));
    assert_eq!(fabric.way(A, stream).1, [A]);
    assert!(matches!(
        fabric.node(A).controller.subscription(&name()),
        Some(Subscription::Found {
            is_served: true,
            ..
        })
    ));
}

#[test]
fn a_part_that_cannot_be_installed_is_refused_with_the_drivers_reason() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fabric
        .nodes
        .get_mut(&B)
        .expect("linked")
        .unknown
        .push("fold");
    fabric.subscribe(B);
    let part = |node, adapter: &str| Part {
        node,
        adapters: vec![adapter.to_string()],
        plaintext: true,
    };
    let given = vec![part(A, "null"), part(B, "fold")];
    let publication = publication(None, false);
    fabric
        .at(A, |c, now, keys| {
            c.publish(publication, Some(given), now, keys)
        })
        .expect("a given plan");
    fabric.settle();
    let source = fabric.node(A).controller.sources().next().expect("one");
    let (_, plan) = source.plans().next().expect("one sink");
    assert_eq!(plan.state, PlanState::Failed);
    assert!(
        plan.reason
            .as_ref()
            .is_some_and(|why| why.contains("no module has this name"))
    );
    let told = fabric.node(B).notices.last();
    assert!(matches!(told, Some(Notice::Refused { .. })), "{told:?}");
}

#[test]
fn a_restarted_node_outruns_the_record_of_its_life_before() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    let before = |fabric: &Fabric| {
        let record = fabric.node(B).controller.directory().record(A);
        record.expect("known").sequence
    };
    let old = before(&fabric);
    fabric.nodes.remove(&A);
    fabric.cut([A, B]);
    // Its clock has been set back a thousand seconds, so its new record's number is smaller than the one that B has.
    fabric.start(A, Duration::ZERO);
    fabric.link([A, B]);
    fabric.settle();
    assert!(before(&fabric) > old);
    let stream = fabric.publish(A, publication(None, false));
    fabric.subscribe(B);
    assert_eq!(fabric.way(A, stream).1, [A, B]);
}

#[test]
fn what_cannot_be_published_says_why() {
    let mut fabric = Fabric::default();
    fabric.start(A, Duration::ZERO);
    let mut publish = |publication, given| {
        let result = fabric.at(A, |c, now, keys| c.publish(publication, given, now, keys));
        result.map(drop)
    };
    let good = publication(Some(Planner::Exact), true);
    let invalid = |result| matches!(result, Err(PublishError::Invalid { .. }));
    assert!(invalid(publish(
        Publication {
            layers: vec![],
            ..good.clone()
        },
        None
    )));
    assert!(invalid(publish(
        Publication {
            planner: None,
            ..good.clone()
        },
        None
    )));
    assert!(invalid(publish(good.clone(), Some(vec![]))));
    let long = Part {
        node: A,
        adapters: vec!["null".to_string(); crate::limits::ADAPTERS_PER_NODE_MAX + 1],
        plaintext: true,
    };
    assert!(invalid(publish(publication(None, false), Some(vec![long]))));
    assert_eq!(publish(good.clone(), None), Ok(()));
    assert_eq!(publish(good, None), Err(PublishError::Taken(name())));
}

/// Returns an envelope of `sender` for B, as its neighbour C would bring it.
fn envelope(sender: NodeId, route: &[NodeId], body: &Body) -> Bytes {
    let body = wire::encode_body(body);
    let signed = [&b"thalweg routed v1"[..], &B.0, &body].concat();
    let routed = Routed {
        route: route.to_vec(),
        position: route.len() - 1,
        body,
        signature: signature(sender, &signed),
    };
    wire::encode(&Message::Routed(routed)).into()
}

fn prepare(stream: StreamId, adapters: usize) -> Body {
    Body::Prepare(Prepare {
        name: name(),
        stream,
        epoch: Epoch(9),
        previous: C,
        next: None,
        adapters: vec!["null".to_string(); adapters],
        reliability: crate::needs::Reliability::None,
        order: crate::needs::Order::Importance,
        plaintext: true,
        envelope: None,
    })
}

#[test]
fn only_the_publisher_installs_and_only_within_the_slots() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    let stream = fabric.publish(A, publication(None, false));
    let mut attack = |frame: Bytes| {
        fabric.at(B, |c, now, keys| c.handle_frame(C, &frame, now, keys));
        fabric.settle();
        let notes = core::mem::take(&mut fabric.nodes.get_mut(&B).expect("linked").notes);
        (fabric.node(B).parts().len(), notes)
    };
    let (installed, _) = attack(envelope(C, &[C, B], &prepare(stream, 0)));
    assert_eq!(installed, 0, "C does not publish the stream");
    let (installed, notes) = attack(envelope(C, &[A, C, B], &prepare(stream, 0)));
    assert_eq!(
        (installed, &notes[..]),
        (0, &[Note::EnvelopeForged { sender: A }][..])
    );
    let (installed, notes) = attack(envelope(A, &[A, B], &prepare(stream, 0)));
    assert_eq!(
        (installed, &notes[..]),
        (0, &[Note::EnvelopeAstray { from: C }][..])
    );
    let (installed, _) = attack(envelope(A, &[A, C, B], &prepare(stream, 5)));
    assert_eq!(installed, 0, "B has four slots");
    let (installed, _) = attack(envelope(A, &[A, C, B], &prepare(stream, 4)));
    assert_eq!(installed, 1, "the publisher may, by any way");
    let release = Body::Release {
        stream,
        epoch: Epoch(9),
    };
    let (installed, _) = attack(envelope(C, &[C, B], &release));
    assert_eq!(installed, 1, "another may not take it away");
    let (installed, _) = attack(envelope(A, &[A, C, B], &release));
    assert_eq!(installed, 0);
}

#[test]
fn nobody_announces_a_stream_of_anothers() {
    let record = |node: NodeId, publisher: NodeId| {
        let start = [3; 8];
        let keys = FakeKeys { id: node, drawn: 0 };
        let stream = Announced {
            id: stream_id(publisher, &name(), start, &keys),
            start,
            name: name(),
            confidential: false,
            layers: Vec::new(),
        };
        Record {
            node,
            sequence: 1,
            name: "n".into(),
            slots: 0,
            box_key: [0; 32],
            neighbours: Vec::new(),
            streams: vec![stream],
        }
    };
    let keys = FakeKeys { id: C, drawn: 0 };
    assert_eq!(borrowed_stream(&record(A, A), &keys), None);
    assert_eq!(borrowed_stream(&record(B, A), &keys), Some(&name()));
    let mut renamed = record(A, A);
    renamed.streams[0].name = "cam2".parse().expect("a name");
    assert!(borrowed_stream(&renamed, &keys).is_some());
}

#[test]
fn a_changed_record_is_not_believed_and_not_passed_on() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    let known = fabric.node(A).controller.directory().signed();
    let mut signed = known.last().expect("records").clone();
    signed.record[40] ^= 1;
    let frame = wire::encode(&Message::Record {
        record: signed.record,
        signature: signed.signature,
    });
    fabric.at(B, |c, now, keys| c.handle_frame(A, &frame, now, keys));
    let outputs: Vec<_> = {
        let b = fabric.nodes.get_mut(&B).expect("linked");
        core::iter::from_fn(|| b.controller.poll_output()).collect()
    };
    assert!(
        outputs
            .iter()
            .all(|output| matches!(output, Output::Note(_)))
    );
    assert_eq!(outputs.len(), 1);
}

proptest! {
    #[test]
    fn no_frame_panics_and_none_of_a_stranger_changes_the_map(
        frame in proptest::collection::vec(any::<u8>(), 0..512),
    ) {
        let mut fabric = Fabric::linked(&[[A, B]]);
        let stream = fabric.publish(A, publication(None, false));
        fabric.subscribe(B);
        fabric.at(B, |c, now, keys| c.handle_frame(A, &frame, now, keys));
        fabric.settle();
        prop_assert_eq!(fabric.node(B).controller.directory().records().count(), 2);
        prop_assert_eq!(fabric.way(A, stream).1, [A, B]);
    }
}
