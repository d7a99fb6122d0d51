//! The control task: drives [`thalweg_control::control::Controller`] with a clock, links and programs.
//!
//! *The idea.* The controller decides everything and has no clock and no sockets. This task hands
//! each [`Input`] to the controller and carries out all its outputs before it takes the next input.
//! No lock is needed, and no other task sees a half-applied decision.
//!
//! | file | what it does |
//! |---|---|
//! | `mind` | the controller with its clock and keys |
//! | `keys` | signatures, digests, random numbers, envelopes |
//! | `neighbour` | peers, links that go up and down, and their samples |
//! | `neighbour::reload` | configuration reload while the node runs |
//! | `admission` | tickets, grants, and which keys the network admits |
//! | `programs` | publishers and subscribers on this node |
//! | `counts` | the data path's counts, handed to the controller |
//! | `matching` | names that match the patterns that programs watch |
//! | `trace` | per-hop latency traces for programs |
//! | `hindrance` | streams stalled by a subscriber |
//! | `traffic` | recent traffic of streams on each link |
//! | `refusals` | counters of refused messages |
//! | `log` | the controller's notes, written to the log |
//! | `report`, `ledger` | the node's status |
//!
//! What has a state has an owner with fields of its own. The task hands them inputs and the
//! controller's outputs, and waits for nothing but its input queue and neighbours' control buffers.
//!
//! *What it does not do.* It makes no decisions, and no ADU passes through this task.
//!
//! *Sources.* design.md, "Control plane"; docs/reference/protocol.md §4–6.

mod admission;
mod counts;
mod hindrance;
mod keys;
mod ledger;
mod log;
mod matching;
mod mind;
mod neighbour;
mod programs;
mod refusals;
mod report;
mod trace;
mod traffic;

use std::sync::Arc;
use std::time::Duration as StdDuration;

use bytes::Bytes;
use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::time::Duration;
use thalweg_base::wire::control::accounted;
use thalweg_control::admission::UnixTime;
use thalweg_control::control::{Controller, Installation, Output, Planning, Secrets};
use thalweg_link::pulse::Hearing;
use thalweg_net::{CloseCode, Endpoint, Identity};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, warn};

use crate::config::Config;
use crate::envelope::BoxKey;
use crate::fabric::state::State;
use crate::forward::Forwarder;
use crate::input::{Command, Input};
use crate::status::LedgerStatus;

use admission::Membership;
use counts::Counts;
use hindrance::Stalls;
use keys::NodeKeys;
use ledger::ledger_status;
use matching::Watches;
use mind::Mind;
use neighbour::{Neighbours, settings};
use programs::Programs;
use refusals::Refusals;
use report::Reporter;
use trace::Tracers;
use traffic::Traffic;

/// Period at which counters are read and abandoned programs are noticed while no input arrives.
const TICK: Duration = Duration::from_millis(250);

/// How long the control task waits for a neighbour that does not drain its full control buffer. The
/// task serves all neighbours, so the wait is bounded.
const CONTROL_SEND_TIMEOUT: StdDuration = StdDuration::from_secs(1);

/// The control plane and its handles on the rest of the node.
pub(crate) struct Control {
    mind: Mind,
    forwarder: Arc<Forwarder>,
    counts: Counts,
    neighbours: Neighbours,
    membership: Membership,
    programs: Programs,
    tracers: Tracers,
    watches: Watches,
    refusals: Refusals,
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
        let clock = forwarder.clock;
        let settings = settings(&config, identity.id(), &clock);
        let mut keys = NodeKeys { identity, box_key };
        let now = clock.now();
        let (roll, faults) = state.roll(settings.id, UnixTime::since_1970(settings.since_1970));
        for fault in faults {
            warn!("{fault}");
        }
        let controller = Controller::in_fabric(settings, roll, now, &mut keys);
        let file = config.fabric.state.clone();
        Self {
            mind: Mind::new(controller, keys, clock),
            counts: Counts::new(Arc::clone(&forwarder)),
            neighbours: Neighbours::new(config, endpoint.clone(), Arc::clone(&forwarder)),
            membership: Membership::new(endpoint, file, state),
            programs: Programs::new(Arc::clone(&forwarder)),
            tracers: Tracers::default(),
            watches: Watches::default(),
            refusals: Refusals::default(),
            stalls: Stalls::default(),
            traffic: Traffic::default(),
            leaving: None,
            forwarder,
        }
    }

    /// Handles inputs until all senders are gone.
    pub(crate) async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let clock = self.forwarder.clock;
        // Kept across turns of the loop, so that frequent inputs cannot postpone it for ever.
        let mut tick = clock.now() + TICK;
        loop {
            self.drain().await;
            let due = self.mind.controller().poll_timeout();
            let due = due.max(clock.now()).min(tick);
            tokio::select! {
                input = inputs.recv() => match input {
                    Some(input) => self.handle(input).await,
                    None => return,
                },
                () = self.forwarder.urgent() => self.report_urgent(),
                () = self.forwarder.traces.ended() => self.report_stamps(),
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

    async fn handle(&mut self, input: Input) {
        let mind = &mut self.mind;
        match input {
            Input::Frame { from, frame } => {
                let accounted = accounted(&frame);
                if let Some(plan) = accounted {
                    self.counts.sync_plan(plan, mind);
                }
                mind.drive(|controller, now, keys| {
                    controller.handle_frame(from, &frame, now, keys);
                });
                if let Some((stream, _)) = accounted {
                    self.programs.update_losses(stream, mind);
                }
            }
            Input::Link(event) => self.neighbours.handle_link(event, mind),
            Input::Measured(samples) => self.neighbours.handle_measured(samples, mind),
            Input::Door(event) => {
                self.membership.handle_door(event, mind, &mut self.refusals);
            }
            Input::Hearing { peer, hearing } => {
                // Current counts decide which ADUs have arrived at a peer that no longer answers.
                if hearing != Hearing::Doubtful {
                    self.counts.sync_to(peer, mind);
                }
                mind.drive(|controller, now, keys| {
                    controller.handle_hearing(peer, hearing, now, keys);
                });
            }
            Input::Command(command) => self.handle_command(command).await,
        }
    }

    async fn handle_command(&mut self, command: Command) {
        let mind = &mut self.mind;
        match command {
            Command::Invite { request, reply } => {
                let _ = reply.send(self.membership.invite(request, mind));
            }
            Command::Route {
                ends,
                stream,
                reply,
            } => {
                let _ = reply.send(mind.paths(&ends, stream.as_ref()));
            }
            Command::Watch { selection, reply } => {
                let _ = reply.send(self.watches.watch(selection, mind));
            }
            Command::Trace {
                name,
                every,
                events,
                reply,
            } => {
                let _ = reply.send(self.tracers.trace(&name, every, events, mind));
            }
            Command::Revoke { node, reply } => {
                let _ = reply.send(self.membership.revoke(&node, mind));
            }
            Command::Publish {
                publication,
                given,
                reply,
            } => {
                let published = self.programs.publish(publication, given, mind);
                self.drain().await;
                // If the publisher has gone, its watch is closed: the next tick withdraws the stream.
                let _ = reply.send(published);
            }
            // Frees the name once its program is gone; what it has published is still carried.
            Command::Drain { stream } => {
                mind.drive(|controller, now, keys| controller.drain(stream, now, keys));
            }
            Command::Unpublish { stream } => self.programs.unpublish(stream, mind),
            Command::Subscribe { name, mailbox } => self.programs.subscribe(name, mailbox, mind),
            Command::Ended { name, ended, reply } => {
                self.programs.handle_ended(name, ended, reply, mind);
            }
            Command::Describe { of, reply } => {
                let _ = reply.send(mind.controller().description(of.0, of.1).cloned());
            }
            Command::Status { reply } => {
                self.counts.sync_all(mind);
                let _ = reply.send(self.reporter().status());
            }
            #[cfg(test)]
            Command::Panic => panic!("as the test wants it"),
            Command::Reload { config, reply } => {
                let _ = reply.send(self.neighbours.reload(*config, mind));
            }
            Command::Leave { reply } => {
                self.leaving = Some(reply);
                mind.drive(|controller, now, keys| controller.leave(now, keys));
            }
            Command::Ledger {
                stream,
                ended,
                is_last,
                reply,
            } => {
                let _ = reply.send(self.ledger(stream, &ended, is_last));
            }
        }
    }

    /// Returns the ledger of a stream published here, and whether its end is counted.
    fn ledger(
        &mut self,
        stream: StreamId,
        ended: &[Epoch],
        is_last: bool,
    ) -> (Option<LedgerStatus>, bool) {
        let mind = &mut self.mind;
        self.counts.sync_all(mind);
        if is_last {
            mind.drive(|controller, _, _| controller.go_by_receipts(stream, ended));
        }
        let controller = mind.controller();
        let knows_given = controller.accounting().knows_given(stream, ended);
        (ledger_status(controller, stream), knows_given)
    }

    /// Returns what a status is read from.
    fn reporter(&self) -> Reporter<'_> {
        Reporter {
            mind: &self.mind,
            forwarder: &self.forwarder,
            neighbours: &self.neighbours,
            membership: &self.membership,
            programs: &self.programs,
            refusals: &self.refusals,
            stalls: &self.stalls,
            traffic: &self.traffic,
        }
    }

    /// Hands over the end of a stream, a large batch of arrivals, or a new mark of a plan's ADUs, with
    /// the counts up to now, for the controller to report to the source.
    fn report_urgent(&mut self) {
        let mind = &mut self.mind;
        self.counts.report_held(mind);
        self.counts.sync_all(mind);
        mind.drive(|controller, now, keys| controller.handle_timeout(now, keys));
    }

    /// Reports the traces of ADUs that ended here to the sources of their streams.
    fn report_stamps(&mut self) {
        for traced in self.forwarder.traces.take() {
            self.mind
                .drive(|controller, now, keys| controller.handle_stamped(traced, now, keys));
        }
    }

    /// Polls state that sends no event: counters, and programs that have gone.
    ///
    /// Runs once per `TICK` and not on each controller timer: hundreds of neighbours cause hundreds
    /// of timers a second, and this reads the counters of every plan.
    fn poll_quiet(&mut self) {
        let mind = &mut self.mind;
        self.forwarder.mailboxes.sweep(mind.now());
        self.programs.close_abandoned(mind);
        self.watches.update(mind);
        self.stalls.update(&self.programs, &self.forwarder, mind);
        self.counts.sweep(mind);
        self.traffic.update(&self.forwarder, mind.now());
    }

    fn handle_timeout(&mut self) {
        let mind = &mut self.mind;
        self.counts.sync_due(mind);
        self.counts.report_held(mind);
        mind.drive(|controller, now, keys| controller.handle_timeout(now, keys));
        self.programs.update_all_losses(mind);
    }

    /// Carries out the controller's outputs until there are none.
    async fn drain(&mut self) {
        loop {
            self.drain_controller().await;
            if !self.programs.apply_plans(&mut self.mind) {
                break;
            }
        }
        self.membership.drain(&mut self.mind);
        if !self.mind.controller().parts().is_passed()
            && let Some(leaving) = self.leaving.take()
        {
            let _ = leaving.send(());
        }
    }

    async fn drain_controller(&mut self) {
        let mut next = self.mind.poll_output();
        while let Some(output) = next.take().or_else(|| self.mind.poll_output()) {
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
                | Output::Acknowledged { .. } => {
                    self.programs.instruct_publisher(output, &mut self.mind);
                }
                Output::BegunAnew { stream, former } => {
                    self.forwarder.restart_arrivals(stream, former);
                }
                Output::GivenUp { stream, below } => {
                    self.forwarder.mailboxes.handle_given_up(stream, below);
                }
                Output::GoesOn { stream } => self.forwarder.resume_arrivals(stream),
                Output::Forgotten { stream } => self.forwarder.forget_arrivals(stream),
                Output::Found { name, .. } => self.programs.open_mailboxes(&name, &self.mind),
                Output::Sequel { name, goes_on } => self.programs.notify_successor(&name, goes_on),
                Output::Notice { name, notice } => self.programs.notify(&name, &notice),
                Output::Closed {
                    stream,
                    name,
                    reading,
                } => {
                    self.programs.close_publisher(stream);
                    self.forwarder.withdraw(stream);
                    log::log_closed(self.mind.controller(), &name, &reading);
                    self.forwarder.ledger.close(stream, reading);
                }
                Output::Trace { stream, marking } => self.forwarder.traces.start(stream, marking),
                Output::Tracing { stream, answer } => self.tracers.notify(stream, answer),
                Output::Traced(traced) => self.tracers.deliver(&traced, &self.mind),
                Output::Note(note) => {
                    if !self.refusals.count_note(&note) {
                        log::log(self.mind.controller(), note);
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
            match self.mind.poll_output() {
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
                warn!(peer = %self.mind.name_of(to), "neighbour does not drain its control buffer; closing the link");
                link.close(CloseCode::Overload, "control buffer not drained");
            }
        }
        next
    }

    fn plan(&mut self, planning: Planning) {
        let start = self.mind.now();
        let mut solved = planning.solve();
        solved.set_elapsed(self.mind.now().saturating_since(start));
        solved.explain();
        self.mind
            .drive(|controller, now, keys| controller.handle_solved(solved, now, keys));
    }

    fn install(&mut self, installation: Installation, secrets: Secrets) {
        let (stream, epoch) = (installation.stream, installation.epoch);
        let installed = self.forwarder.install(installation, secrets);
        let result = installed.map_err(|error| error.to_string());
        // The sink's report on this plan then tells the source what is missing.
        self.counts.report_held(&mut self.mind);
        self.mind.drive(|controller, now, keys| {
            controller.handle_installed(stream, epoch, result, now, keys);
        });
    }
}
