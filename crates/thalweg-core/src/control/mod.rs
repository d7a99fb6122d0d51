//! The control plane of a node: one machine that owns what is decided, and decides it.
//!
//! *The idea.* Frames of neighbours, links that come and go, and what programs ask for go into a [`Controller`] and are
//! handled to their end; frames to send, parts of plans to install and words for people come out. The driver gives it
//! time, links and [`Keys`] and does what it says: a node with sockets, a simulator with a queue of events.
//!
//! ```text
//!  handle_link_up, handle_link_down, handle_frame ─┐                  ┌─► Send, Note
//!  publish, subscribe, …                          ─┤   Controller     ├─► Install, Remove      → the data path
//!  handle_installed, handle_solved, handle_counts ─┤                  ├─► Plan                 → the planner
//!  handle_timeout                                 ─┘                  └─► Active, Found, Notice → programs
//! ```
//!
//! | file | what it decides |
//! |---|---|
//! | `neighbour` | own record, whose record is believed |
//! | `flood` | when records go on to other neighbours |
//! | `admission` | who may do what: grants, revocations |
//! | `routed` | signed envelopes along a route |
//! | `source` | published streams: who wants them, their sessions |
//! | `deploy` | from a wish for a plan to its messages |
//! | `graft` | plans that are fed by copies of another's ADUs |
//! | `sink` | wanted streams: finding the source, subscribing |
//! | `sequel` | what comes after the end of one |
//! | `part` | what others' plans may install here, and until when |
//! | `account` | what became of streams' ADUs, told from node to node towards the source |
//! | `continuity` | who does not answer, what is sent again |
//! | `receipt` | what sinks have, and what sources need not keep |
//! | `leave` | a node that goes in good order is planned around |
//! | `map`, `planning` | from the directory to the planner's input and back |
//! | `trace` | what hops cost: who asks, what sinks tell |
//! | `route` | what way a stream would take, for whoever asks |
//! | `due` | when the first of many things is to be looked at |
//! | `keys`, `note` | what it asks of cryptography; what it tells people |
//!
//! Two outputs want an answer: [`Output::Install`] is answered by [`Controller::handle_installed`] and
//! [`Output::Plan`] by [`Controller::handle_solved`], for both take what the machine does not have. All else wants
//! none. What a node sends to itself (a source that is also a sink, its own part of a plan) stays inside.
//!
//! *What it does not do.* No ADU passes through here; that is `thalweg_lift::route`.
//!
//! *Sources.* design.md, "Control plane"; docs/protocol.md §4–6.

mod account;
mod accounts;
mod admission;
mod configure;
mod continuity;
mod deploy;
mod drain;
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
mod sequel;
mod sink;
mod source;
mod suspects;
#[cfg(test)]
mod tests;
mod trace;
mod withhold;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;

use crate::admission::{Rights, Roll};
use crate::id::{Epoch, NodeId, Sequence, StreamId, StreamName};
use crate::ledger::Reading;
use crate::mailbox::Held;
use crate::model::{NodeName, Weights};
use crate::routing::Directory;
use crate::routing::gauge::Gauge;
use crate::session::{Feed, Given, Sinkward};
use crate::time::{Due, Duration, Instant};
use crate::trace::{Marking, Traced};
use crate::units::Bitrate;
use crate::wire::control::{self as wire, Body, Message};

pub use admission::{AdmissionChange, CLOCK_TOLERANCE, NotIssued};
pub use keys::{KeyContent, KeyContext, Keys, KeysError};
pub use note::{Note, Notice};
pub use part::{Installation, Secrets};
pub use planning::{Planning, Solved, Words};
pub use publication::{Publication, PublishError};
pub use route::{Alternative, HopNow, Ways};
pub use sequel::{EndCause, Sequel};
pub use sink::Subscription;
pub use source::{PlanState, SinkPlan, Source};

use accounts::Accounts;
use continuity::Continuity;
use flood::Flood;
use meeting::Meetings;
use neighbour::OwnRecord;
use part::{Part, Pending};
use sink::Wanted;
use trace::Traces;

/// What a node is, as its owner configured it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its key.
    pub id: NodeId,
    /// Its name, for people.
    pub name: NodeName,
    /// How many adapters plans may run here for each stream.
    pub slots: u32,
    /// The nodes that it knows.
    pub peers: Vec<Peer>,
    /// The weights of the planner's cost.
    pub weights: Weights,
    /// The time of day at [`Instant::ZERO`], since the start of 1970: it keeps numbers growing across restarts.
    pub since_1970: Duration,
}

/// A node that this one knows, as its owner configured it.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// Its key.
    pub key: NodeId,
    /// Its name, for people.
    pub name: NodeName,
    /// Whether it may see the plaintext of confidential streams.
    pub trusted: bool,
    /// What the link to it can carry, if that is known.
    pub rate: Option<Bitrate>,
    /// Whether nobody else can listen on the way to it.
    pub secure: bool,
}

/// Something for the driver to do.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send a control frame to a neighbour, behind those before it; there is a link, or was a moment ago.
    Send {
        /// To whom.
        to: NodeId,
        /// The frame.
        frame: Bytes,
    },
    /// Make a plan and give it to [`Controller::handle_solved`].
    Plan(Planning),
    /// Install a part of a plan in the place of the one before, and say to [`Controller::handle_installed`] how it went.
    Install {
        /// The part.
        installation: Installation,
        /// What its adapters are made of.
        secrets: Secrets,
    },
    /// Forget a part of a plan.
    Remove {
        /// Which stream.
        stream: StreamId,
        /// Which plan.
        epoch: Epoch,
    },
    /// Begin or cease to give a plan that is grafted here copies of what arrives for its base.
    Cast {
        /// Which stream.
        stream: StreamId,
        /// Which plan.
        epoch: Epoch,
        /// Whether to begin, and with what. What has begun is not begun again.
        feed: Feed,
    },
    /// What is kept of a published stream, its opening or what came since its newest key ADU, is given under
    /// this plan, at once and before anything new.
    Replay {
        /// Which stream.
        stream: StreamId,
        /// The sink.
        sink: NodeId,
        /// The plan, in force for a sink that begins with it.
        to: Epoch,
        /// Whether the sink has waited for the stream, and so begins with its opening; others with the newest key ADU.
        has_waited: bool,
    },
    /// From now on the publisher sends each ADU under these plans, and drops it if there are none.
    Active {
        /// Which stream.
        stream: StreamId,
        /// Which plans, each with those that bring its ADUs to sinks.
        given: Vec<Given>,
    },
    /// A published stream that is held has these sinks from now on, and these plans are in force for them.
    Holding {
        /// Which stream.
        stream: StreamId,
        /// All its sinks, by their keys.
        sinks: Vec<Sinkward>,
    },
    /// What went by these plans and is kept is sent again, at once and before anything new; what still waits under them for
    /// a link of this node is given up.
    Resend {
        /// Which stream.
        stream: StreamId,
        /// Their sink.
        sink: NodeId,
        /// The plans whose ways are broken.
        from: Vec<Epoch>,
        /// The plan in force for their sink.
        to: Epoch,
        /// The plan to send it under: that one, or the one that it is grafted on.
        under: Epoch,
    },
    /// Of a wanted stream nothing more comes of what is lacking below a sequence.
    GivenUp {
        /// Which stream.
        stream: StreamId,
        /// The first sequence that may still come.
        below: Sequence,
    },
    /// The sink of these plans of a published stream has said what it has; that need not be kept.
    Acknowledged {
        /// Which stream.
        stream: StreamId,
        /// The sink.
        sink: NodeId,
        /// All plans for that sink.
        epochs: Vec<Epoch>,
        /// The one in force, if ADUs come in order by it and none may be left out: how many it lacks of those is to be told
        /// ([`Controller::handle_missing`]).
        in_order: Option<Epoch>,
        /// What the sink has.
        held: Held,
    },
    /// A wanted stream is published, for the first time or anew, and then its sequences start at zero; or it is known again
    /// after it could not be reached, and who has begun with it goes on.
    Found {
        /// The stream's name.
        name: StreamName,
        /// The stream.
        stream: StreamId,
    },
    /// Tell those who want a stream how it is.
    Notice {
        /// The stream's name.
        name: StreamName,
        /// What to tell them.
        notice: Notice,
    },
    /// What comes after a stream that has ended here is known now, to all who were [`Sequel::Unsure`] of it.
    Sequel {
        /// The stream's name.
        name: StreamName,
        /// Whether it goes on, with the stream of another producer.
        goes_on: bool,
    },
    /// To those who want a stream here from now on nothing of it has come; what has is held nevertheless
    /// ([`Seen::begin_anew`](crate::mailbox::Seen::begin_anew)).
    BegunAnew {
        /// Which stream.
        stream: StreamId,
        /// The last plan of those who have left, if it may bring something yet: that is not theirs.
        former: Option<Epoch>,
    },
    /// What was said to be of those who have left is theirs who want the stream: its source does not know that anybody left.
    GoesOn {
        /// Which stream.
        stream: StreamId,
    },
    /// Nothing is remembered any more of what has come of a stream that ended here.
    Forgotten {
        /// Which stream.
        stream: StreamId,
    },
    /// A stream that this node published is over; this is what became of its ADUs.
    Closed {
        /// Which stream.
        stream: StreamId,
        /// Its name.
        name: StreamName,
        /// What became of them.
        reading: Reading,
    },
    /// From now on mark ADUs of a published stream, for somebody wants to know what hops cost them.
    Trace {
        /// Which stream.
        stream: StreamId,
        /// How often, and until when.
        marking: Marking,
    },
    /// What the source of a stream says to this node's wish to trace it.
    Tracing {
        /// Which stream.
        stream: StreamId,
        /// How many sinks it has, or why it is not traced.
        answer: Result<u32, String>,
    },
    /// What hops cost one ADU of a stream that this node traces, with the nodes of its way.
    Traced(Traced),
    /// Write down what happened.
    Note(Note),
}

/// The control plane of one node.
#[derive(Debug)]
pub struct Controller {
    settings: Settings,
    peers: BTreeMap<NodeId, Peer>,
    links: BTreeMap<NodeId, Gauge>,
    /// When the first of them is to be doubted.
    doubts: Due,
    directory: Directory,
    roll: Roll,
    admissions: VecDeque<AdmissionChange>,
    own_record: OwnRecord,
    flood: Flood,
    /// The map or what is published has changed, and sources and sinks have not heard of it.
    is_changed: bool,
    sources: BTreeMap<StreamId, Source>,
    wanted: BTreeMap<StreamName, Wanted>,
    parts: BTreeMap<(StreamId, Epoch), Part>,
    /// When the first of their leases ends.
    lapses: Due,
    pending: BTreeMap<(StreamId, Epoch), Pending>,
    /// What became of the ADUs of each part.
    accounts: Accounts,
    /// When they were spoken of last: if they are many, in rounds.
    round: Instant,
    continuity: Continuity,
    meetings: Meetings,
    traces: Traces,
    /// It has said that it leaves.
    is_leaving: bool,
    /// What this node sends to itself, with the route it would have taken.
    to_self: VecDeque<(Vec<NodeId>, Body)>,
    outputs: VecDeque<Output>,
}

impl Controller {
    /// Returns the control plane of a node that has no links yet, in a fabric without an owner.
    pub fn new(settings: Settings, now: Instant, keys: &mut dyn Keys) -> Self {
        Self::in_fabric(settings, Roll::open(), now, keys)
    }

    fn empty(settings: Settings) -> Self {
        let peers = settings.peers.iter();
        Self {
            peers: peers.map(|peer| (peer.key, peer.clone())).collect(),
            settings,
            links: BTreeMap::new(),
            doubts: Due::default(),
            directory: Directory::default(),
            roll: Roll::open(),
            admissions: VecDeque::new(),
            own_record: OwnRecord::default(),
            flood: Flood::default(),
            is_changed: false,
            sources: BTreeMap::new(),
            wanted: BTreeMap::new(),
            parts: BTreeMap::new(),
            lapses: Due::default(),
            pending: BTreeMap::new(),
            accounts: Accounts::default(),
            round: Instant::ZERO,
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

    /// Returns what is known of all nodes.
    pub const fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the neighbours that there are links with, and what is known of these.
    pub fn links(&self) -> impl Iterator<Item = (NodeId, &Gauge)> {
        self.links.iter().map(|(peer, gauge)| (*peer, gauge))
    }

    /// Returns what is known of the link with a neighbour.
    pub fn link(&self, peer: NodeId) -> Option<&Gauge> {
        self.links.get(&peer)
    }

    /// Returns whether this node lets another see plaintext of its streams: by its grant, or where there are none by
    /// this node's configuration.
    pub fn trusts(&self, node: NodeId) -> bool {
        let configured = || self.peers.get(&node).is_some_and(|peer| peer.trusted);
        node == self.id()
            || match self.roll.fabric() {
                Some(_) => self.roll.may(node, Rights::SEE_PLAINTEXT),
                None => configured(),
            }
    }

    /// Returns the name of a node, for people.
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

    /// Takes in a control frame of a neighbour.
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

    /// Does what is due: leases that end, records and subscriptions to renew, plans to send again.
    pub fn handle_timeout(&mut self, now: Instant, keys: &mut dyn Keys) {
        self.expire_parts(now);
        self.expire_grants(now);
        self.handle_accounts(now);
        self.time_continuity(now);
        self.time_meetings(now);
        self.time_flood(now);
        if self.refresh_at() <= now {
            self.announce(now, keys);
        }
        self.time_gauges(now, keys);
        self.is_changed |= self.directory.handle_timeout(self.id(), now);
        self.time_probes(now, keys);
        self.renew_wanted(now, keys);
        self.settle(now, keys);
    }

    /// Returns when [`Controller::handle_timeout`] has something to do.
    ///
    /// Cost    O(streams that are published or wanted here)
    pub fn poll_timeout(&self) -> Instant {
        debug_assert!(
            self.doubts
                .holds(self.links.values().map(Gauge::poll_timeout))
                && self
                    .lapses
                    .holds(self.parts.values().map(|part| part.lapse)),
            "who gives a thing a time says so"
        );
        let sessions = self.sources.values().map(|s| s.session.poll_timeout());
        let asks = self.wanted.values().map(Wanted::poll_timeout);
        let due = sessions.chain(asks).min();
        due.unwrap_or(Instant::NEVER)
            .min(self.lapses.at())
            .min(self.accounts_timeout())
            .min(self.refresh_at())
            .min(self.directory.poll_timeout())
            .min(self.gauges_timeout())
            .min(self.grants_timeout())
            .min(self.continuity.poll_timeout())
            .min(self.meetings.poll_timeout())
            .min(self.flood.poll_timeout())
    }

    /// Returns what the driver is to do next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Handles what an input has set off, until nothing is left but outputs.
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
            // It may rest on what they say.
            self.pour_to(to);
            let frame = wire::encode(message).into();
            self.outputs.push_back(Output::Send { to, frame });
        }
    }

    fn note(&mut self, note: Note) {
        self.outputs.push_back(Output::Note(note));
    }
}
