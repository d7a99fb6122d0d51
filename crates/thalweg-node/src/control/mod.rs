//! The driver of the control plane: one task that brings it what happens, and does what it says.
//!
//! *The idea.* What is decided is decided by [`thalweg_core::control::Controller`], without a clock or a socket. This
//! task has both: every [`Input`] is handed to the controller, whose outputs are then done to the end before the next
//! input, so there is no lock and no half-done state.
//!
//! | file | what it does |
//! |---|---|
//! | `neighbour` | links up and down, what they measure |
//! | `admission` | the door, tickets, whom the network lets in |
//! | `refusals` | what was not taken, counted |
//! | `keys` | signatures, digests, random numbers, envelopes |
//! | `log` | notes to the log |
//! | `report` | the status |
//! | `reload` | the configuration, read again while the node runs |
//! | `programs` | streams that programs here publish and subscribe to |
//! | `trace` | who wants to know what hops cost |
//!
//! *What it does not do.* It decides nothing, and no ADU passes through here.
//!
//! *Sources.* design.md, "Control plane"; docs/protocol.md §4–6.

mod admission;
mod hindrance;
mod keys;
mod log;
mod neighbour;
mod programs;
mod refusals;
mod reload;
mod report;
mod route;
mod trace;
mod traffic;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration as StdDuration;

use bytes::Bytes;
use thalweg_core::admission::UnixTime;
use thalweg_core::control::{Controller, EndCause, Installation, Output, Planning, Secrets, Ways};
use thalweg_core::id::{Epoch, NodeId, StreamId, StreamName};
use thalweg_core::routing::pulse::Hearing;
use thalweg_core::session::Part;
use thalweg_core::time::{Duration, Instant};
use thalweg_core::wire::control::accounted;
use thalweg_net::{Admission, AtDoor, CloseCode, Endpoint, Identity, LinkEvent, Samples};
use thalweg_world::text::TextError;
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, warn};

use crate::config::{Config, Peer};
use crate::envelope::BoxKey;
use crate::fabric::state::State;
use crate::forward::{Account, Forwarder, Mailbox, Route};
use crate::handle::{Publication, PublishError};
use crate::status::{LedgerStatus, Status};

pub use admission::{AdmissionError, InviteRequest};
pub(crate) use programs::Published;
pub use reload::Reloaded;
pub use route::RouteError;
pub use trace::{HopCost, TraceError, TraceEvent, TracedAdu};

use admission::Kept;
use hindrance::Hindrances;
use keys::NodeKeys;
use neighbour::PeerStates;
use programs::Publishing;
use refusals::Refusals;
use reload::{as_secured, settings};
use trace::Tracers;
use traffic::Traffic;

/// How often it is looked what was counted, and which programs have left without a word, when nothing happens.
const TICK: Duration = Duration::from_millis(250);

/// How old the counts of a plan may be, when nothing happens: they are asked for with each word of it anyway, a few times a second
/// while ADUs flow.
const COUNTS_OLD: Duration = Duration::from_secs(1);

/// How long a neighbour may leave unread what fills the room for what it is told: this task is everybody's, and waits meanwhile.
const READ_MAX: StdDuration = StdDuration::from_secs(1);

/// Inputs that wait for the control task; links are held back beyond.
pub(crate) const INPUTS_MAX: usize = 1024;

/// What the control task is told.
pub(crate) enum Input {
    /// A control frame came from a neighbour.
    Frame { from: NodeId, frame: Bytes },
    /// A link came, went, or cannot be had.
    Link(LinkEvent),
    /// The links have been measured.
    Measured(Samples),
    /// Somebody is at the door.
    Door(AtDoor),
    /// A neighbour does not answer, or answers again.
    Hearing { peer: NodeId, hearing: Hearing },
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
    /// The program that publishes a stream is gone: its name is free, and what it gave is still carried.
    Drain {
        stream: StreamId,
    },
    Unpublish {
        stream: StreamId,
    },
    Subscribe {
        name: StreamName,
        mailbox: Mailbox,
    },
    /// A stream has come to its end in a mailbox; answers whether its name goes on, with another producer's
    /// that is there or waited for.
    Ended {
        name: StreamName,
        ended: (StreamId, EndCause),
        reply: oneshot::Sender<bool>,
    },
    Status {
        reply: oneshot::Sender<Status>,
    },
    /// Give out a ticket.
    Invite {
        request: InviteRequest,
        reply: oneshot::Sender<Result<String, AdmissionError>>,
    },
    /// The ways between two nodes, said by name or key.
    Route {
        ends: [String; 2],
        stream: Option<StreamName>,
        reply: oneshot::Sender<Result<Ways, RouteError>>,
    },
    /// Trace a stream for some seconds, for whom these are.
    Trace {
        name: StreamName,
        every: Duration,
        events: mpsc::Sender<TraceEvent>,
        reply: oneshot::Sender<Result<String, TraceError>>,
    },
    /// Revoke a node, said by name or key.
    Revoke {
        node: String,
        reply: oneshot::Sender<Result<String, AdmissionError>>,
    },
    /// Panic, to prove what becomes of a node without its control task.
    #[cfg(test)]
    Panic,
    /// Take over of a configuration what can be taken over while the node runs.
    Reload {
        config: Box<Config>,
        reply: oneshot::Sender<Result<Reloaded, TextError>>,
    },
    /// Say that this node leaves, and answer when no plan of others leads on from here any more.
    Leave {
        reply: oneshot::Sender<()>,
    },
    /// What became of a stream that is published here, and whether it is known how much was given by these plans, which brought
    /// its end; the last that is asked goes by what their sinks say that they have as well.
    Ledger {
        stream: StreamId,
        ended: Vec<Epoch>,
        is_last: bool,
        reply: oneshot::Sender<(Option<LedgerStatus>, bool)>,
    },
}

/// The control plane with what it decides about.
pub(crate) struct Control {
    controller: Controller,
    keys: NodeKeys,
    forwarder: Arc<Forwarder>,
    admission: Admission,
    endpoint: Endpoint,
    kept: Kept,
    refusals: Refusals,
    /// The configuration as it was read last, of which the node goes by what it has taken over.
    config: Config,
    peers: BTreeMap<NodeId, Peer>,
    peer_states: PeerStates,
    publishers: BTreeMap<StreamId, Publishing>,
    /// The mailboxes of each stream that is wanted on this node.
    subscribers: BTreeMap<StreamName, Vec<Mailbox>>,
    /// Who has read the end of a stream of a name, and waits for what comes after it.
    sequels: Vec<(StreamName, oneshot::Sender<bool>)>,
    tracers: Tracers,
    hindrances: Hindrances,
    traffic: Traffic,
    /// Who waits until nothing passes this node any more.
    leaving: Option<oneshot::Sender<()>>,
}

impl Control {
    pub(crate) fn new(
        config: Config,
        identity: Identity,
        box_key: BoxKey,
        state: State,
        endpoint: Endpoint,
        forwarder: Arc<Forwarder>,
    ) -> Self {
        let settings = settings(&config, identity.id(), &forwarder.clock);
        let mut keys = NodeKeys { identity, box_key };
        let now = forwarder.clock.now();
        let (roll, faults) = state.roll(settings.id, UnixTime::since_1970(settings.since_1970));
        for fault in faults {
            warn!("{fault}");
        }
        let peers = config.peers.iter();
        let peers = peers
            .map(|peer| (peer.key, as_secured(peer, &config)))
            .collect();
        Self {
            controller: Controller::in_fabric(settings, roll, now, &mut keys),
            keys,
            forwarder,
            admission: endpoint.admission().clone(),
            endpoint,
            kept: Kept {
                file: config.fabric.state.clone(),
                invitations: state.invitations,
                contacts: state.contacts,
            },
            refusals: Refusals::default(),
            peers,
            config,
            peer_states: PeerStates::new(),
            publishers: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            sequels: Vec::new(),
            tracers: Tracers::default(),
            hindrances: Hindrances::new(),
            traffic: Traffic::default(),
            leaving: None,
        }
    }

    /// Handles inputs until there is nobody left to give any.
    pub(crate) async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let clock = self.forwarder.clock;
        // Kept from turn to turn: inputs that come more often than it must not put it off for ever.
        let mut tick = clock.now() + TICK;
        loop {
            self.drain().await;
            let due = self.controller.poll_timeout().max(clock.now()).min(tick);
            tokio::select! {
                input = inputs.recv() => match input {
                    Some(input) => self.handle(input).await,
                    None => return,
                },
                () = self.forwarder.arrivals.urgent() => self.tell_end(),
                () = self.forwarder.traces.ended() => self.tell_stamped(),
                () = self.forwarder.ledger.turned() => self.count_all(),
                () = clock.sleep_until(due) => {
                    if tick <= clock.now() {
                        self.look_around();
                        tick = clock.now() + TICK;
                    }
                    self.handle_timeout();
                }
            }
        }
    }

    fn now(&self) -> Instant {
        self.forwarder.clock.now()
    }

    /// Returns the name of a node, for people.
    fn name_of(&self, node: NodeId) -> String {
        self.controller.name_of(node)
    }

    async fn handle(&mut self, input: Input) {
        let now = self.now();
        match input {
            Input::Frame { from, frame } => {
                let accounted = accounted(&frame);
                if let Some((stream, epoch)) = accounted {
                    self.count(stream, epoch, now);
                }
                self.controller
                    .handle_frame(from, &frame, now, &mut self.keys);
                if let Some((stream, _)) = accounted {
                    self.tell_losses(stream);
                }
            }
            Input::Link(event) => self.handle_link(event),
            Input::Measured(samples) => self.handle_measured(samples),
            Input::Door(event) => self.handle_door(event),
            Input::Hearing { peer, hearing } => {
                // What has left for a peer that answers no more is judged by the counts.
                if hearing != Hearing::Doubtful {
                    self.count_all();
                }
                self.controller
                    .handle_hearing(peer, hearing, now, &mut self.keys);
            }
            Input::Command(command) => self.handle_command(command).await,
        }
    }

    async fn handle_command(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::Invite { request, reply } => {
                let _ = reply.send(self.invite(request));
            }
            Command::Route {
                ends,
                stream,
                reply,
            } => {
                let _ = reply.send(self.route(&ends, stream.as_ref()));
            }
            Command::Trace {
                name,
                every,
                events,
                reply,
            } => {
                let _ = reply.send(self.trace(&name, every, events));
            }
            Command::Revoke { node, reply } => {
                let _ = reply.send(self.revoke(&node));
            }
            Command::Publish {
                publication,
                given,
                reply,
            } => {
                let published = self.publish(publication, given);
                self.drain().await;
                // A publisher that has gone meanwhile closes its watch, which the next tick sees.
                let _ = reply.send(published);
            }
            Command::Drain { stream } => self.drain_stream(stream),
            Command::Unpublish { stream } => self.unpublish(stream),
            Command::Subscribe { name, mailbox } => self.subscribe(name, mailbox),
            Command::Ended { name, ended, reply } => self.ended(name, ended, reply),
            Command::Status { reply } => {
                self.count_all();
                let _ = reply.send(self.status());
            }
            #[cfg(test)]
            Command::Panic => panic!("as the test wants it"),
            Command::Reload { config, reply } => {
                let _ = reply.send(self.reload(*config));
            }
            Command::Leave { reply } => {
                self.leaving = Some(reply);
                self.controller.leave(now, &mut self.keys);
            }
            Command::Ledger {
                stream,
                ended,
                is_last,
                reply,
            } => {
                self.count_all();
                if is_last {
                    self.controller.go_by_receipts(stream, &ended);
                }
                let knows_given = self.controller.knows_given(stream, &ended);
                let _ = reply.send((self.ledger_status(stream), knows_given));
            }
        }
    }

    /// Tells the controller what the data path has counted of a plan.
    fn count(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        if let Some(account) = self.forwarder.ledger.find_account(stream, epoch) {
            self.forwarder.catch_up(stream, epoch);
            self.tell_changed((stream, epoch), &account, now);
        }
    }

    /// The same of an account, if it has changed: a word of the next node is often followed by one to the node before, a moment
    /// later.
    fn tell_changed(
        &mut self,
        (stream, epoch): (StreamId, Epoch),
        account: &Account,
        now: Instant,
    ) {
        if let Some(counts) = account.changed(now) {
            self.controller.handle_counts(stream, epoch, &counts, now);
        }
    }

    /// Tells the controller what the data path has counted since the last time.
    fn count_all(&mut self) {
        for link in self.forwarder.links() {
            link.catch_up();
        }
        self.count_unread(Duration::ZERO);
    }

    /// The same of the plans of which it was not told for so long.
    fn count_unread(&mut self, unread: Duration) {
        let now = self.now();
        for (plan, account) in self.forwarder.ledger.unread_accounts(now, unread) {
            self.tell_changed(plan, &account, now);
        }
    }

    /// Tells the controller what the data path has counted of the plans that are about to be spoken of.
    fn count_due(&mut self, now: Instant) {
        let due: Vec<_> = self.controller.accounts_due(now).collect();
        for (stream, epoch) in due {
            self.count(stream, epoch, now);
        }
    }

    /// Tells the controller what has come of the streams that end here.
    fn tell_held(&mut self) {
        let now = self.now();
        // A stream that is held up here is acknowledged no further, so that its source slows down.
        let is_pressed = |stream| self.forwarder.mailboxes.is_pressed(stream);
        for (stream, held, news) in self.forwarder.arrivals.changed(is_pressed) {
            self.controller.handle_held(stream, held, news, now);
        }
    }

    /// Tells the controller of the end of a stream, or of much that has come, and what was counted by then, which it tells its source.
    fn tell_end(&mut self) {
        self.tell_held();
        self.count_all();
        let now = self.now();
        self.controller.handle_timeout(now, &mut self.keys);
    }

    /// Takes in what nobody tells: what was counted, and which programs have gone.
    ///
    /// Not with each timer of the control plane: with hundreds of neighbours there are hundreds of those a second, and all
    /// plans are asked here.
    fn look_around(&mut self) {
        self.forwarder.mailboxes.sweep(self.now());
        self.close_abandoned();
        self.look_at_hindrances();
        self.count_unread(COUNTS_OLD);
        let records = self.controller.directory().records();
        let announced = records.flat_map(|record| record.streams.iter().map(|stream| stream.id));
        let now = self.now();
        self.forwarder.ledger.sweep(now, || announced.collect());
        let routes = self.forwarder.routes();
        self.traffic
            .handle_look(routes.iter().map(Arc::as_ref), now);
    }

    fn handle_timeout(&mut self) {
        let now = self.now();
        self.count_due(now);
        self.tell_held();
        self.controller.handle_timeout(now, &mut self.keys);
        let streams: Vec<StreamId> = self.publishers.keys().copied().collect();
        for stream in streams {
            self.tell_losses(stream);
        }
    }

    /// Does what the controller says, until it says nothing more.
    async fn drain(&mut self) {
        loop {
            self.drain_controller().await;
            if !self.activate() {
                break;
            }
        }
        self.drain_admission();
        if !self.controller.is_passed()
            && let Some(leaving) = self.leaving.take()
        {
            let _ = leaving.send(());
        }
    }

    async fn drain_controller(&mut self) {
        let mut next = self.controller.poll_output();
        while let Some(output) = next.take().or_else(|| self.controller.poll_output()) {
            match output {
                Output::Send { to, frame } => next = self.send(to, frame).await,
                Output::Plan(planning) => self.plan(planning),
                Output::Install {
                    installation,
                    secrets,
                } => self.install(installation, secrets),
                Output::Remove { stream, epoch } => self.forwarder.remove(stream, epoch),
                Output::Cast {
                    stream,
                    epoch,
                    feed,
                } => self.forwarder.cast(stream, epoch, feed),
                Output::Replay { .. }
                | Output::Active { .. }
                | Output::Holding { .. }
                | Output::Resend { .. }
                | Output::Acknowledged { .. } => self.direct(output),
                Output::BegunAnew { stream, former } => {
                    self.forwarder.arrivals.begin_anew(stream, former);
                }
                Output::GivenUp { stream, below } => {
                    self.forwarder.mailboxes.handle_given_up(stream, below);
                }
                Output::GoesOn { stream } => self.forwarder.arrivals.go_on(stream),
                Output::Forgotten { stream } => self.forwarder.arrivals.forget(stream),
                Output::Found { name, .. } => self.found(&name),
                Output::Sequel { name, goes_on } => self.tell_sequel(&name, goes_on),
                Output::Notice { name, notice } => {
                    let sentence = notice.sentence(&name);
                    for mailbox in self.subscribers.get(&name).into_iter().flatten() {
                        mailbox.notify(&sentence);
                    }
                }
                Output::Closed {
                    stream,
                    name,
                    reading,
                } => {
                    self.close_publisher(stream);
                    self.forwarder.ledger.forget_account(stream, Epoch(0));
                    self.forwarder.forget_given(stream);
                    log::log_closed(&self.controller, &name, &reading);
                    self.forwarder.ledger.close(stream, reading);
                }
                Output::Trace { stream, marking } => self.forwarder.traces.begin(stream, marking),
                Output::Tracing { stream, answer } => self.tell_tracing(stream, answer),
                Output::Traced(traced) => self.tell_traced(&traced),
                Output::Note(note) => {
                    if !self.refusals.count_note(&note) {
                        log::log(&self.controller, note);
                    }
                }
            }
        }
    }

    /// Sends a frame and those after it that go to the same neighbour; returns the output after them.
    async fn send(&mut self, to: NodeId, frame: Bytes) -> Option<Output> {
        let mut frames = vec![frame];
        let next = loop {
            match self.controller.poll_output() {
                Some(Output::Send { to: other, frame }) if other == to => frames.push(frame),
                other => break other,
            }
        };
        let Some(link) = self.forwarder.link(to) else {
            return next;
        };
        match tokio::time::timeout(READ_MAX, link.send_controls(frames)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(peer = %to.short(), %error, "control frames not sent"),
            Err(_) => {
                warn!(peer = %self.name_of(to), "it reads nothing of what it is told; the link ends");
                link.close(CloseCode::Overload, "nothing is read of what is told");
            }
        }
        next
    }

    fn plan(&mut self, planning: Planning) {
        let begun = self.now();
        let mut solved = planning.solve();
        solved.set_elapsed(self.now().saturating_since(begun));
        solved.explain();
        let now = self.now();
        self.controller.handle_solved(solved, now, &mut self.keys);
    }

    fn install(&mut self, installation: Installation, secrets: Secrets) {
        let (stream, epoch) = (installation.stream, installation.epoch);
        let (pool, ledger) = (self.forwarder.pool.clone(), &self.forwarder.ledger);
        let arrivals = &self.forwarder.arrivals;
        let built = Route::build(installation, secrets, pool, ledger, arrivals);
        let result = built
            .map(|route| self.forwarder.install(Arc::new(route)))
            .map_err(|error| error.to_string());
        // So that what the sink says of the plan tells the source what is missing.
        self.tell_held();
        let now = self.now();
        self.controller
            .handle_installed(stream, epoch, result, now, &mut self.keys);
    }
}
