//! A stream at its source: keeps ADUs until the sinks have them, and resends them when a path
//! breaks.
//!
//! *The idea.* The publisher publishes ADUs; the control task hands in acknowledgements and orders
//! to resend. Both send ADUs, so they take turns:
//!
//! ```text
//! publisher ── publish ────────────┐        ┌─► keep ─► the plan's route
//!                                  ├─ turn ─┤
//! control ── resend: an order ─► task       └── orders first: kept ADUs of broken plans, by sequence
//! ```
//!
//! Whichever task gets the turn first carries out the orders; the plans in force change together
//! with the orders. So no new ADU overtakes resent ones, and none is sent under a plan after that
//! plan's kept ADUs were taken.
//!
//! *What it does not do.* It does not recall ADUs from the outbox of a silent link: they stay there
//! until their deadline or the end of the link, but are not waited for. ADUs that wait for their
//! turn in an ordered sequence are given up.
//!
//! *Sources.* docs/concepts/continuity.md §2 and §4; `thalweg_control::session::Keep`, the store.

mod hold;
mod opening;

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::adu::{Adu, Flags, Header, Mark};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId, StreamName};
use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::time::Duration;
use thalweg_base::trace::Trace;
use thalweg_control::session::{Awaited, Hold, Keep, Sinkward};
use thalweg_dataplane::mailbox::Held;
use thalweg_dataplane::replay::Opening;
use tokio::sync::{Mutex as TurnMutex, Notify};
use tracing::debug;

use crate::forward::{Account, Forwarder, Route, StreamCounts};
use hold::Holding;

/// One stream at its source.
pub(crate) struct Outlet {
    stream: StreamId,
    forwarder: Arc<Forwarder>,
    counts: Arc<StreamCounts>,
    /// Whether published ADUs are kept for sinks that join late.
    is_shared: bool,
    /// Whether the sinks have missing ADUs repaired, so that each plan runs at its own pace.
    is_repaired: bool,
    /// How long the stream waits for a stalled subscriber; `None` if it never waits.
    wait_max: Option<Duration>,
    /// Counts ADUs published under no plan.
    unplanned: Arc<Account>,
    /// The store of a held stream; it then replaces `state.keep` and the orders.
    holding: Option<Holding>,
    state: Mutex<State>,
    /// Notified when the opening was replayed to a sink, or is over.
    opening_changed: Notify,
    /// One above the highest sequence that was published. It is raised before the ADU's plans are
    /// read.
    next: AtomicU64,
    /// Held while ADUs are sent.
    turn: TurnMutex<()>,
    /// Notified by each receipt of a sink.
    acknowledged: Notify,
}

struct State {
    keep: Keep,
    opening: Opening,
    /// Whether an ADU has been published.
    has_started: bool,
    awaited: Awaited,
    orders: VecDeque<Order>,
    plans: Vec<Plan>,
    /// The plans that carried the end of the stream to sinks.
    ended: Vec<Epoch>,
}

impl State {
    fn new(needs: &Needs) -> Self {
        Self {
            keep: Keep::new(needs),
            opening: Opening::default(),
            has_started: false,
            awaited: Awaited::default(),
            orders: VecDeque::new(),
            plans: Vec::new(),
            ended: Vec::new(),
        }
    }
}

/// A plan under which ADUs are sent.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) epoch: Epoch,
    /// The plans that bring these ADUs to sinks: the plan itself, and those grafted on it.
    pub(crate) serves: Vec<Served>,
}

/// A plan in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) epoch: Epoch,
    /// The number of layers that it carries to its sink.
    pub(crate) layers: u8,
}

/// An order to send kept ADUs before any new one.
#[derive(Debug)]
pub(crate) enum Order {
    /// Resend what is kept of broken plans of a sink.
    Resend {
        /// The sink.
        sink: NodeId,
        /// The broken plans.
        from: Vec<Epoch>,
        /// The sink's plan in force.
        to: Epoch,
        /// The plan to send under: `to`, or the plan on which it is grafted.
        under: Epoch,
    },
    /// Send the stream's opening, or its ADUs since the newest key ADU, to a sink that starts with
    /// this plan.
    Replay {
        /// The sink.
        sink: NodeId,
        /// The plan.
        to: Epoch,
        /// Whether the sink has waited for the stream, so that it starts with the opening.
        has_waited: bool,
    },
}

impl Order {
    /// Returns the sink and its broken plans.
    fn into_broken(self) -> Option<(NodeId, Vec<Epoch>)> {
        match self {
            Self::Resend { sink, from, .. } => Some((sink, from)),
            Self::Replay { .. } => None,
        }
    }

    /// Returns the broken plans.
    fn broken(&self) -> &[Epoch] {
        match self {
            Self::Resend { from, .. } => from,
            Self::Replay { .. } => &[],
        }
    }
}

/// What the turn's holder does next.
enum Step {
    /// Send these ADUs first. For a resend, with the sink: the ADUs count as resent for its broken
    /// plans.
    SendFirst(Plan, Vec<Adu>, Option<NodeId>),
    /// No order is left; these plans are in force.
    SendNew(Vec<Plan>),
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
        counts.mark_published();
        Self {
            stream,
            counts,
            unplanned: forwarder.ledger.account(stream, Epoch(0)),
            forwarder,
            is_shared: !needs.reliability.is_ordered() && holding.is_none(),
            is_repaired: needs.reliability == Reliability::Repaired,
            wait_max: needs.waits(),
            holding,
            state: Mutex::new(State::new(needs)),
            opening_changed: Notify::new(),
            next: AtomicU64::new(0),
            turn: TurnMutex::new(()),
            acknowledged: Notify::new(),
        }
    }

    /// Waits until the producer may publish another ADU with at most `window` under way, if it can
    /// wait.
    pub(crate) async fn wait_window(&self, window: u64) {
        if let Some(holding) = &self.holding {
            // The store's task paces the sending; the producer only waits for room in the store.
            holding.wait_room().await;
        } else {
            self.counts.settled(window).await;
            self.wait_keep_room().await;
        }
        self.wait_mailboxes().await;
    }

    /// Waits while a subscriber on this node blocks the stream.
    async fn wait_mailboxes(&self) {
        let mailboxes = &self.forwarder.mailboxes;
        if let Some(wait) = self.wait_max
            && mailboxes.is_blocked(self.stream)
        {
            let clock = &self.forwarder.clock;
            mailboxes.unblocked(self.stream, clock, wait).await;
        }
    }

    /// Waits while the store is full, if the stream must not lose kept ADUs.
    async fn wait_keep_room(&self) {
        loop {
            let acknowledged = self.acknowledged.notified();
            tokio::pin!(acknowledged);
            // Register before the check, so that a notification in between is not missed.
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

    /// Returns the plans of the sinks that stall the stream, and the bytes kept for them; `None` if
    /// it is not stalled.
    pub(crate) fn stalled_by(&self) -> Option<(Vec<Epoch>, u64)> {
        let state = self.lock();
        let keep = &state.keep;
        keep.is_pressed()
            .then(|| (keep.hindered_by().to_vec(), keep.size().1))
    }

    /// Returns the plans that carried the end of the stream to sinks, including sinks that have
    /// left since.
    pub(crate) fn ended(&self) -> Vec<Epoch> {
        self.lock().ended.clone()
    }

    /// Returns the counters of the stream.
    pub(crate) fn counts(&self) -> &StreamCounts {
        &self.counts
    }

    /// Sends an ADU under every plan in force. Without one, it is dropped and counted, unless the
    /// stream is held.
    pub(crate) async fn publish(self: &Arc<Self>, adu: Adu) {
        if let Some(holding) = &self.holding {
            return self.hold(holding, adu);
        }
        self.next.fetch_max(adu.header.sequence.0 + 1, Relaxed);
        let _turn = self.turn.lock().await;
        let plans = self.carry_out_orders().await;
        // Only after the orders: a sink that starts by one of them gets this ADU as a live one.
        if self.is_shared {
            self.forwarder.keep_published(&adu);
        }
        self.handle_published(&adu, !plans.is_empty());
        let trace = self.trace(&adu);
        self.wait_queue_room(&plans, &adu).await;
        for plan in &plans {
            self.carry(plan, adu.clone(), trace.clone()).await;
        }
    }

    /// Returns a sequence bound: ADUs at or above it are sent under the plans that were set before
    /// this call, or later ones.
    pub(crate) fn next_sequence(&self) -> Sequence {
        // A sender that read the old plans had raised `next` first, and the lock has made that
        // visible here.
        Sequence(self.next.load(Relaxed))
    }

    /// Waits until an ADU finds room under one of the plans, if each runs at its own pace.
    async fn wait_queue_room(&self, plans: &[Plan], adu: &Adu) {
        if self.is_repaired {
            let routes = plans.iter().map(|plan| plan.epoch);
            let routes = routes.filter_map(|epoch| self.forwarder.route(self.stream, epoch));
            let routes: Vec<Arc<Route>> = routes.collect();
            let length = adu.payload.len();
            self.forwarder.wait_room(&routes, &adu.header, length).await;
        }
    }

    /// Handles changed plans or sinks, and orders to send kept ADUs before any new one.
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

    /// Handles a sink's receipt for its plans. Returns how many ADUs it lacks of those sent under
    /// `in_order`, and the sequence below which its missing ADUs will never be sent.
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
                    account.count_receipt(band);
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

    /// Counts an ADU as resent for the sink's broken plans under which it was sent before.
    fn count_resend(&self, sink: NodeId, header: &Header) {
        let awaited = &mut self.lock().awaited;
        awaited.handle_again(sink, header, |epoch, band| {
            if let Some(account) = self.forwarder.ledger.find_account(self.stream, epoch) {
                account.count_resent(band);
            }
        });
    }

    /// Notes that an ADU was sent to the plan's sink and waits for its receipt.
    fn await_receipt(&self, epoch: Epoch, header: &Header) {
        self.lock().awaited.handle_given(epoch, header);
    }

    /// Notes broken plans, and forgets plans that are over.
    fn note_broken(&self, orders: &[Order]) {
        let awaited = &mut self.lock().awaited;
        awaited.retain(|epoch| self.forwarder.route(self.stream, epoch).is_some());
        for order in orders {
            if let Order::Resend { sink, from, .. } = order {
                awaited.handle_broken(*sink, from);
            }
        }
    }

    /// Carries out all orders, and returns the plans that are in force then.
    async fn carry_out_orders(&self) -> Vec<Plan> {
        loop {
            match self.next_step() {
                Step::SendNew(plans) => return plans,
                Step::SendFirst(plan, adus, sink) => {
                    let (epoch, count) = (plan.epoch.0, adus.len());
                    debug!(stream = %self.stream, plan = epoch, adus = count, "sending kept ADUs");
                    for adu in adus {
                        if let Some(sink) = sink {
                            self.count_resend(sink, &adu.header);
                        }
                        // The trace of the first attempt does not apply to a resend.
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
            return Step::SendNew(state.plans.clone());
        };
        let (to, under, sink) = match order {
            Order::Resend {
                to, under, sink, ..
            } => (to, under, Some(sink)),
            Order::Replay { to, .. } => (to, to, None),
        };
        let mut served = state.plans.iter().flat_map(|plan| &plan.serves);
        let known = served.find(|served| served.epoch == to).copied();
        // If the plan was replaced meanwhile, a later order covers its successor.
        let served = known.unwrap_or(Served {
            epoch: to,
            layers: u8::MAX,
        });
        // The order is for one sink; other sinks served by the plan get orders of their own.
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
                self.opening_changed.notify_waiters();
                self.forwarder.opening_and_group(opening, self.stream)
            }
        };
        Step::SendFirst(plan, adus, sink)
    }

    /// Sends an ADU under a plan, and keeps it if it goes to another node and the plan's sinks use
    /// its layer.
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

    /// Returns the trace of an ADU, if it is to be traced.
    fn trace(&self, adu: &Adu) -> Option<Box<Trace>> {
        let now = self.forwarder.clock.now();
        let trace = self.forwarder.traces.mark(self.stream, now);
        trace.filter(|_| !adu.header.flags.contains(Flags::END))
    }

    /// Waits until no receipt worth waiting for is outstanding, no sink has made progress for
    /// `patience`, or no end is in sight. A held stream waits for at most `patience`.
    pub(crate) async fn settled(&self, patience: Duration) {
        let clock = &self.forwarder.clock;
        let then = clock.now();
        if let Some(holding) = &self.holding {
            tokio::select! {
                () = self.drained(holding) => {}
                () = clock.sleep_until(then + patience) => {}
            }
            return;
        }
        self.lock().keep.handle_ended(then);
        loop {
            let acknowledged = self.acknowledged.notified();
            tokio::pin!(acknowledged);
            // Register before the check, so that a notification in between is not missed.
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

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
