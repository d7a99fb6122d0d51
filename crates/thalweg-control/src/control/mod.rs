//! The control plane of a node: one sans-IO state machine that owns the decisions.
//!
//! *The idea.* Frames from neighbours, link events and requests of local programs go into a
//! [`Controller`], which handles each of them completely. Frames to send, parts of plans to install
//! and notices come out. The driver supplies the clock, the links and [`Keys`], and carries out the
//! outputs: a node does so with sockets, a simulator with an event queue.
//!
//! ```text
//!  handle_link_up, handle_frame, …    ─┐                  ┌─► Send, Note
//!  publish, subscribe, …              ─┤    Controller    ├─► Install, Remove      → data path
//!  handle_installed, handle_solved, … ─┤                  ├─► Plan                 → planner
//!  handle_timeout                     ─┘                  └─► Active, Found, Notice → programs
//! ```
//!
//! | file | what it decides |
//! |---|---|
//! | `neighbour`, `stream_id` | this node's record, which records are accepted; ids of streams |
//! | `flood` | when records go on to other neighbours |
//! | `meeting` | what a new neighbour is sent of the directory |
//! | `admission` | rights: grants, revocations |
//! | `routed` | signed envelopes along a route |
//! | `source`, `publication` | published streams, their sinks and sessions |
//! | `source::serve`, `source::drain` | subscriptions and what sessions ask for; the end of a publisher |
//! | `deploy` | from a wanted plan to its `Prepare` messages |
//! | `graft` | plans that are fed by copies of another plan's ADUs |
//! | `sink` | wanted streams: finding the source, subscribing |
//! | `sink::sequel` | what follows the end of a wanted stream |
//! | `part` | which parts of other nodes' plans are installed here, and their leases |
//! | `account`, `accounts` | reports of what became of ADUs, node by node towards the source |
//! | `continuity`, `suspects`, `avoid` | silent neighbours and links, which plans avoid them |
//! | `withhold`, `producer` | nodes that pass nothing on; producers that are silent |
//! | `receipt` | what sinks have, and what sources need not keep |
//! | `leave`, `rekey`, `configure` | orderly departure, stream keys, changed configuration |
//! | `map`, `planning` | from the directory to the planner's input and back |
//! | `trace` | what hops cost: the nodes that ask, the stamps of sinks |
//! | `route` | which path a stream would take |
//! | `keys`, `note` | what it needs of cryptography; events for logs and programs |
//!
//! Two outputs need an answer: [`Output::Install`] is answered by [`Controller::handle_installed`]
//! and [`Output::Plan`] by [`Controller::handle_solved`]. Messages of a node to itself (a source
//! that is also a sink, its own part of a plan) stay inside.
//!
//! *What it does not do.* No ADU passes through here; that is `thalweg_dataplane::route`.
//!
//! *Sources.* design.md, "Control plane"; docs/reference/protocol.md §4–6.

mod account;
mod accounts;
mod admission;
mod avoid;
mod configure;
mod continuity;
mod deploy;
mod flood;
mod graft;
mod keys;
mod leave;
mod map;
mod meeting;
mod neighbour;
mod note;
mod part;
mod planning;
mod producer;
mod publication;
mod receipt;
mod rekey;
mod route;
mod routed;
mod sink;
mod source;
mod stream_id;
mod suspects;
#[cfg(test)]
mod tests;
mod trace;
mod withhold;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId, StreamName};
use thalweg_base::seen::Held;
use thalweg_base::time::{Due, Duration, Instant};
use thalweg_base::trace::{Marking, Traced};
use thalweg_base::units::Bitrate;
use thalweg_base::wire::control::{self as wire, Body, Message};
use thalweg_link::gauge::Gauge;
use thalweg_planner::model::{NodeName, Weights};

use crate::admission::{Rights, Roll};
use crate::ledger::Reading;
use crate::routing::Directory;
use crate::session::{Feed, Given, Sinkward};

pub use admission::{AdmissionChange, CLOCK_TOLERANCE, NotIssued};
pub use keys::{KeyContext, Keys, KeysError};
pub use note::{Note, Notice};
pub use planning::{Planning, Solved, Words};
pub use publication::{Publication, PublishError};
pub use route::{Alternative, HopState, Paths};
pub use sink::{EndCause, Sequel, Subscription};
pub use source::{PlanState, SinkPlan, Source};
pub use thalweg_base::part::{Installation, KeyContent, Secrets};

use accounts::Accounts;
use continuity::Continuity;
use flood::Flood;
use meeting::Meetings;
use neighbour::OwnRecord;
use part::{Part, Pending};
use sink::Wanted;
use trace::Traces;

/// The configuration of a node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its public key.
    pub id: NodeId,
    /// Its name, for display.
    pub name: NodeName,
    /// How many adapters plans may run here for each stream.
    pub slots: u32,
    /// The nodes that the configuration names.
    pub peers: Vec<Peer>,
    /// The weights of the planner's cost.
    pub weights: Weights,
    /// Wall-clock time at [`Instant::ZERO`], since 1970. Sequence numbers derived from it keep
    /// growing across restarts.
    pub since_1970: Duration,
}

/// A node that the configuration names.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// Its public key.
    pub key: NodeId,
    /// Its name, for display.
    pub name: NodeName,
    /// Whether it may see the plaintext of confidential streams.
    pub trusted: bool,
    /// The configured rate of the link to it, if any.
    pub rate: Option<Bitrate>,
    /// Whether the path to it is safe from eavesdroppers.
    pub secure: bool,
}

/// An action for the driver.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send a control frame to a neighbour, after those before it. The link is up, or was a moment ago.
    Send {
        /// The neighbour.
        to: NodeId,
        /// The frame.
        frame: Bytes,
    },
    /// Solve a planning and hand the result to [`Controller::handle_solved`].
    Plan(Planning),
    /// Install a part of a plan, replacing the one before, and report the outcome to
    /// [`Controller::handle_installed`].
    Install {
        /// The part.
        installation: Installation,
        /// Key and random bits for its adapters.
        secrets: Secrets,
    },
    /// Remove a part of a plan.
    Remove {
        /// The stream.
        stream: StreamId,
        /// The plan.
        epoch: Epoch,
    },
    /// Start or stop copying what arrives for a base into the plan that is grafted on it here.
    Cast {
        /// The stream.
        stream: StreamId,
        /// The grafted plan.
        epoch: Epoch,
        /// What to copy. Repeating a feed that is already running has no effect.
        feed: Feed,
    },
    /// Send the stored part of a published stream under this plan, at once and before anything new:
    /// its opening, or everything since its newest key ADU.
    Replay {
        /// The stream.
        stream: StreamId,
        /// The sink.
        sink: NodeId,
        /// The plan, now in force for a sink that had none before.
        to: Epoch,
        /// Whether the sink waited for the stream: then it gets the opening, otherwise everything
        /// since the newest key ADU.
        has_waited: bool,
    },
    /// From now on the publisher sends each ADU under these plans, and drops it if there are none.
    Active {
        /// The stream.
        stream: StreamId,
        /// The plans, each with the plans in force that it feeds.
        given: Vec<Given>,
    },
    /// A held stream now has these sinks, with these plans in force.
    Holding {
        /// The stream.
        stream: StreamId,
        /// All its sinks, ordered by key.
        sinks: Vec<Sinkward>,
    },
    /// Resend what was sent under these plans and is still kept, at once and before anything new,
    /// and discard what still waits under them for a link of this node.
    Resend {
        /// The stream.
        stream: StreamId,
        /// The sink of these plans.
        sink: NodeId,
        /// The plans with broken paths.
        from: Vec<Epoch>,
        /// The plan in force for the sink.
        to: Epoch,
        /// The plan to send under: `to`, or the root that it is grafted on.
        under: Epoch,
    },
    /// Nothing more arrives of what a wanted stream lacks below a sequence.
    GivenUp {
        /// The stream.
        stream: StreamId,
        /// The first sequence that may still arrive.
        below: Sequence,
    },
    /// A receipt of a published stream's sink arrived; what it names need not be kept.
    Acknowledged {
        /// The stream.
        stream: StreamId,
        /// The sink.
        sink: NodeId,
        /// All plans for that sink.
        epochs: Vec<Epoch>,
        /// The plan in force, if its ADUs arrive in order and none may be left out. The driver then
        /// reports how many of them the sink lacks ([`Controller::handle_missing`]).
        in_order: Option<Epoch>,
        /// What the sink has.
        held: Held,
    },
    /// A wanted stream is published. Either it is new, and its sequences start at zero, or it was
    /// out of reach and is known again, and programs that have begun with it go on.
    Found {
        /// The stream's name.
        name: StreamName,
        /// The stream.
        stream: StreamId,
    },
    /// A notice for the programs that want a stream.
    Notice {
        /// The stream's name.
        name: StreamName,
        /// The notice.
        notice: Notice,
    },
    /// What follows a stream that has ended here is now known, for every reader that was told
    /// [`Sequel::Unsure`].
    Sequel {
        /// The stream's name.
        name: StreamName,
        /// Whether it goes on, with the stream of another producer.
        goes_on: bool,
    },
    /// The programs that want a stream from now on start without what has arrived of it before,
    /// though receipts still name that ([`Seen::begin_anew`](thalweg_base::seen::Seen::begin_anew)).
    BegunAnew {
        /// The stream.
        stream: StreamId,
        /// The last plan made for the programs that left, if it may still bring something: that is
        /// not for the new ones.
        former: Option<Epoch>,
    },
    /// What was held to belong to programs that have left belongs to those that want the stream
    /// now: its source never learned that any left.
    GoesOn {
        /// The stream.
        stream: StreamId,
    },
    /// Discard what is remembered of the ADUs received of a stream that ended here.
    Forgotten {
        /// The stream.
        stream: StreamId,
    },
    /// A stream that this node published is over.
    Closed {
        /// The stream.
        stream: StreamId,
        /// Its name.
        name: StreamName,
        /// The final account of its ADUs.
        reading: Reading,
    },
    /// Mark ADUs of a published stream for tracing from now on.
    Trace {
        /// The stream.
        stream: StreamId,
        /// How often, and until when.
        marking: Marking,
    },
    /// The source of a stream answered this node's request to trace it.
    Tracing {
        /// The stream.
        stream: StreamId,
        /// How many sinks it has, or why it is not traced.
        answer: Result<u32, String>,
    },
    /// The trace of one ADU, with the nodes of its path.
    Traced(Traced),
    /// An event for the log.
    Note(Note),
}

/// The control plane of one node.
#[derive(Debug)]
pub struct Controller {
    settings: Settings,
    peers: BTreeMap<NodeId, Peer>,
    links: BTreeMap<NodeId, Gauge>,
    /// When the first gauge of a link is due.
    gauges_due: Due,
    directory: Directory,
    roll: Roll,
    admissions: VecDeque<AdmissionChange>,
    own_record: OwnRecord,
    flood: Flood,
    /// The map or the set of published streams has changed; sources and sinks are updated by `settle`.
    is_changed: bool,
    sources: BTreeMap<StreamId, Source>,
    wanted: BTreeMap<StreamName, Wanted>,
    parts: BTreeMap<(StreamId, Epoch), Part>,
    /// When the first lease of a part ends.
    leases_due: Due,
    pending: BTreeMap<(StreamId, Epoch), Pending>,
    /// The accounts of all plans with a part here.
    accounts: Accounts,
    /// When a report was last sent; a node with many accounts reports in rounds.
    last_round: Instant,
    continuity: Continuity,
    meetings: Meetings,
    traces: Traces,
    /// This node has announced that it leaves.
    is_leaving: bool,
    /// Messages of this node to itself, with the route that they would have taken.
    to_self: VecDeque<(Vec<NodeId>, Body)>,
    outputs: VecDeque<Output>,
}

impl Controller {
    /// Returns the control plane of a node without links, in a fabric without an owner.
    pub fn new(settings: Settings, now: Instant, keys: &mut dyn Keys) -> Self {
        Self::in_fabric(settings, Roll::open(), now, keys)
    }

    fn empty(settings: Settings) -> Self {
        let peers = settings.peers.iter();
        Self {
            peers: peers.map(|peer| (peer.key, peer.clone())).collect(),
            settings,
            links: BTreeMap::new(),
            gauges_due: Due::default(),
            directory: Directory::default(),
            roll: Roll::open(),
            admissions: VecDeque::new(),
            own_record: OwnRecord::default(),
            flood: Flood::default(),
            is_changed: false,
            sources: BTreeMap::new(),
            wanted: BTreeMap::new(),
            parts: BTreeMap::new(),
            leases_due: Due::default(),
            pending: BTreeMap::new(),
            accounts: Accounts::default(),
            last_round: Instant::ZERO,
            continuity: Continuity::default(),
            meetings: Meetings::default(),
            traces: Traces::default(),
            is_leaving: false,
            to_self: VecDeque::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Returns the node's key.
    pub const fn id(&self) -> NodeId {
        self.settings.id
    }

    /// Returns the directory of all known nodes.
    pub const fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the neighbours that are linked, each with the gauge of its link.
    pub fn links(&self) -> impl Iterator<Item = (NodeId, &Gauge)> {
        self.links.iter().map(|(peer, gauge)| (*peer, gauge))
    }

    /// Returns the gauge of the link to a neighbour.
    pub fn link(&self, peer: NodeId) -> Option<&Gauge> {
        self.links.get(&peer)
    }

    /// Returns whether a node may see the plaintext of this node's streams: by its grant, or by
    /// this node's configuration in a fabric without an owner.
    pub fn trusts(&self, node: NodeId) -> bool {
        let configured = || self.peers.get(&node).is_some_and(|peer| peer.trusted);
        node == self.id()
            || match self.roll.fabric() {
                Some(_) => self.roll.may(node, Rights::SEE_PLAINTEXT),
                None => configured(),
            }
    }

    /// Returns the display name of a node.
    pub fn name_of(&self, node: NodeId) -> String {
        if node == self.id() {
            return self.settings.name.to_string();
        }
        let configured = self.peers.get(&node).map(|peer| peer.name.to_string());
        let recorded = || {
            let record = self.directory.record(node);
            record.map(|record| record.name.clone())
        };
        configured.or_else(recorded).unwrap_or_else(|| node.short())
    }

    /// Handles a control frame of a neighbour.
    pub fn handle_frame(&mut self, from: NodeId, frame: &[u8], now: Instant, keys: &mut dyn Keys) {
        match wire::decode(frame) {
            Ok(Message::Record { record, signature }) => {
                self.handle_record(from, record, signature, now, keys);
            }
            Ok(Message::Routed(routed)) => self.handle_routed(from, routed, now, keys),
            Ok(Message::Account(report)) => self.handle_report(from, &report, now),
            Ok(Message::Grant(credential)) => {
                self.handle_grant_frame(from, credential, now, keys);
            }
            Ok(Message::Revocation(warrant)) => {
                self.handle_revocation_frame(from, warrant, now, keys);
            }
            Ok(Message::Receipt(receipt)) => self.handle_receipt(from, receipt),
            Ok(Message::Advice(advice)) => self.handle_advice(from, advice, now),
            Ok(Message::Branch(branch)) => self.handle_branch(from, branch, now),
            Ok(Message::Summary(summary)) => self.handle_summary(from, &summary),
            Ok(Message::Lack(lack)) => self.handle_lack(from, &lack),
            Ok(Message::Silence(silence)) => self.handle_source_silent(from, silence, now),
            Err(error) => self.note(Note::FrameRefused { from, error }),
        }
        self.settle(now, keys);
    }

    /// Handles everything that is due: leases that end, records and subscriptions to renew, plans
    /// to resend.
    pub fn handle_timeout(&mut self, now: Instant, keys: &mut dyn Keys) {
        self.expire_parts(now);
        self.expire_grants(now);
        self.handle_accounts(now);
        self.handle_continuity_timeout(now);
        self.handle_meeting_timeout(now);
        self.handle_flood_timeout(now);
        if self.refresh_at() <= now {
            self.announce(now, keys);
        }
        self.handle_gauge_timeout(now, keys);
        self.is_changed |= self.directory.handle_timeout(self.id(), now);
        self.handle_probe_timeout(now, keys);
        self.renew_wanted(now, keys);
        self.settle(now, keys);
    }

    /// Returns when [`Controller::handle_timeout`] has something to do.
    ///
    /// Cost    O(streams published or wanted here)
    pub fn poll_timeout(&self) -> Instant {
        debug_assert!(
            self.gauges_due
                .holds(self.links.values().map(Gauge::poll_timeout))
                && self
                    .leases_due
                    .holds(self.parts.values().map(|part| part.expiry)),
            "every change of a timer updates its `Due`"
        );
        let sessions = self.sources.values().map(|s| s.session.poll_timeout());
        let asks = self.wanted.values().map(Wanted::poll_timeout);
        let due = sessions.chain(asks).min();
        due.unwrap_or(Instant::NEVER)
            .min(self.leases_due.at())
            .min(self.accounts_timeout())
            .min(self.refresh_at())
            .min(self.directory.poll_timeout())
            .min(self.gauges_timeout())
            .min(self.grants_timeout())
            .min(self.continuity.poll_timeout())
            .min(self.meetings.poll_timeout())
            .min(self.flood.poll_timeout())
    }

    /// Returns the next action for the driver.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Handles the consequences of an input until only outputs are left.
    fn settle(&mut self, now: Instant, keys: &mut dyn Keys) {
        loop {
            if core::mem::take(&mut self.is_changed) {
                let directory = &self.directory;
                for source in self.sources.values_mut() {
                    let is_joined = |from, to| directory.is_joined(from, to);
                    source.session.handle_change(is_joined, now);
                }
                self.resolve_wanted(now, keys);
            }
            while let Some((route, body)) = self.to_self.pop_front() {
                self.handle_body(self.id(), &route, body, now, keys);
            }
            self.handle_sources(now, keys);
            if !self.is_changed && self.to_self.is_empty() {
                return;
            }
        }
    }

    fn send(&mut self, to: NodeId, message: &Message) {
        if self.links.contains_key(&to) {
            // The message may rest on records that still wait: they go first.
            self.flush_to(to);
            let frame = wire::encode(message).into();
            self.outputs.push_back(Output::Send { to, frame });
        }
    }

    fn note(&mut self, note: Note) {
        self.outputs.push_back(Output::Note(note));
    }
}
