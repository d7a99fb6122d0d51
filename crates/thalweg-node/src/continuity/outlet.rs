//! Where a stream leaves its producer: what is kept of it until its sinks have it, and sent again when a way breaks.
//!
//! *The idea.* The publisher gives ADUs, the control task says what is acknowledged and what is to be sent again. Both put
//! ADUs on their way, so they take turns:
//!
//! ```text
//! publisher ── give ───────────────┐        ┌─► keep ─► the plan's route
//!                                  ├─ turn ─┤
//! control ── resend: an order ─► task       └── orders first: what is kept of broken plans, by sequence
//! ```
//!
//! Whoever has the turn first carries out what is ordered; which plans are in force changes with the orders, at one moment. So
//! nothing new overtakes what is sent again, and nothing is given under a plan after what was kept of it has been taken.
//!
//! *What it does not do.* What lies in the outbox of a link that fell silent stays there until its deadline, or until the link
//! ends; it is only not waited for. What waits for its turn in an ordered sequence is given up.
//!
//! *Sources.* docs/continuity.md §2 and §4; `thalweg_core::session::Keep`, which is what is kept.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_core::adu::{Adu, Flags, Header, Mark};
use thalweg_core::event::DropCause;
use thalweg_core::id::{Epoch, NodeId, Sequence, StreamId, StreamName};
use thalweg_core::mailbox::Held;
use thalweg_core::needs::{Needs, Reliability};
use thalweg_core::replay::Opening;
use thalweg_core::session::{Awaited, Hold, Keep, Sinkward};
use thalweg_core::time::Duration;
use thalweg_core::trace::Trace;
use tokio::sync::{Mutex as TurnMutex, Notify};
use tracing::debug;

use super::hold::Holding;
use crate::forward::{Account, Forwarder, Route, StreamCounts};

/// One stream at its source.
pub(crate) struct Outlet {
    pub(super) stream: StreamId,
    pub(super) forwarder: Arc<Forwarder>,
    counts: Arc<StreamCounts>,
    /// Whether what is given is kept for who joins late.
    is_shared: bool,
    /// Whether its sinks have repaired what they miss, so that each plan goes at its own pace.
    is_repaired: bool,
    /// How long it waits for a subscriber that takes nothing, if it does.
    wait: Option<Duration>,
    /// Where is counted what is given under no plan.
    pub(super) unplanned: Arc<Account>,
    /// What is held, if the stream is; then nothing else here has anything to do.
    pub(super) holding: Option<Holding>,
    state: Mutex<State>,
    /// Told when the opening was given to a sink, or is over.
    pub(super) opened: Notify,
    /// The sequence after that of the last ADU that began to be given, before it was looked under which plans.
    next: AtomicU64,
    /// Held while ADUs are put on their way.
    turn: TurnMutex<()>,
    /// Told when sinks have said what they have.
    acknowledged: Notify,
}

pub(super) struct State {
    keep: Keep,
    pub(super) opening: Opening,
    /// An ADU has been given.
    pub(super) has_opened: bool,
    awaited: Awaited,
    orders: VecDeque<Order>,
    plans: Vec<Plan>,
    /// The plans that brought the end of the stream to sinks.
    ended: Vec<Epoch>,
}

impl State {
    fn new(needs: &Needs) -> Self {
        Self {
            keep: Keep::new(needs),
            opening: Opening::default(),
            has_opened: false,
            awaited: Awaited::default(),
            orders: VecDeque::new(),
            plans: Vec::new(),
            ended: Vec::new(),
        }
    }
}

/// A plan under which ADUs are given.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) epoch: Epoch,
    /// The plans that bring them to sinks: itself, and those that are grafted on it.
    pub(crate) serves: Vec<Served>,
}

/// A plan in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) epoch: Epoch,
    /// How many layers it carries to its sink.
    pub(crate) layers: u8,
}

/// What is to be given before anything new.
#[derive(Debug)]
pub(crate) enum Order {
    /// What is kept of plans whose ways are broken, again, for the sink of another.
    Resend {
        /// Their sink.
        sink: NodeId,
        /// Those plans.
        from: Vec<Epoch>,
        /// That of the sink.
        to: Epoch,
        /// Under which plan it is to be given.
        under: Epoch,
    },
    /// The opening of the stream, or what came since the newest key ADU, for a sink that begins with this
    /// plan.
    Replay {
        /// The sink.
        sink: NodeId,
        /// The plan.
        to: Epoch,
        /// Whether the sink has waited for the stream.
        has_waited: bool,
    },
}

impl Order {
    /// Returns for whom the ways of which plans are broken.
    fn into_broken(self) -> Option<(NodeId, Vec<Epoch>)> {
        match self {
            Self::Resend { sink, from, .. } => Some((sink, from)),
            Self::Replay { .. } => None,
        }
    }

    /// Returns the plans whose ways are broken.
    fn broken(&self) -> &[Epoch] {
        match self {
            Self::Resend { from, .. } => from,
            Self::Replay { .. } => &[],
        }
    }
}

/// What is to be done next.
enum Step {
    /// These go first; for this sink they go again, if they went by plans of its whose ways are broken.
    GiveFirst(Plan, Vec<Adu>, Option<NodeId>),
    /// Nothing is ordered; these plans are in force.
    Give(Vec<Plan>),
}

impl Outlet {
    pub(crate) fn new(
        stream: StreamId,
        name: &StreamName,
        forwarder: Arc<Forwarder>,
        needs: &Needs,
    ) -> Self {
        let holding = Hold::new(needs).map(Holding::new);
        let counts = forwarder.ledger.row(stream, name);
        counts.give();
        Self {
            stream,
            counts,
            unplanned: forwarder.ledger.account(stream, Epoch(0)),
            forwarder,
            is_shared: !needs.reliability.is_ordered() && holding.is_none(),
            is_repaired: needs.reliability == Reliability::Repaired,
            wait: needs.waits(),
            holding,
            state: Mutex::new(State::new(needs)),
            opened: Notify::new(),
            next: AtomicU64::new(0),
            turn: TurnMutex::new(()),
            acknowledged: Notify::new(),
        }
    }

    /// Waits until its producer may give another ADU, with so many under way, if it can wait.
    pub(crate) async fn room(&self, window: u64) {
        if let Some(holding) = &self.holding {
            // What is held is the store's to send; only that must not overflow while it is being emptied.
            holding.eased().await;
        } else {
            self.counts.settled(window).await;
            self.keep_eased().await;
        }
        self.mailboxes_eased().await;
    }

    /// Waits while a subscriber on this node has more than it takes.
    pub(super) async fn mailboxes_eased(&self) {
        let mailboxes = &self.forwarder.mailboxes;
        if let Some(wait) = self.wait
            && mailboxes.is_pressed(self.stream)
        {
            let clock = &self.forwarder.clock;
            mailboxes.eased(self.stream, clock, wait).await;
        }
    }

    /// Waits while all is kept that may be, of a stream of which nothing is given up for want of room.
    async fn keep_eased(&self) {
        loop {
            let acknowledged = self.acknowledged.notified();
            tokio::pin!(acknowledged);
            // Listening before looking: what is said between the two is not missed.
            acknowledged.as_mut().enable();
            let clock = &self.forwarder.clock;
            let due = {
                let mut state = self.lock();
                if !state.keep.is_pressed() {
                    return;
                }
                state.keep.expire(clock.now());
                state.keep.poll_timeout()
            };
            tokio::select! {
                () = acknowledged => {}
                () = clock.sleep_until(due) => {}
            }
        }
    }

    /// Returns the plans whose sinks hold the stream up, and how much is kept for them, if it is held up.
    pub(crate) fn hindered_by(&self) -> Option<(Vec<Epoch>, u64)> {
        let state = self.lock();
        let keep = &state.keep;
        keep.is_pressed()
            .then(|| (keep.hindered_by().to_vec(), keep.size().1))
    }

    /// Returns the plans that brought the end of the stream to sinks; they may have left since.
    pub(crate) fn ended(&self) -> Vec<Epoch> {
        self.lock().ended.clone()
    }

    /// Returns the counters of the stream.
    pub(crate) fn counts(&self) -> &StreamCounts {
        &self.counts
    }

    /// Sends an ADU under every plan in force; without one it is dropped, and counted, unless the stream is held.
    pub(crate) async fn give(self: &Arc<Self>, adu: Adu) {
        if let Some(holding) = &self.holding {
            return self.hold(holding, adu);
        }
        self.next.fetch_max(adu.header.sequence.0 + 1, Relaxed);
        let _turn = self.turn.lock().await;
        let plans = self.carry_out_orders().await;
        // Not before: who begins by one of these orders is given this one with the rest.
        if self.is_shared {
            self.forwarder.keep_given(&adu);
        }
        self.open(&adu, !plans.is_empty());
        let trace = self.trace(&adu);
        self.until_room(&plans, &adu).await;
        for plan in &plans {
            self.carry(plan, adu.clone(), trace.clone()).await;
        }
    }

    /// Returns a sequence that nothing has that is given under other plans than those that were told before this was asked.
    pub(crate) fn next(&self) -> Sequence {
        // Whoever looked at the plans before they changed had counted itself, and the lock has brought that here.
        Sequence(self.next.load(Relaxed))
    }

    /// Waits until an ADU finds room under one of the plans, where each goes at its own pace.
    async fn until_room(&self, plans: &[Plan], adu: &Adu) {
        if self.is_repaired {
            let routes = plans.iter().map(|plan| plan.epoch);
            let routes = routes.filter_map(|epoch| self.forwarder.route(self.stream, epoch));
            let routes: Vec<Arc<Route>> = routes.collect();
            let length = adu.payload.len();
            self.forwarder
                .until_room(&routes, &adu.header, length)
                .await;
        }
    }

    /// Takes in which plans are in force, if that has changed, and what is to be sent again before anything new.
    pub(crate) fn handle_plans(
        self: &Arc<Self>,
        plans: Option<Vec<Plan>>,
        sinks: Option<&[Sinkward]>,
        orders: Vec<Order>,
    ) {
        let broken = orders.iter().flat_map(Order::broken);
        for route in broken.filter_map(|epoch| self.forwarder.route(self.stream, *epoch)) {
            route.recall();
            self.counts.strand(&route.account);
        }
        self.note_broken(&orders);
        if let Some(holding) = &self.holding {
            let broken = orders.into_iter().filter_map(Order::into_broken);
            let broken: Vec<_> = broken.collect();
            return self.handle_sinks(holding, &broken, sinks);
        }
        let is_ordered = !orders.is_empty();
        let mut state = self.lock();
        state.orders.extend(orders);
        if let Some(plans) = plans {
            state.plans = plans;
        }
        drop(state);
        if is_ordered {
            let outlet = Arc::clone(self);
            tokio::spawn(async move {
                let _turn = outlet.turn.lock().await;
                outlet.carry_out_orders().await;
            });
        }
    }

    /// Takes in what a sink has, for which these plans are; returns how many it lacks of what went by the one that keeps
    /// their order, and below which sequence nothing more comes of what it lacks.
    pub(crate) fn acknowledge(
        &self,
        (sink, epochs): (NodeId, &[Epoch]),
        in_order: Option<Epoch>,
        held: &Held,
    ) -> (u64, Option<Sequence>) {
        let now = self.forwarder.clock.now();
        self.lock()
            .awaited
            .handle_receipt(epochs, held, |epoch, band| {
                if let Some(account) = self.forwarder.ledger.find_account(self.stream, epoch) {
                    account.had(band);
                }
            });
        if let Some(holding) = &self.holding {
            return (
                Self::handle_receipt(holding, sink, in_order, held, now),
                None,
            );
        }
        let mut state = self.lock();
        state.keep.handle_receipt(epochs, held);
        if state.keep.handle_word(sink, held, now) {
            state.keep.take_up(epochs);
        }
        let missing = in_order.map_or(0, |plan| state.keep.missing(plan, held, now));
        let given_up = state.keep.given_up_below(epochs, held);
        drop(state);
        self.acknowledged.notify_waiters();
        (missing, given_up)
    }

    /// Counts an ADU that is given for a sink by the plans whose ways are broken and by which it went before.
    pub(super) fn count_again(&self, sink: NodeId, header: &Header) {
        let awaited = &mut self.lock().awaited;
        awaited.handle_again(sink, header, |epoch, band| {
            if let Some(account) = self.forwarder.ledger.find_account(self.stream, epoch) {
                account.resent(band);
            }
        });
    }

    /// Notes that an ADU goes by a plan to its sink.
    pub(super) fn await_word(&self, epoch: Epoch, header: &Header) {
        self.lock().awaited.handle_given(epoch, header);
    }

    /// Notes whose ways are broken, and forgets which plans are over.
    fn note_broken(&self, orders: &[Order]) {
        let awaited = &mut self.lock().awaited;
        awaited.retain(|epoch| self.forwarder.route(self.stream, epoch).is_some());
        for order in orders {
            if let Order::Resend { sink, from, .. } = order {
                awaited.handle_broken(*sink, from);
            }
        }
    }

    /// Sends again what is ordered, and returns which plans are in force then.
    async fn carry_out_orders(&self) -> Vec<Plan> {
        loop {
            match self.next_step() {
                Step::Give(plans) => return plans,
                Step::GiveFirst(plan, adus, sink) => {
                    let (epoch, count) = (plan.epoch.0, adus.len());
                    debug!(stream = %self.stream, plan = epoch, adus = count, "sending what is kept");
                    for adu in adus {
                        if let Some(sink) = sink {
                            self.count_again(sink, &adu.header);
                        }
                        // What it cost the first time is on no clock any more.
                        self.carry(&plan, adu, None).await;
                    }
                }
            }
        }
    }

    fn next_step(&self) -> Step {
        let now = self.forwarder.clock.now();
        let mut state = self.lock();
        let Some(order) = state.orders.pop_front() else {
            return Step::Give(state.plans.clone());
        };
        let (to, under, sink) = match order {
            Order::Resend {
                to, under, sink, ..
            } => (to, under, Some(sink)),
            Order::Replay { to, .. } => (to, to, None),
        };
        let mut served = state.plans.iter().flat_map(|plan| &plan.serves);
        let known = served.find(|served| served.epoch == to).copied();
        // One that has been replaced meanwhile has an order after it.
        let served = known.unwrap_or(Served {
            epoch: to,
            layers: u8::MAX,
        });
        // Others that the plan brings ADUs to have said what they lack on their own.
        let plan = Plan {
            epoch: under,
            serves: vec![served],
        };
        let adus = match &order {
            Order::Resend { from, .. } => state.keep.take(from, now),
            Order::Replay {
                sink, has_waited, ..
            } => {
                let opening = if *has_waited {
                    state.opening.replay(*sink, now)
                } else {
                    Vec::new()
                };
                self.opened.notify_waiters();
                self.forwarder.given_after(opening, self.stream)
            }
        };
        Step::GiveFirst(plan, adus, sink)
    }

    /// Sends an ADU under a plan, and keeps it if it goes to another node and matters there.
    async fn carry(&self, plan: &Plan, mut adu: Adu, trace: Option<Box<Trace>>) {
        let Some(route) = self.forwarder.route(self.stream, plan.epoch) else {
            self.counts.dropped(DropCause::PathLost);
            return self.unplanned.refused(&adu.header, DropCause::PathLost);
        };
        adu.header.epoch = plan.epoch;
        let (part, now) = (route.installation(), self.forwarder.clock.now());
        adu.header.set_mark(match part.reliability {
            Reliability::None => Mark::at(now),
            Reliability::UntilDeadline | Reliability::Repaired | Reliability::Full => Mark::NONE,
        });
        if adu.header.flags.contains(Flags::END) {
            let ended = plan.serves.iter().map(|served| served.epoch);
            self.lock().ended.extend(ended);
        }
        if part.next.is_some() {
            let reach = |served: &&Served| adu.header.layer < served.layers;
            let reached = plan.serves.iter().filter(reach);
            let plans: Vec<Epoch> = reached.map(|served| served.epoch).collect();
            let mut state = self.lock();
            if plans.contains(&plan.epoch) {
                state.awaited.handle_given(plan.epoch, &adu.header);
            }
            state.keep.handle_given(&adu, &plans, part.reliability, now);
        }
        if self.is_repaired {
            return self.forwarder.enqueue(&route, adu, trace);
        }
        self.forwarder.carry(&route, adu, trace).await;
    }

    /// Returns the trace of an ADU, if somebody wants to know what hops cost it.
    pub(super) fn trace(&self, adu: &Adu) -> Option<Box<Trace>> {
        let now = self.forwarder.clock.now();
        let trace = self.forwarder.traces.mark(self.stream, now);
        trace.filter(|_| !adu.header.flags.contains(Flags::END))
    }

    /// Waits until nothing of use waits for its sinks' word, none of them has had anything new for so long, or their end is not in
    /// sight. What is held waits so long, whatever they say.
    pub(crate) async fn settled(&self, patience: Duration) {
        let clock = &self.forwarder.clock;
        let then = clock.now();
        if let Some(holding) = &self.holding {
            tokio::select! {
                () = self.released(holding) => {}
                () = clock.sleep_until(then + patience) => {}
            }
            return;
        }
        self.lock().keep.handle_ended(then);
        loop {
            let acknowledged = self.acknowledged.notified();
            tokio::pin!(acknowledged);
            // Listening before looking: what is said between the two is not missed.
            acknowledged.as_mut().enable();
            let settled = self.lock().keep.poll_acknowledged(patience);
            if settled <= clock.now() {
                return;
            }
            tokio::select! {
                () = acknowledged => {}
                () = clock.sleep_until(settled) => {}
            }
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
