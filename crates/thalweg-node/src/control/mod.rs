//! The control task: drives [`thalweg_control::control::Controller`] with a clock, links and programs.
//!
//! *The idea.* The controller decides everything and has no clock and no sockets. This task hands
//! each [`Input`] to the controller and carries out all its outputs before it takes the next input.
//! No lock is needed, and no other task sees a half-applied decision.
//!
//! | file | what it does |
//! |---|---|
//! | `neighbour` | links that go up and down, and their samples |
//! | `admission` | tickets, grants, and which keys the network admits |
//! | `refusals` | counters of refused messages |
//! | `keys` | signatures, digests, random numbers, envelopes |
//! | `log` | the controller's notes, written to the log |
//! | `report` | the node's status |
//! | `reload` | configuration reload while the node runs |
//! | `programs` | publishers and subscribers on this node |
//! | `trace` | per-hop latency traces for programs |
//!
//! *What it does not do.* It makes no decisions, and no ADU passes through this task.
//!
//! *Sources.* design.md, "Control plane"; docs/reference/protocol.md §4–6.

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
use thalweg_base::id::{Epoch, NodeId, StreamId, StreamName};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::control::accounted;
use thalweg_control::admission::UnixTime;
use thalweg_control::control::{Controller, Installation, Output, Planning, Secrets};
use thalweg_link::pulse::Hearing;
use thalweg_net::{Admission, CloseCode, Endpoint, Identity};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, warn};

use crate::config::{Config, Peer};
use crate::envelope::BoxKey;
use crate::fabric::state::State;
use crate::forward::{Account, Forwarder, Mailbox, Route};
use crate::input::{Command, Input};

use admission::SavedState;
use hindrance::Stalls;
use keys::NodeKeys;
use neighbour::PeerStates;
use programs::Publishing;
use refusals::Refusals;
use reload::{settings, with_effective_security};
use trace::Tracers;
use traffic::Traffic;

/// Period at which counters are read and abandoned programs are noticed while no input arrives.
const TICK: Duration = Duration::from_millis(250);

/// Maximum age of a plan's counts while no input arrives. Each report on the plan reads them
/// anyway, several times a second while ADUs flow.
const COUNTS_AGE_MAX: Duration = Duration::from_secs(1);

/// How long the control task waits for a neighbour that does not drain its full control buffer. The
/// task serves all neighbours, so the wait is bounded.
const CONTROL_SEND_TIMEOUT: StdDuration = StdDuration::from_secs(1);

/// The control plane and its handles on the rest of the node.
pub(crate) struct Control {
    controller: Controller,
    keys: NodeKeys,
    forwarder: Arc<Forwarder>,
    admission: Admission,
    endpoint: Endpoint,
    saved: SavedState,
    refusals: Refusals,
    /// The configuration as last read; only its reloadable part takes effect without a restart.
    config: Config,
    peers: BTreeMap<NodeId, Peer>,
    peer_states: PeerStates,
    publishers: BTreeMap<StreamId, Publishing>,
    /// The mailboxes of each stream that this node subscribes to.
    subscribers: BTreeMap<StreamName, Vec<Mailbox>>,
    /// Subscribers that have read the end of a stream and wait to learn whether its name continues.
    successor_waiters: Vec<(StreamName, oneshot::Sender<bool>)>,
    tracers: Tracers,
    stalls: Stalls,
    traffic: Traffic,
    /// Notified once no plan of another source passes through this node.
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
            .map(|peer| (peer.key, with_effective_security(peer, &config)))
            .collect();
        Self {
            controller: Controller::in_fabric(settings, roll, now, &mut keys),
            keys,
            forwarder,
            admission: endpoint.admission().clone(),
            endpoint,
            saved: SavedState {
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
            successor_waiters: Vec::new(),
            tracers: Tracers::default(),
            stalls: Stalls::new(),
            traffic: Traffic::default(),
            leaving: None,
        }
    }

    /// Handles inputs until all senders are gone.
    pub(crate) async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let clock = self.forwarder.clock;
        // Kept across turns of the loop, so that frequent inputs cannot postpone it for ever.
        let mut tick = clock.now() + TICK;
        loop {
            self.drain().await;
            let due = self.controller.poll_timeout().max(clock.now()).min(tick);
            tokio::select! {
                input = inputs.recv() => match input {
                    Some(input) => self.handle(input).await,
                    None => return,
                },
                () = self.forwarder.arrivals.urgent() => self.report_end(),
                () = self.forwarder.traces.ended() => self.report_stamps(),
                () = self.forwarder.ledger.mark_changed() => self.sync_all_counts(),
                () = clock.sleep_until(due) => {
                    if tick <= clock.now() {
                        self.poll_quiet();
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

    /// Returns a node's display name.
    fn name_of(&self, node: NodeId) -> String {
        self.controller.name_of(node)
    }

    async fn handle(&mut self, input: Input) {
        let now = self.now();
        match input {
            Input::Frame { from, frame } => {
                let accounted = accounted(&frame);
                if let Some((stream, epoch)) = accounted {
                    self.sync_plan_counts(stream, epoch, now);
                }
                self.controller
                    .handle_frame(from, &frame, now, &mut self.keys);
                if let Some((stream, _)) = accounted {
                    self.update_losses(stream);
                }
            }
            Input::Link(event) => self.handle_link(event),
            Input::Measured(samples) => self.handle_measured(samples),
            Input::Door(event) => self.handle_door(event),
            Input::Hearing { peer, hearing } => {
                // Current counts decide which ADUs have arrived at a peer that no longer answers.
                if hearing != Hearing::Doubtful {
                    self.sync_all_counts();
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
                // If the publisher has gone, its watch is closed: the next tick withdraws the stream.
                let _ = reply.send(published);
            }
            Command::Drain { stream } => self.drain_stream(stream),
            Command::Unpublish { stream } => self.unpublish(stream),
            Command::Subscribe { name, mailbox } => self.subscribe(name, mailbox),
            Command::Ended { name, ended, reply } => self.handle_ended(name, ended, reply),
            Command::Status { reply } => {
                self.sync_all_counts();
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
                self.sync_all_counts();
                if is_last {
                    self.controller.go_by_receipts(stream, &ended);
                }
                let knows_given = self.controller.knows_given(stream, &ended);
                let _ = reply.send((self.ledger_status(stream), knows_given));
            }
        }
    }

    /// Hands a plan's current data-path counts to the controller.
    fn sync_plan_counts(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        if let Some(account) = self.forwarder.ledger.find_account(stream, epoch) {
            self.forwarder.catch_up(stream, epoch);
            self.sync_account((stream, epoch), &account, now);
        }
    }

    /// Hands an account's counts to the controller if they have changed.
    fn sync_account(
        &mut self,
        (stream, epoch): (StreamId, Epoch),
        account: &Account,
        now: Instant,
    ) {
        if let Some(counts) = account.changed(now) {
            self.controller.handle_counts(stream, epoch, &counts, now);
        }
    }

    /// Hands the controller all counts that have changed since the last call.
    fn sync_all_counts(&mut self) {
        for link in self.forwarder.links() {
            link.catch_up();
        }
        self.sync_stale_counts(Duration::ZERO);
    }

    /// Hands over the counts of plans that were last read at least `age` ago.
    fn sync_stale_counts(&mut self, age: Duration) {
        let now = self.now();
        for (plan, account) in self.forwarder.ledger.stale_accounts(now, age) {
            self.sync_account(plan, &account, now);
        }
    }

    /// Hands over the counts of the plans that the controller is about to report on.
    fn sync_due_counts(&mut self, now: Instant) {
        let due: Vec<_> = self.controller.accounts_due(now).collect();
        for (stream, epoch) in due {
            self.sync_plan_counts(stream, epoch, now);
        }
    }

    /// Hands the controller the sequences that have arrived of streams that end here.
    fn report_held(&mut self) {
        let now = self.now();
        // A stream blocked at a mailbox here is acknowledged no further, which slows its source.
        let is_blocked = |stream| self.forwarder.mailboxes.is_blocked(stream);
        for (stream, held, news) in self.forwarder.arrivals.changed(is_blocked) {
            self.controller.handle_held(stream, held, news, now);
        }
    }

    /// Hands over the end of a stream, or a large batch of arrivals, with the counts up to now, for
    /// the controller to report to the source.
    fn report_end(&mut self) {
        self.report_held();
        self.sync_all_counts();
        let now = self.now();
        self.controller.handle_timeout(now, &mut self.keys);
    }

    /// Polls state that sends no event: counters, and programs that have gone.
    ///
    /// Runs once per `TICK` and not on each controller timer: hundreds of neighbours cause hundreds
    /// of timers a second, and this reads the counters of every plan.
    fn poll_quiet(&mut self) {
        self.forwarder.mailboxes.sweep(self.now());
        self.close_abandoned();
        self.update_stalls();
        self.sync_stale_counts(COUNTS_AGE_MAX);
        let records = self.controller.directory().records();
        let announced = records.flat_map(|record| record.streams.iter().map(|stream| stream.id));
        let now = self.now();
        self.forwarder.ledger.sweep(now, || announced.collect());
        let routes = self.forwarder.routes();
        self.traffic.update(routes.iter().map(Arc::as_ref), now);
    }

    fn handle_timeout(&mut self) {
        let now = self.now();
        self.sync_due_counts(now);
        self.report_held();
        self.controller.handle_timeout(now, &mut self.keys);
        let streams: Vec<StreamId> = self.publishers.keys().copied().collect();
        for stream in streams {
            self.update_losses(stream);
        }
    }

    /// Carries out the controller's outputs until there are none.
    async fn drain(&mut self) {
        loop {
            self.drain_controller().await;
            if !self.apply_plans() {
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
                | Output::Acknowledged { .. } => self.instruct_publisher(output),
                Output::BegunAnew { stream, former } => {
                    self.forwarder.arrivals.restart(stream, former);
                }
                Output::GivenUp { stream, below } => {
                    self.forwarder.mailboxes.handle_given_up(stream, below);
                }
                Output::GoesOn { stream } => self.forwarder.arrivals.resume(stream),
                Output::Forgotten { stream } => self.forwarder.arrivals.forget(stream),
                Output::Found { name, .. } => self.open_mailboxes(&name),
                Output::Sequel { name, goes_on } => self.notify_successor(&name, goes_on),
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
                    self.forwarder.forget_published(stream);
                    log::log_closed(&self.controller, &name, &reading);
                    self.forwarder.ledger.close(stream, reading);
                }
                Output::Trace { stream, marking } => self.forwarder.traces.start(stream, marking),
                Output::Tracing { stream, answer } => self.notify_tracing(stream, answer),
                Output::Traced(traced) => self.deliver_trace(&traced),
                Output::Note(note) => {
                    if !self.refusals.count_note(&note) {
                        log::log(&self.controller, note);
                    }
                }
            }
        }
    }

    /// Sends a frame together with the frames right behind it for the same neighbour; returns the
    /// next other output.
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
        match tokio::time::timeout(CONTROL_SEND_TIMEOUT, link.send_controls(frames)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(peer = %to.short(), %error, "control frames not sent"),
            Err(_) => {
                warn!(peer = %self.name_of(to), "neighbour does not drain its control buffer; closing the link");
                link.close(CloseCode::Overload, "control buffer not drained");
            }
        }
        next
    }

    fn plan(&mut self, planning: Planning) {
        let start = self.now();
        let mut solved = planning.solve();
        solved.set_elapsed(self.now().saturating_since(start));
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
        // The sink's report on this plan then tells the source what is missing.
        self.report_held();
        let now = self.now();
        self.controller
            .handle_installed(stream, epoch, result, now, &mut self.keys);
    }
}
