//! A stream on this node: the machine that decides what happens to its ADUs, and what carries that out.
//!
//! *The idea.* [`Relay`] decides, one for each stream, behind one lock. Each input takes the lock, hands
//! the machine what has happened, and turns its actions into *jobs*: an ADU for a link, or for the
//! mailboxes. Links and mailboxes have locks of their own and may take long, so the jobs are done after
//! the lock is released, by the task that brought the input. While it is at it, others only add jobs:
//! so they are done in the order in which the machine asked for them, and a link that reports an
//! outcome at once is not called from within itself.
//!
//! ```text
//!  a link: take ── BodyEnd ── outcome ─┐ lock  ┌───────┐ actions
//!  a producer: give ───────────────────┼──────►│ Relay │────────► jobs ─► links, mailboxes
//!  control: install, cast, recall ─────┘       └───────┘
//! ```
//!
//! A reception is the body of an ADU that arrives. It is passed to a link with this lane as its watcher,
//! or collected by its task (`reception`), which waits while the machine holds it back.
//!
//! *What it does not do.* It decides nothing about an ADU.
//!
//! *Sources.* docs/decisions/0038; spec PA-29, PA-32, PA-33.

mod counts;
mod reception;
#[cfg(test)]
mod tests;
mod traced;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use thalweg_base::adu::{Adu, Flags, Header};
use thalweg_base::event::DropCause;
use thalweg_base::feed::Feed;
use thalweg_base::id::{Epoch, NodeId, StreamId, StreamName};
use thalweg_base::needs::Reliability;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::trace::Trace;
use thalweg_dataplane::lift::Lift;
use thalweg_dataplane::relay::{Action, Dispatch, Ended, Relay, SendNumber};
use thalweg_dataplane::replay::{Budget, Plan};
use thalweg_dataplane::route::{self, Route};
use thalweg_net::link::Body;
use thalweg_net::{Carriage, Lots, OrderedId, Outcome, Payload, SendOptions, StreamCode};
use tokio::sync::oneshot;

use super::StreamCounts;
use super::drops::{DropLog, Place as DropPlace};
use super::mailbox::{Delivered, Delivery};
use super::ways::{Onward, Ways};

pub(super) use reception::Taken;
use traced::TracedAdus;

/// The number of a reception.
type RecvId = u64;

/// Batches of jobs that a task does for others before it leaves the rest to a task of its own.
const BATCHES_MAX: usize = 4;

/// Jobs for which room is kept.
const JOBS_KEPT: usize = 512;

/// One stream on this node.
pub(crate) struct Lane {
    stream: StreamId,
    name: StreamName,
    counts: Arc<StreamCounts>,
    ways: Arc<Ways>,
    state: Mutex<State>,
    /// Itself, for deliveries that outlast a call.
    own: Weak<Self>,
}

struct State {
    relay: Relay<RecvId>,
    next_recv: RecvId,
    /// The tasks of the receptions that are held back.
    held: HashMap<RecvId, oneshot::Sender<()>>,
    traces: TracedAdus,
    /// Plans on broken paths: their ADUs under way are sent again, or no longer needed.
    recalled: Vec<Epoch>,
    jobs: Vec<Job>,
    /// A task does jobs.
    is_carrying: bool,
    /// The control task was woken, and has not read the counts since.
    is_told: bool,
    /// When all counts were last read.
    read_at: Instant,
}

/// What is to be done with an ADU.
enum Job {
    Send(Dispatch, Bytes, Option<Box<Trace>>),
    /// Send it while it arrives.
    Pass(Dispatch, Box<Body>, Option<Box<Trace>>),
    Deliver(Adu, Reliability, Option<Box<Trace>>),
}

/// How an ADU ended that a link had.
pub(super) struct Ending<'a> {
    pub(super) peer: NodeId,
    pub(super) header: &'a Header,
    pub(super) number: SendNumber,
    pub(super) outcome: Outcome,
}

impl Lane {
    /// Returns a stream of which nothing is here yet, on a node with links to these neighbours.
    pub(super) fn new(
        (stream, name): (StreamId, StreamName),
        counts: Arc<StreamCounts>,
        ways: Arc<Ways>,
        budget: Budget,
        neighbours: impl IntoIterator<Item = NodeId>,
    ) -> Arc<Self> {
        let mut relay = Relay::within(budget);
        for peer in neighbours {
            relay.handle_link(peer, true);
        }
        let state = State {
            relay,
            next_recv: 0,
            held: HashMap::new(),
            traces: TracedAdus::default(),
            recalled: Vec::new(),
            jobs: Vec::new(),
            is_carrying: false,
            is_told: false,
            read_at: Instant::ZERO,
        };
        Arc::new_cyclic(|own| Self {
            stream,
            name,
            counts,
            ways,
            state: Mutex::new(state),
            own: Weak::clone(own),
        })
    }

    pub(crate) const fn name(&self) -> &StreamName {
        &self.name
    }

    /// Returns the counters of the stream.
    pub(crate) const fn counts(&self) -> &Arc<StreamCounts> {
        &self.counts
    }

    const fn plan(&self, epoch: Epoch) -> Plan {
        (self.stream, epoch)
    }

    pub(super) fn handle_link(&self, peer: NodeId, is_up: bool) {
        self.drive(|state, _| state.relay.handle_link(peer, is_up));
    }

    /// Installs a part; it replaces the part of the same plan.
    pub(super) fn install(&self, route: Route, lift: Option<Lift>) {
        let epoch = route.installation().epoch;
        self.drive(|state, _| {
            state.recalled.retain(|recalled| *recalled != epoch);
            state.relay.handle_installed(route, lift);
        });
        self.counts.notify_changed();
    }

    pub(super) fn remove(&self, epoch: Epoch) {
        self.drive(|state, _| state.relay.handle_removed(self.plan(epoch)));
        self.counts.notify_changed();
    }

    /// Starts, ends or bounds the copies to a plan that is grafted here. What its sink begins with may
    /// be much, and a task of its own sends it: the control task has other things to do.
    pub(super) fn cast(&self, epoch: Epoch, feed: Feed) {
        let now = self.ways.clock.now();
        let mut state = self.lock();
        state.relay.handle_cast(self.plan(epoch), feed, now);
        self.collect(&mut state, now);
        if let Some(jobs) = self.begin(state) {
            self.carry_apart(jobs);
        }
    }

    /// Gives up what waits under plans on broken paths, now and later, and stops waiting for what is
    /// under way there: it is sent again under other plans.
    pub(crate) fn recall(&self, epochs: impl IntoIterator<Item = Epoch>) {
        self.drive(|state, now| {
            let State {
                relay, recalled, ..
            } = state;
            recalled.retain(|epoch| {
                let plan = self.plan(*epoch);
                relay.part(plan).is_some() || relay.outstanding_of(plan) > 0
            });
            for epoch in epochs {
                let plan = self.plan(epoch);
                if relay.part(plan).is_some() && !recalled.contains(&epoch) {
                    recalled.push(epoch);
                }
                relay.recall(plan, now);
            }
        });
        self.counts.notify_changed();
    }

    /// Sends an ADU of a producer here under the plan in its header; without that plan it is dropped
    /// and counted.
    pub(crate) fn give(&self, adu: Adu, trace: Option<Box<Trace>>) {
        self.drive(|state, now| {
            let Header {
                stream,
                epoch,
                sequence,
                ..
            } = adu.header;
            state.traces.note(sequence, trace);
            state.relay.give(adu, now);
            if state.recalled.contains(&epoch) {
                state.relay.recall((stream, epoch), now);
            }
        });
    }

    /// Handles how ADUs ended that links had.
    pub(super) fn handle_endings<'a>(&self, endings: impl IntoIterator<Item = Ending<'a>>) {
        self.drive(|state, now| {
            for ending in endings {
                let outcome = ending.outcome;
                let ended = outcome.accounted_cause().map_or(Ok(()), Err);
                if state.relay.handle_outcome(ending.number, ended, now) {
                    self.counts.ended(outcome);
                    if let Some(cause) = outcome.drop_cause() {
                        let place = DropPlace::Link(ending.peer);
                        self.note_drop(ending.header, place, cause, now);
                    }
                }
            }
        });
    }

    /// Records a dropped ADU. What had come before is no loss.
    fn note_drop(&self, header: &Header, place: DropPlace, cause: DropCause, now: Instant) {
        if cause != DropCause::Duplicate {
            self.counts.drops().record(header, place, cause, now);
        }
    }

    /// Hands the machine an input, and does what it asks for.
    fn drive<T>(&self, input: impl FnOnce(&mut State, Instant) -> T) -> T {
        let now = self.ways.clock.now();
        let mut state = self.lock();
        let result = input(&mut state, now);
        self.collect(&mut state, now);
        self.carry_out(state);
        result
    }

    /// Turns the machine's actions into jobs, those of an input that came at `began`.
    fn collect(&self, state: &mut State, began: Instant) {
        while let Some(action) = state.relay.poll_action() {
            match action {
                Action::Send(dispatch, payload) => {
                    self.counts.handed_on();
                    let trace = self.trace(state, &dispatch.header, began);
                    state.jobs.push(Job::Send(dispatch, payload, trace));
                }
                Action::Deliver(adu, reliability) => {
                    let trace = self.trace(state, &adu.header, began);
                    state.jobs.push(Job::Deliver(adu, reliability, trace));
                }
                Action::Drop(header, cause, _) => {
                    self.counts.dropped(cause);
                    self.note_drop(&header, DropPlace::Node, cause, began);
                }
                Action::Resume(recv) => {
                    if let Some(task) = state.held.remove(&recv) {
                        // The task is gone if its link is.
                        let _ = task.send(());
                    }
                }
                // `take` has read the answers to the start of an ADU. A passed body is read by the link
                // that it was passed to, which also gives it up; and what a link has of a recalled plan
                // stays there until its deadline or the link's end.
                Action::Gather(_)
                | Action::Pass(..)
                | Action::Hold(_)
                | Action::Refuse(..)
                | Action::Chunk(..)
                | Action::Cancel(..)
                | Action::Replay(_) => {}
            }
        }
    }

    /// Returns the trace of an ADU that leaves the machine now, if it has one.
    fn trace(&self, state: &State, header: &Header, began: Instant) -> Option<Box<Trace>> {
        let mut trace = state.traces.of(header.sequence)?;
        let part = state.relay.part((header.stream, header.epoch));
        if part.is_some_and(|part| part.route().chain() == route::Chain::Lift) {
            trace.add_lift(self.ways.clock.now().saturating_since(began));
        }
        Some(trace)
    }

    /// Releases the lock and does the jobs, unless another task is at it.
    fn carry_out(&self, state: MutexGuard<'_, State>) {
        let Some(mut jobs) = self.begin(state) else {
            return;
        };
        for _ in 0..BATCHES_MAX {
            match self.carry_batch(jobs) {
                Some(next) => jobs = next,
                None => return,
            }
        }
        // Others add jobs faster than this task does them, and it has other things to do.
        self.carry_apart(jobs);
    }

    /// Releases the lock; returns the jobs if there are some and no other task is at it.
    fn begin(&self, mut state: MutexGuard<'_, State>) -> Option<Vec<Job>> {
        if state.relay.is_urgent() && !state.is_told {
            state.is_told = true;
            self.ways.urgent.notify_one();
        }
        if state.is_carrying || state.jobs.is_empty() {
            return None;
        }
        state.is_carrying = true;
        Some(std::mem::take(&mut state.jobs))
    }

    /// Does these jobs in a task of their own, and those that come meanwhile.
    fn carry_apart(&self, mut jobs: Vec<Job>) {
        let lane = self.own.upgrade().expect("whoever calls this holds it");
        tokio::spawn(async move {
            while let Some(next) = lane.carry_batch(jobs) {
                jobs = next;
                tokio::task::yield_now().await;
            }
        });
    }

    /// Does these jobs; returns those that came meanwhile, if any did.
    fn carry_batch(&self, mut jobs: Vec<Job>) -> Option<Vec<Job>> {
        let carrying = Carrying(self);
        let mut lots = Lots::default();
        for job in jobs.drain(..) {
            self.carry(job, &mut lots);
        }
        lots.hand_over();
        std::mem::forget(carrying);
        let mut state = self.lock();
        if !state.jobs.is_empty() {
            std::mem::swap(&mut state.jobs, &mut jobs);
            return Some(jobs);
        }
        state.is_carrying = false;
        if jobs.capacity() <= JOBS_KEPT {
            state.jobs = jobs;
        }
        None
    }

    fn carry(&self, job: Job, lots: &mut Lots) {
        match job {
            Job::Send(dispatch, payload, trace) => {
                self.send(&dispatch, Payload::Whole(payload), trace, lots);
            }
            Job::Pass(dispatch, body, trace) => {
                self.send(&dispatch, Payload::Arriving(*body), trace, lots);
            }
            Job::Deliver(adu, reliability, trace) => self.deliver(&adu, reliability, trace),
        }
    }

    /// Hands an ADU to the link to the next node, or adds it to the lots.
    fn send(
        &self,
        dispatch: &Dispatch,
        payload: Payload,
        trace: Option<Box<Trace>>,
        lots: &mut Lots,
    ) {
        let Some(Onward { link, exposure }) = self.ways.onward(dispatch.to) else {
            if let Payload::Arriving(body) = payload {
                body.refuse(StreamCode::of_drop(DropCause::PathLost));
            }
            return self.handle_endings([Ending {
                peer: dispatch.to,
                header: &dispatch.header,
                number: dispatch.number,
                outcome: Outcome::LinkLost,
            }]);
        };
        let header = dispatch.header;
        exposure.sent(header.flags.contains(Flags::SEALED));
        let carriage = match dispatch.carriage {
            route::Carriage::Ordered => Carriage::Ordered(OrderedId {
                stream: header.stream,
                epoch: header.epoch,
            }),
            route::Carriage::Datagram => Carriage::Datagram,
            route::Carriage::Stream => Carriage::Stream,
        };
        let options = SendOptions {
            order: dispatch.order,
            weight: dispatch.weight,
            ..SendOptions::new(carriage)
        };
        // Somebody waits for the outcome: the next ADU of an ordered sequence, or a producer here.
        let is_awaited =
            dispatch.carriage == route::Carriage::Ordered || self.counts.is_published();
        let sending = link.send_adu(header, payload, options).traced(trace);
        let sending = if is_awaited {
            sending
        } else {
            sending.patient()
        };
        sending.detach_with(dispatch.number.as_u64(), lots);
    }

    /// Puts an ADU into the mailboxes of its stream, without waiting for any of them.
    fn deliver(&self, adu: &Adu, reliability: Reliability, trace: Option<Box<Trace>>) {
        let now = self.ways.clock.now();
        let own = self.own.upgrade().expect("whoever calls this holds it");
        let delivery = Delivery::new(adu.header, own);
        let mailboxes = self.ways.mailboxes();
        let is_queued = mailboxes.is_some_and(|all| all.post(adu, &delivery, reliability, now));
        if let Some(mut trace) = trace.filter(|_| is_queued) {
            trace.queue(now, Duration::ZERO);
            let traced = trace.finish(&adu.header, now);
            self.ways.traces.finish(traced, now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic below is a bug of the machine's; its state is whole after each of its steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Delivered for Lane {
    fn handle_delivered(&self, header: &Header, ended: Ended) {
        match ended {
            Ok(()) => self.counts.delivered(),
            Err(cause) => self.counts.dropped(cause),
        }
        self.drive(|state, now| state.relay.handle_delivered(header, ended, now));
    }

    fn drops(&self) -> &Arc<DropLog> {
        self.counts.drops()
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

/// Lets others do the jobs if the task that does them panics.
struct Carrying<'a>(&'a Lane);

impl Drop for Carrying<'_> {
    fn drop(&mut self) {
        self.0.lock().is_carrying = false;
    }
}
