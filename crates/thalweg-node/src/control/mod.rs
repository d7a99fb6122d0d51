//! The control plane of a node: one task that owns what is decided, and decides it.
//!
//! *The idea.* Everything that is not the data path comes here as an [`Input`] and is handled to its end before the
//! next, so there is no lock and no half-done state. The thinking is done by machines of the core (the directory, one
//! session per published stream, the planner); this task gives them time, keys and links.
//!
//! | file | what it does |
//! |---|---|
//! | `neighbour` | links up and down, own record, flooding |
//! | `routed` | signed envelopes along a route |
//! | `source` | published streams: sessions, planning, deployment |
//! | `sink` | wanted streams: finding the source, subscribing |
//! | `part` | installing what a source has prepared for this node |
//! | `snapshot` | from the directory to the planner's input |
//! | `report` | the status |
//!
//! *What it does not do.* No ADU passes through here.
//!
//! *Sources.* design.md, "Control plane"; docs/protocol.md §4–6.

mod neighbour;
mod part;
mod report;
mod routed;
mod sink;
mod snapshot;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_core::id::{Epoch, NodeId, StreamId, StreamName};
use thalweg_core::routing::Directory;
use thalweg_core::session::Part;
use thalweg_core::time::{Duration, Instant};
use thalweg_core::wire::control::{self as wire, Message};
use thalweg_net::{Admission, Identity, LinkEvent};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::debug;

use crate::config::{Config, Peer};
use crate::envelope::BoxKey;
use crate::forward::{Forwarder, Mail, StreamCounts};
use crate::handle::{Publication, PublishError};
use crate::status::Status;

use neighbour::{OwnRecord, PeerState};
use sink::Wanted;
use source::Source;

/// How often leases, records and subscriptions are looked after when nothing happens.
const TICK: Duration = Duration::from_millis(250);

/// Inputs that wait for the control task; links are held back beyond.
pub(crate) const INPUTS_MAX: usize = 1024;

/// What the control task is told.
pub(crate) enum Input {
    /// A control frame came from a neighbour.
    Frame { from: NodeId, frame: Bytes },
    /// A link came, went, or cannot be had.
    Link(LinkEvent),
    /// A program asks for something.
    Command(Command),
}

/// What programs ask for.
pub(crate) enum Command {
    Publish {
        publication: Publication,
        given: Option<Vec<Part>>,
        reply: oneshot::Sender<Result<Published, PublishError>>,
    },
    Unpublish {
        stream: StreamId,
    },
    Subscribe {
        name: StreamName,
        mailbox: mpsc::Sender<Mail>,
    },
    Status {
        reply: oneshot::Sender<Status>,
    },
}

/// What a publisher needs in order to put ADUs on the data path itself.
pub(crate) struct Published {
    pub(crate) stream: StreamId,
    pub(crate) active: watch::Receiver<Vec<Epoch>>,
    pub(crate) counts: Arc<StreamCounts>,
}

/// The control plane's state.
pub(crate) struct Control {
    id: NodeId,
    identity: Identity,
    box_key: BoxKey,
    name: String,
    config: Config,
    peers: BTreeMap<NodeId, Peer>,
    admission: Admission,
    forwarder: Arc<Forwarder>,
    directory: Directory,
    own_record: OwnRecord,
    peer_states: BTreeMap<NodeId, PeerState>,
    sources: BTreeMap<StreamId, Source>,
    wanted: BTreeMap<StreamName, Wanted>,
}

impl Control {
    pub(crate) fn new(
        config: Config,
        identity: Identity,
        box_key: BoxKey,
        admission: Admission,
        forwarder: Arc<Forwarder>,
    ) -> Self {
        Self {
            id: identity.id(),
            identity,
            box_key,
            name: config.name.to_string(),
            peers: config
                .peers
                .iter()
                .map(|peer| (peer.key, peer.clone()))
                .collect(),
            config,
            admission,
            forwarder,
            directory: Directory::default(),
            own_record: OwnRecord::default(),
            peer_states: BTreeMap::new(),
            sources: BTreeMap::new(),
            wanted: BTreeMap::new(),
        }
    }

    /// Handles inputs until there is nobody left to give any.
    pub(crate) async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        self.announce().await;
        loop {
            let clock = self.forwarder.clock;
            let due = self.poll_timeout(clock.now());
            tokio::select! {
                input = inputs.recv() => match input {
                    Some(input) => self.handle(input).await,
                    None => return,
                },
                () = clock.sleep_until(due) => self.handle_timeout().await,
            }
        }
    }

    fn now(&self) -> Instant {
        self.forwarder.clock.now()
    }

    fn poll_timeout(&self, now: Instant) -> Instant {
        let sessions = self
            .sources
            .values()
            .map(|source| source.session.poll_timeout());
        sessions
            .min()
            .unwrap_or(Instant::NEVER)
            .max(now)
            .min(now + TICK)
    }

    async fn handle(&mut self, input: Input) {
        match input {
            Input::Frame { from, frame } => self.handle_frame(from, &frame).await,
            Input::Link(event) => self.handle_link(event).await,
            Input::Command(Command::Publish {
                publication,
                given,
                reply,
            }) => {
                // A publisher that has gone meanwhile closes its watch, which the next tick sees.
                let _ = reply.send(self.publish(publication, given).await);
            }
            Input::Command(Command::Unpublish { stream }) => self.unpublish(stream).await,
            Input::Command(Command::Subscribe { name, mailbox }) => {
                self.want(name, mailbox).await;
            }
            Input::Command(Command::Status { reply }) => {
                let _ = reply.send(self.status());
            }
        }
    }

    async fn handle_frame(&mut self, from: NodeId, frame: &[u8]) {
        match wire::decode(frame) {
            Ok(Message::Record { record, signature }) => {
                self.handle_record(from, record, signature).await;
            }
            Ok(Message::Routed(routed)) => self.handle_routed(from, routed).await,
            Err(error) => debug!(peer = %from.short(), %error, "control frame refused"),
        }
    }

    async fn handle_timeout(&mut self) {
        let now = self.now();
        for route in self.forwarder.expire(now) {
            debug!(stream = %route.name, epoch = route.epoch.0, "route expired without renewal");
        }
        self.forwarder.mailboxes.sweep();
        self.refresh_record(now).await;
        if self.directory.handle_timeout(self.id, now) {
            self.handle_change().await;
        }
        self.close_abandoned().await;
        self.handle_sources(now).await;
        self.renew_wanted(now).await;
    }

    /// The map or what is published has changed: sources plan anew, sinks look again.
    async fn handle_change(&mut self) {
        for source in self.sources.values_mut() {
            source.session.handle_change();
        }
        let now = self.now();
        self.handle_sources(now).await;
        self.resolve_wanted(now).await;
    }

    async fn send(&self, to: NodeId, message: &Message) {
        let Some(link) = self.forwarder.link(to) else {
            return;
        };
        if let Err(error) = link.send_control(wire::encode(message).into()).await {
            debug!(peer = %to.short(), %error, "control frame not sent");
        }
    }

    /// Returns whether this node lets another see plaintext of its streams.
    fn trusts(&self, node: NodeId) -> bool {
        node == self.id || self.peers.get(&node).is_some_and(|peer| peer.trusted)
    }

    /// Returns the name of a node, for people.
    fn name_of(&self, node: NodeId) -> String {
        if node == self.id {
            return self.name.clone();
        }
        let configured = self.peers.get(&node).map(|peer| peer.name.to_string());
        let recorded = || {
            self.directory
                .record(node)
                .map(|record| record.name.clone())
        };
        configured.or_else(recorded).unwrap_or_else(|| node.short())
    }
}
