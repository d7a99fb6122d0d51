//! A stream at its source: keeps ADUs until the sinks have them, and resends them when a path
//! breaks.
//!
//! *The idea.* The publisher publishes ADUs; the control task hands in acknowledgements and orders
//! to resend. Both send ADUs, so they take turns:
//!
//! ```text
//! publisher ── publish ────────────┐        ┌─► keep ─► the stream's lane
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
//! *Sources.* docs/concepts/continuity.md §2 and §4; `thalweg_dataplane::source`, which decides.

mod hold;
mod opening;

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::adu::{Adu, Flags, Header};
use thalweg_base::count::Band;
use thalweg_base::feed::Sinkward;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId, StreamName};
use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::time::Duration;
use thalweg_base::trace::Trace;
use thalweg_dataplane::mailbox::Held;
use thalweg_dataplane::replay::Opening;
use thalweg_dataplane::source::{Plan, Source};
use tokio::sync::{Mutex as TurnMutex, Notify};
use tracing::debug;

use crate::forward::{Forwarder, Lane, StreamCounts};

/// One stream at its source.
pub(crate) struct Outlet {
    stream: StreamId,
    forwarder: Arc<Forwarder>,
    lane: Arc<Lane>,
    /// Whether published ADUs are kept for sinks that join late.
    is_shared: bool,
    /// Whether the sinks have missing ADUs repaired, so that each plan runs at its own pace.
    is_repaired: bool,
    /// Whether each ADU is sent when the one before it has gone.
    is_ordered: bool,
    /// How long the stream waits for a stalled subscriber; `None` if it never waits.
    wait_max: Option<Duration>,
    /// Of a held stream, wakes the task that sends it.
    due: Option<Arc<Notify>>,
    state: Mutex<State>,
    /// Notified when the opening was replayed to a sink, or is over.
    opening_changed: Notify,
    /// One above the highest sequence that was published. It is raised before the ADU's plans are
    /// read.
    next: AtomicU64,
    /// Held while ADUs are sent.
    turn: TurnMutex<()>,
    /// Notified by each receipt of a sink, and when a held ADU has left: there may be room, or nothing
    /// is left.
    progress: Notify,
}

struct State {
    source: Source,
    opening: Opening,
    /// Whether an ADU has been published.
    has_started: bool,
    orders: VecDeque<Order>,
    /// The plans that carried the end of the stream to sinks.
    ended: Vec<Epoch>,
}

impl State {
    fn new(needs: &Needs) -> Self {
        Self {
            source: Source::new(needs),
            opening: Opening::default(),
            has_started: false,
            orders: VecDeque::new(),
            ended: Vec::new(),
        }
    }
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
        let state = State::new(needs);
        let lane = forwarder.lane_of(stream, name);
        lane.counts().mark_published();
        Self {
            stream,
            lane,
            forwarder,
            is_shared: state.source.is_shared(),
            is_repaired: needs.reliability == Reliability::Repaired,
            is_ordered: needs.reliability.is_ordered(),
            wait_max: needs.waits(),
            due: state.source.is_held().then(Arc::default),
            state: Mutex::new(state),
            opening_changed: Notify::new(),
            next: AtomicU64::new(0),
            turn: TurnMutex::new(()),
            progress: Notify::new(),
        }
    }

    /// Waits until the producer may publish another ADU with at most `window` under way, if it can
    /// wait.
    pub(crate) async fn wait_window(&self, window: u64) {
        // The task of a held stream paces the sending; its producer only waits for room in the store.
        if self.due.is_none() {
            self.lane.settled(window).await;
        }
        self.wait_store_room().await;
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

    /// Waits while the store is full, if the stream must not lose what is in it.
    async fn wait_store_room(&self) {
        loop {
            let progress = self.progress.notified();
            tokio::pin!(progress);
            // Register before the check, so that a notification in between is not missed.
            progress.as_mut().enable();
            let clock = &self.forwarder.clock;
            let due = {
                let source = &mut self.lock().source;
                if !source.is_pressed(clock.now()) {
                    return;
                }
                source.poll_timeout()
            };
            tokio::select! {
                () = progress => {}
                () = clock.sleep_until(due) => {}
            }
        }
    }

    /// Returns the plans of the sinks that stall the stream, and the bytes kept for them; `None` if
    /// it is not stalled.
    pub(crate) fn stalled_by(&self) -> Option<(Vec<Epoch>, u64)> {
        let state = self.lock();
        let stalled = state.source.stalled_by();
        stalled.map(|(plans, bytes)| (plans.to_vec(), bytes))
    }

    /// Returns the plans that carried the end of the stream to sinks, including sinks that have
    /// left since.
    pub(crate) fn ended(&self) -> Vec<Epoch> {
        self.lock().ended.clone()
    }

    /// Returns the counters of the stream.
    pub(crate) fn counts(&self) -> &StreamCounts {
        self.lane.counts()
    }

    /// Returns the stream on this node.
    pub(crate) const fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// Sends an ADU under every plan in force. Without one, it is dropped and counted, unless the
    /// stream is held.
    pub(crate) async fn publish(self: &Arc<Self>, adu: Adu) {
        if let Some(due) = &self.due {
            return self.hold(due, adu);
        }
        self.next.fetch_max(adu.header.sequence.0 + 1, Relaxed);
        let _turn = self.turn.lock().await;
        let plans = self.carry_out_orders().await;
        // Only after the orders: a sink that starts by one of them gets this ADU as a live one.
        if self.is_shared {
            self.lane.keep_given(&adu);
        }
        self.handle_published(&adu, !plans.is_empty());
        let trace = self.trace(&adu);
        self.wait_queue_room(&plans, &adu).await;
        for plan in &plans {
            self.carry(plan, adu.clone(), trace.clone());
        }
        let epochs: Vec<Epoch> = plans.iter().map(|plan| plan.epoch).collect();
        self.wait_turn(&epochs).await;
    }

    /// Waits until what was sent under these plans has gone, where an ADU is sent only then: an ordered
    /// sequence gains nothing from a second one before, and its producer waits. Sinks that repair what
    /// they miss have a queue for each plan instead.
    async fn wait_turn(&self, epochs: &[Epoch]) {
        if self.is_ordered && !self.is_repaired {
            self.lane.wait_turn(epochs).await;
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
            let epochs: Vec<Epoch> = plans.iter().map(|plan| plan.epoch).collect();
            let length = adu.payload.len();
            self.lane.wait_room(&epochs, &adu.header, length).await;
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
        self.lane.recall(broken.copied());
        self.note_broken(&orders);
        if let Some(due) = &self.due {
            return self.handle_sinks(due, sinks);
        }
        let is_ordered = !orders.is_empty();
        let mut state = self.lock();
        state.orders.extend(orders);
        if let Some(plans) = plans {
            state.source.handle_plans(plans);
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
        let mut all: Vec<(Epoch, Band)> = Vec::new();
        let had = |epoch, band| all.push((epoch, band));
        let source = &mut self.lock().source;
        let lacking = source.handle_receipt((sink, epochs), in_order, held, now, had);
        self.lane.count_receipts(&all);
        if let Some(due) = &self.due {
            // The end of the stream waits until everything else is delivered.
            due.notify_one();
        }
        self.progress.notify_waiters();
        (lacking.missing, lacking.given_up)
    }

    /// Counts an ADU as resent for the sink's broken plans under which it was sent before.
    fn count_resend(&self, sink: NodeId, header: &Header) {
        let mut resent: Vec<(Epoch, Band)> = Vec::new();
        let note = |epoch, band| resent.push((epoch, band));
        self.lock().source.handle_again(sink, header, note);
        self.lane.count_resent(&resent);
    }

    /// Notes broken plans, and forgets plans that are over.
    fn note_broken(&self, orders: &[Order]) {
        let source = &mut self.lock().source;
        source.forget_over(|epoch| self.lane.has(epoch));
        for order in orders {
            if let Order::Resend { sink, from, .. } = order {
                source.handle_broken(*sink, from);
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
                        self.carry(&plan, adu, None);
                        self.wait_turn(&[plan.epoch]).await;
                    }
                }
            }
        }
    }

    fn next_step(&self) -> Step {
        let now = self.forwarder.clock.now();
        let mut state = self.lock();
        let Some(order) = state.orders.pop_front() else {
            return Step::SendNew(state.source.plans().to_vec());
        };
        let (to, under, sink) = match order {
            Order::Resend {
                to, under, sink, ..
            } => (to, under, Some(sink)),
            Order::Replay { to, .. } => (to, to, None),
        };
        let served = state.source.served(to);
        // The order is for one sink; other sinks served by the plan get orders of their own.
        let plan = Plan {
            epoch: under,
            serves: vec![served],
        };
        let adus = match &order {
            Order::Resend { from, .. } => state.source.resend(from, now),
            Order::Replay {
                sink, has_waited, ..
            } => {
                let opening = if *has_waited {
                    state.opening.replay(*sink, now)
                } else {
                    Vec::new()
                };
                self.opening_changed.notify_waiters();
                self.opening_and_group(opening)
            }
        };
        Step::SendFirst(plan, adus, sink)
    }

    /// Sends an ADU under a plan, and keeps it if it goes to another node and the plan's sinks use
    /// its layer.
    fn carry(&self, plan: &Plan, mut adu: Adu, trace: Option<Box<Trace>>) {
        adu.header.epoch = plan.epoch;
        let is_end = adu.header.flags.contains(Flags::END);
        let now = self.forwarder.clock.now();
        let mut state = self.lock();
        self.lane.with_part(plan.epoch, |part| {
            let Some(part) = part else {
                return;
            };
            if is_end {
                let ended = plan.serves.iter().map(|served| served.epoch);
                state.ended.extend(ended);
            }
            state.source.handle_sent(&adu, &plan.serves, part, now);
        });
        drop(state);
        self.lane.give(adu, trace);
    }

    /// Returns the trace of an ADU, if it is to be traced.
    fn trace(&self, adu: &Adu) -> Option<Box<Trace>> {
        let now = self.forwarder.clock.now();
        let trace = self.forwarder.traces.mark(self.stream, now);
        trace.filter(|_| !adu.header.flags.contains(Flags::END))
    }

    /// Waits until no receipt worth waiting for is outstanding, no sink has made progress for as long
    /// as the stream's needs allow, or no end is in sight.
    pub(crate) async fn settled(&self) {
        let clock = &self.forwarder.clock;
        let then = clock.now();
        let patience = {
            let source = &mut self.lock().source;
            source.handle_ended(then);
            source.drain_time()
        };
        loop {
            let progress = self.progress.notified();
            tokio::pin!(progress);
            // Register before the check, so that a notification in between is not missed.
            progress.as_mut().enable();
            let settled = self.lock().source.poll_acknowledged(then, patience);
            if settled <= clock.now() {
                return self.count_dropped();
            }
            tokio::select! {
                () = progress => {}
                () = clock.sleep_until(settled) => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
