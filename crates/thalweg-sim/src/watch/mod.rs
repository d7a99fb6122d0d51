//! The observer of a run: joins the trace, the accounts, the model and the list of violations.
//!
//! Hosts report here what they do, and nothing that they do depends on the watch. So it may see all
//! hosts at once, which no host can.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_base::adu::Header;
use thalweg_base::event::DropCause;
use thalweg_base::id::NodeId;
use thalweg_base::time::Instant;
use thalweg_control::ledger::Loss;
use thalweg_link::congestion::Algorithm;
use thalweg_link::hop::{Carriage, Outcome};
use thalweg_planner::model::{NodeName, World};

use crate::fate::{Copy, Fates, Sent};
use crate::film::Film;
use crate::keys::node_id;
use crate::oracle::{Secrecy, Violation, Violations};
use crate::promise::Promises;
use crate::reference::Model;
use crate::trace::{Happening, Kind, Trace};
use crate::viewer::Viewer;

/// The observer of a run.
#[derive(Debug)]
pub struct Watch<'w> {
    /// World time.
    pub now: Instant,
    /// The world being run.
    pub world: &'w World,
    /// The nodes' names, in the order of the world.
    pub names: Vec<NodeName>,
    /// The nodes' indices, by id.
    pub places: BTreeMap<NodeId, usize>,
    /// The congestion controller of every link.
    pub congestion: Algorithm,
    /// Whether the links' rates are unconfigured.
    pub is_rate_unconfigured: bool,
    /// The events.
    pub trace: Trace,
    /// The fate of each ADU.
    pub fates: Fates,
    /// The reference model.
    pub model: Model,
    /// What plans promised of their links.
    pub promises: Promises,
    /// ADUs that nodes refused because forwarding them would have taken too long.
    pub lagging: u64,
    /// What should not have happened.
    pub violations: Violations,
    /// The viewers of video, by stream and sink.
    pub viewers: BTreeMap<(usize, usize), Viewer>,
    /// The films, by stream.
    pub films: Vec<Option<Arc<Film>>>,
    /// Pairs of nodes joined by an insecure link.
    insecure: BTreeSet<(usize, usize)>,
    trusted: Vec<bool>,
}

impl<'w> Watch<'w> {
    /// Begins to observe a world.
    pub fn new(world: &'w World, films: &[Option<Arc<Film>>], is_text_wanted: bool) -> Self {
        let names: Vec<NodeName> = world.nodes.keys().cloned().collect();
        let place = |name: &NodeName| names.iter().position(|other| other == name);
        let mut insecure = BTreeSet::new();
        for link in world.links.iter().filter(|link| !link.secure) {
            if let [Some(a), Some(b)] = [place(&link.ends[0]), place(&link.ends[1])] {
                insecure.extend([(a, b), (b, a)]);
            }
        }
        let streams = world.streams.iter().map(|stream| {
            let source = place(&stream.from).unwrap_or_default();
            let sinks = stream.to.iter().map(|sink| place(sink).unwrap_or_default());
            (source, sinks.collect())
        });
        let mut viewers = BTreeMap::new();
        for (at, (stream, film)) in world.streams.iter().zip(films).enumerate() {
            for sink in 0..stream.to.len() {
                if let Some(film) = film {
                    let viewer = Viewer::new(Arc::clone(film), stream.needs.deadline);
                    viewers.insert((at, sink), viewer);
                }
            }
        }
        Self {
            now: Instant::ZERO,
            places: (0..)
                .zip(&names)
                .map(|(place, name)| (node_id(name), place))
                .collect(),
            congestion: Algorithm::default(),
            is_rate_unconfigured: false,
            trace: Trace::new(is_text_wanted),
            fates: Fates::new(streams),
            model: Model::default(),
            promises: Promises::default(),
            lagging: 0,
            violations: Violations::default(),
            viewers,
            films: films.to_vec(),
            insecure,
            trusted: world.nodes.values().map(|node| node.trusted).collect(),
            names,
            world,
        }
    }

    /// Returns the index of a loss's node; `usize::MAX` if the node is no longer known.
    pub fn place_of(&self, loss: &Loss) -> usize {
        let place = loss.node.and_then(|node| self.places.get(&node));
        place.copied().unwrap_or(usize::MAX)
    }

    /// Adds an event to the trace.
    pub fn note(&mut self, happening: Happening) {
        self.trace.note(self.now, happening, &self.names);
    }

    /// Adds a violation.
    pub fn add_violation(&mut self, node: usize, copy: Option<Copy>, what: impl Into<String>) {
        let violation = Violation {
            time: self.now,
            node: self.names[node].clone(),
            stream: copy.map(|copy| self.world.streams[copy.stream].name.clone()),
            sequence: copy.map(|copy| self.fates.sent(copy).sequence),
            what: what.into(),
        };
        self.trace.say(self.now, &self.names[node], || {
            format!("VIOLATION {violation}")
        });
        self.violations.add(violation);
    }

    /// Records an ADU given by a producer; returns its index.
    pub fn sent(&mut self, node: usize, stream: usize, sent: Sent) -> usize {
        let happening = Happening::at(Kind::Sent, node).of(stream);
        self.note(happening.numbers(sent.sequence, sent.payload.len() as u64));
        for sink in 0..self.world.streams[stream].to.len() {
            if let Some(viewer) = self.viewers.get_mut(&(stream, sink)) {
                viewer.handle_sent(sent.frame, sent.due);
            }
        }
        self.fates.handle_sent(stream, sent)
    }

    /// Records that a node dropped an ADU.
    pub fn dropped(&mut self, node: usize, copy: Option<Copy>, cause: DropCause) {
        let Some(copy) = copy else {
            return;
        };
        let sequence = self.fates.sent(copy).sequence;
        let happening = Happening::at(Kind::Dropped, node).of(copy.stream);
        self.note(happening.numbers(sequence, cause.index() as u64));
        self.fates.handle_dropped(copy, cause, node);
    }

    /// Records a link's outcome for an ADU.
    pub fn outcome(&mut self, node: usize, peer: usize, copy: Option<Copy>, outcome: Outcome) {
        let Some(copy) = copy else {
            return;
        };
        let sequence = self.fates.sent(copy).sequence;
        let ended = outcome
            .drop_cause()
            .map_or(0, |cause| 1 + cause.index() as u64);
        let happening = Happening::at(Kind::Outcome, node)
            .with(peer)
            .of(copy.stream);
        self.note(happening.numbers(sequence, ended));
        self.fates
            .handle_outcome(copy, [node, peer], outcome, self.now);
    }

    /// Records a delivery, and checks that the payload is the one that was sent.
    pub fn delivered(&mut self, node: usize, copy: Copy, payload: &[u8]) {
        let sent = self.fates.sent(copy);
        let (sequence, frame, layer) = (sent.sequence, sent.frame, sent.layer);
        let is_same = sent.payload == payload;
        let happening = Happening::at(Kind::Delivered, node).of(copy.stream);
        self.note(happening.numbers(sequence, payload.len() as u64));
        if !is_same {
            self.add_violation(
                node,
                Some(copy),
                "it was delivered with other bytes than it was sent with",
            );
        }
        if let Err(what) = self.fates.handle_delivered(copy, node, self.now) {
            self.add_violation(node, Some(copy), what);
        }
        let now = self.now;
        if let Some(viewer) = self.viewers.get_mut(&(copy.stream, copy.sink)) {
            viewer.handle_delivered(frame, layer, now);
        }
    }

    /// Records that a node hands an ADU to a link, and checks it against its plan.
    pub fn handed(
        &mut self,
        [from, to]: [usize; 2],
        header: &Header,
        payload_bytes: usize,
        carriage: Carriage,
    ) {
        let Some(copy) = self.fates.find(header) else {
            return;
        };
        let happening = Happening::at(Kind::Handed, from).with(to).of(copy.stream);
        self.note(happening.numbers(header.sequence.0, u64::from(header.epoch.0)));
        let now = self.now;
        let handed = (carriage, payload_bytes);
        self.fates.handle_handed(copy, [from, to], handed, now);
        let ends = [&self.names[from], &self.names[to]];
        if let Err(what) = self.promises.handle_handed(header, ends, payload_bytes) {
            self.add_violation(from, Some(copy), what);
        }
    }

    /// Checks that bytes between two nodes do not expose a confidential payload.
    pub fn exposed(&mut self, from: usize, to: usize, copy: Option<Copy>, bytes: &[u8]) {
        let Some(copy) = copy else {
            return;
        };
        let is_open = self.insecure.contains(&(from, to)) || !self.trusted[to];
        if !is_open || !self.world.streams[copy.stream].needs.confidential {
            return;
        }
        if Secrecy::is_broken(&self.fates.sent(copy).payload, bytes) {
            let to = self.names[to].clone();
            self.add_violation(
                from,
                Some(copy),
                format!(
                    "its plaintext goes to {to}, over an insecure link or to an untrusted node"
                ),
            );
        }
    }
}
