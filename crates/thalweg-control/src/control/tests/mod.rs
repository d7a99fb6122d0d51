//! Tests of the control plane over in-memory wires.
//!
//! *How.* A [`Fabric`] of controllers runs on virtual time. Every output is carried out at once;
//! frames arrive in order. The keys are a simple fake: a signature is a checksum with the signer's
//! key in it, an envelope names its addressee.

mod accounts;
mod admission;
mod crowd;
mod descriptions;
mod drains;
mod flood;
mod grafts;
mod hostile;
mod leaves;
mod links;
mod meetings;
mod producers;
mod receipts;
mod rekey;
mod routes;
mod sequels;
mod standby;
mod streams;
mod suspects;
mod traces;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::iter;

use bytes::Bytes;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId, StreamName};
use thalweg_base::needs::Needs;
use thalweg_base::seen::Held;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::trace::{Marking, Traced};
use thalweg_base::units::{Bitrate, DataSize, Ratio};
use thalweg_base::wire::SIGNATURE_BYTES;
use thalweg_base::wire::control::{self as wire, Message, Said};
use thalweg_link::gauge::Sample;
use thalweg_planner::model::Weights;
use thalweg_planner::planner::Planner;

use super::{
    Controller, Installation, KeyContent, KeyContext, Keys, KeysError, Note, Notice, Output, Peer,
    Publication, Secrets, Settings,
};
use crate::ledger::Reading;
use crate::session::{Feed, Given};

const A: NodeId = NodeId([1; 32]);
const B: NodeId = NodeId([2; 32]);
const C: NodeId = NodeId([3; 32]);
const D: NodeId = NodeId([4; 32]);
const E: NodeId = NodeId([5; 32]);

const LINK: Sample = Sample {
    rtt: Duration::from_millis(10),
    latest: Duration::from_millis(10),
    loss: Ratio::ZERO,
    sent: DataSize::ZERO,
    waiting: DataSize::ZERO,
    heard: 0,
};

/// The next sequence that every source reports.
const NEXT: Sequence = Sequence(7);

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
        let number = content.key_epoch.to_be_bytes();
        Ok([
            &box_key[..],
            &context.source.0,
            &stream,
            &number,
            &content.key,
        ]
        .concat())
    }

    fn open_key(&self, envelope: &[u8], context: KeyContext) -> Result<KeyContent, KeysError> {
        let stream = context.stream.0.to_be_bytes();
        let head = [&self.id.0[..], &context.source.0, &stream].concat();
        let key = envelope
            .strip_prefix(&head[..])
            .ok_or(KeysError::Unauthentic)?;
        let (number, key) = key.split_first_chunk().ok_or(KeysError::Unauthentic)?;
        let key = key.try_into().map_err(|_| KeysError::Unauthentic)?;
        let key_epoch = u32::from_be_bytes(*number);
        Ok(KeyContent { key_epoch, key })
    }
}

/// A node, and the outputs that its driver has carried out.
struct Node {
    controller: Controller,
    keys: FakeKeys,
    installed: BTreeMap<(StreamId, Epoch), (Installation, Secrets)>,
    /// Every key of a stream that it ever had, with its number.
    keys_seen: BTreeSet<(u32, [u8; 32])>,
    /// Resends: plans sent under, the plan in force, and the plan sent under now.
    resent: Vec<(Vec<Epoch>, Epoch, Epoch)>,
    /// Receipts: the plans of the sink, and what it has.
    acknowledged: Vec<(Vec<Epoch>, Held)>,
    restarts: Vec<(StreamId, Option<Epoch>)>,
    goes_on: Vec<StreamId>,
    /// Outcomes of probes after the ends of streams.
    sequels: Vec<bool>,
    active: BTreeMap<StreamId, Vec<Epoch>>,
    given: BTreeMap<StreamId, Vec<Given>>,
    /// Grafted plans that it feeds, each with its end sequence if there is one.
    casting: BTreeMap<(StreamId, Epoch), Option<Sequence>>,
    /// The plans that were first given what is kept.
    replays: Vec<(StreamId, Epoch)>,
    /// The sinks among them that had waited.
    openings: Vec<(StreamId, NodeId)>,
    found: Vec<(StreamName, StreamId)>,
    notices: Vec<Notice>,
    notes: Vec<Note>,
    closed: Vec<(StreamId, Reading)>,
    /// The markings of its streams.
    markings: Vec<(StreamId, Marking)>,
    /// Answers to its trace requests.
    answers: Vec<Result<u32, String>>,
    traced: Vec<Traced>,
    /// Adapter words that it does not know.
    unknown: Vec<&'static str>,
}

#[derive(Default)]
struct Fabric {
    now: Instant,
    nodes: BTreeMap<NodeId, Node>,
    wires: Vec<[NodeId; 2]>,
    frames: VecDeque<(NodeId, NodeId, Bytes)>,
    /// The time and sender of each report that was carried.
    accounts: Vec<(Instant, NodeId)>,
    /// Reports to this node are lost.
    deaf: Option<NodeId>,
    /// This node is of an earlier version: it skips descriptions.
    early: Option<NodeId>,
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
        peers: [A, B, C, D, E].map(peer).into(),
        weights: Weights::default(),
        since_1970,
    };
    let mut keys = FakeKeys { id, drawn: 0 };
    Node {
        controller: Controller::new(settings, now, &mut keys),
        keys,
        installed: BTreeMap::new(),
        keys_seen: BTreeSet::new(),
        active: BTreeMap::new(),
        given: BTreeMap::new(),
        casting: BTreeMap::new(),
        replays: Vec::new(),
        openings: Vec::new(),
        resent: Vec::new(),
        acknowledged: Vec::new(),
        restarts: Vec::new(),
        goes_on: Vec::new(),
        sequels: Vec::new(),
        found: Vec::new(),
        notices: Vec::new(),
        notes: Vec::new(),
        closed: Vec::new(),
        markings: Vec::new(),
        answers: Vec::new(),
        traced: Vec::new(),
        unknown: Vec::new(),
    }
}

fn name() -> StreamName {
    "cam".parse().expect("a name")
}

/// Returns whether a frame is a report, direct or in a branch.
fn is_account(frame: &[u8]) -> bool {
    let message = wire::decode(frame);
    message.is_ok_and(|message| match message {
        Message::Branch(branch) => matches!(branch.said, Said::Account(_)),
        other => matches!(other, Message::Account(_)),
    })
}

fn publication(planner: Option<Planner>, confidential: bool) -> Publication {
    Publication {
        needs: Needs {
            confidential,
            ..Needs::default()
        },
        pack_ratio: Some(1.0),
        planner,
        ..Publication::new(name(), Bitrate::from_kbps(100))
    }
}

impl Fabric {
    /// Returns nodes that are linked by these wires.
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
        assert!(ends[0] < ends[1], "a wire is found by its ends in order");
        self.wires.push(ends);
        for (id, peer) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            self.at(id, |c, now, keys| c.handle_link_up(peer, LINK, now, keys));
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

    /// Runs a closure on a node.
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

    /// Carries out all outputs and delivers frames until none is left.
    fn settle(&mut self) {
        loop {
            for (id, node) in &mut self.nodes {
                while let Some(output) = node.controller.poll_output() {
                    if let Some((to, frame)) = node.carry_out(output, self.now) {
                        self.frames.push_back((*id, to, frame));
                    }
                }
            }
            self.check_keys();
            let Some((from, to, frame)) = self.frames.pop_front() else {
                return;
            };
            if is_account(&frame) {
                self.accounts.push((self.now, from));
            }
            let ends = [from.min(to), from.max(to)];
            let is_later = matches!(
                wire::decode(&frame),
                Ok(Message::Description { .. } | Message::Undescribed(_))
            );
            let is_lost = self.deaf == Some(to) && wire::accounted(&frame).is_some()
                || self.early == Some(to) && is_later;
            if !is_lost && self.wires.contains(&ends) && self.nodes.contains_key(&to) {
                self.at(to, |c, now, keys| c.handle_frame(from, &frame, now, keys));
            }
        }
    }

    /// Checks that no sink is ever served under a plan with ADUs that it cannot open.
    fn check_keys(&self) {
        for node in self.nodes.values() {
            let of_streams = node.given.iter();
            let of_streams =
                of_streams.flat_map(|(stream, given)| given.iter().zip(iter::repeat(*stream)));
            for (given, stream) in of_streams {
                let Some((_, sealing)) = node.installed.get(&(stream, given.epoch)) else {
                    continue;
                };
                for epoch in &given.serves {
                    let parts = self
                        .nodes
                        .values()
                        .filter_map(|n| n.installed.get(&(stream, *epoch)));
                    for (_, secrets) in parts.filter(|(part, _)| part.next.is_none()) {
                        let is_keyed = sealing.key.is_some() && secrets.key.is_some();
                        assert!(!is_keyed || sealing.key == secrets.key, "{epoch:?}");
                    }
                }
            }
        }
    }

    /// Lets this much time pass; each node is called exactly when it asked for.
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

    /// Returns the path of the one plan in force, and its epoch, after checking that each of its nodes has
    /// its part.
    fn plan_path(&self, source: NodeId, stream: StreamId) -> (Epoch, Vec<NodeId>) {
        let [epoch] = self.node(source).active[&stream][..] else {
            panic!("not one plan in force: {:?}", self.node(source).active);
        };
        let mut path = vec![source];
        loop {
            let id = path[path.len() - 1];
            let (part, _) = &self.node(id).installed[&(stream, epoch)];
            assert_eq!(part.previous, path[path.len().saturating_sub(2)]);
            match part.next {
                Some(next) => path.push(next),
                None => return (epoch, path),
            }
        }
    }
}

impl Node {
    fn cast(&mut self, plan: (StreamId, Epoch), feed: Feed) {
        let until = match feed {
            Feed::Off => {
                self.casting.remove(&plan);
                return;
            }
            Feed::Live | Feed::Replay => None,
            Feed::Until(next) => Some(next),
        };
        let before = self.casting.insert(plan, until);
        if before.is_none() && feed == Feed::Replay {
            self.replays.push(plan);
        }
    }

    /// Carries out an output; returns a frame for the fabric to deliver.
    fn carry_out(&mut self, output: Output, now: Instant) -> Option<(NodeId, Bytes)> {
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
                let key = secrets.key.iter().map(|key| (key.key_epoch, key.key));
                self.keys_seen.extend(key);
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
                self.casting.remove(&(stream, epoch));
            }
            Output::Active { stream, given } => {
                let epochs = given.iter().map(|given| given.epoch).collect();
                self.active.insert(stream, epochs);
                self.given.insert(stream, given);
                self.controller
                    .handle_next(stream, NEXT, now, &mut self.keys);
            }
            Output::Cast {
                stream,
                epoch,
                feed,
            } => self.cast((stream, epoch), feed),
            Output::Replay {
                stream,
                sink,
                to,
                has_waited,
            } => {
                self.replays.push((stream, to));
                self.openings.extend(has_waited.then_some((stream, sink)));
            }
            Output::Found { name, stream } => self.found.push((name, stream)),
            // A driver keeps what is held and received; this one does not.
            Output::BegunAnew { stream, former } => self.restarts.push((stream, former)),
            Output::GoesOn { stream } => self.goes_on.push(stream),
            Output::Sequel { goes_on, .. } => self.sequels.push(goes_on),
            Output::Forgotten { .. } | Output::Holding { .. } | Output::GivenUp { .. } => {}
            Output::Notice { notice, .. } => self.notices.push(notice),
            Output::Closed {
                stream, reading, ..
            } => self.closed.push((stream, reading)),
            Output::Resend {
                from, to, under, ..
            } => self.resent.push((from, to, under)),
            Output::Acknowledged { epochs, held, .. } => self.acknowledged.push((epochs, held)),
            Output::Trace { stream, marking } => self.markings.push((stream, marking)),
            Output::Tracing { answer, .. } => self.answers.push(answer),
            Output::Traced(traced) => self.traced.push(traced),
            Output::Note(note) => self.notes.push(note),
        }
        None
    }

    fn parts(&self) -> Vec<&Installation> {
        self.controller.parts().installations().collect()
    }
}
