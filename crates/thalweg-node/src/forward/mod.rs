//! The data path of a node: from a link, through the plan's chain of modules, to the next link or
//! to mailboxes.
//!
//! *The idea.* An ADU's header names its stream and plan; that pair selects a [`Route`], which
//! decides what happens to the ADU ([`thalweg_dataplane::route`]). This module carries the decision out
//! with links and mailboxes. An ADU that passes unchanged is forwarded while it still arrives
//! (cut-through), without a copy; only an ADU that a module or a branch needs whole is gathered
//! first. Each ADU that is dropped is counted with its cause.
//!
//! *What it does not do.* It builds no routes (`control` does) and knows no sockets (`thalweg-net`
//! does).
//!
//! *Sources.* design.md, "Data path"; spec PA-29, PA-32, PA-33.

mod account;
mod arrivals;
mod cast;
mod kept;
mod lag;
mod ledger;
mod mailbox;
mod queue;
mod route;
mod trace;

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};

use thalweg_base::adu::{Adu, Flags, Header, Mark};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::time::Duration;
use thalweg_base::trace::Trace;
use thalweg_dataplane::packet::{Packet, Pool};
use thalweg_dataplane::route::{self as plan, Refusal, Way};
use thalweg_net::{
    Arriving, Carriage, Clock, Link, OrderedId, Outcome, Payload, SendOptions, StreamCode,
};
use tokio::sync::watch;

pub(crate) use account::{Account, Offered};
use arrivals::Arrivals;
use cast::{Branches, CastTable};
use kept::ReplayCache;
use lag::LagMeter;
pub(crate) use lag::measure as measure_lag;
pub use ledger::{Exposure, StreamReading};
pub(crate) use ledger::{ExposureCounts, Ledger, StreamCounts};
pub(crate) use mailbox::{Delivery, Inbox, Mail, Mailbox, Mailboxes, Reading as MailboxReading};
use queue::Queues;
pub(crate) use route::Route;
pub(crate) use trace::Traces;

/// A map that is looked up for each ADU.
type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

type Table<K, V> = RwLock<Map<K, V>>;

/// Routes, links and mailboxes of a node, shared by every task that carries ADUs.
pub(crate) struct Forwarder {
    pub(crate) clock: Clock,
    pub(crate) pool: Pool,
    pub(crate) ledger: Ledger,
    pub(crate) mailboxes: Mailboxes,
    pub(crate) arrivals: Arrivals,
    pub(crate) traces: Traces,
    routes: Table<(StreamId, Epoch), Arc<Route>>,
    links: Table<NodeId, Link>,
    casts: CastTable,
    kept: ReplayCache,
    queues: Queues,
    lag_meter: LagMeter,
    /// Counts changes of `routes` and `links`.
    path_changes: watch::Sender<u64>,
}

impl Forwarder {
    pub(crate) fn new(clock: Clock, pool: Pool) -> Self {
        Self {
            clock,
            pool,
            ledger: Ledger::default(),
            mailboxes: Mailboxes::default(),
            arrivals: Arrivals::default(),
            traces: Traces::default(),
            routes: Table::default(),
            links: Table::default(),
            casts: CastTable::default(),
            kept: ReplayCache::default(),
            queues: Queues::default(),
            lag_meter: LagMeter::default(),
            path_changes: watch::Sender::default(),
        }
    }

    /// Installs a route; it replaces the plan's previous route.
    pub(crate) fn install(&self, route: Arc<Route>) {
        self.replace_route(&route);
        let part = route.installation();
        let plan = (part.stream, part.epoch);
        write(&self.routes).insert(plan, route);
        self.notify_paths_changed();
    }

    pub(crate) fn remove(&self, stream: StreamId, epoch: Epoch) {
        write(&self.routes).remove(&(stream, epoch));
        self.casts.stop((stream, epoch));
        self.kept.forget((stream, epoch));
        self.queues.forget((stream, epoch));
        self.ledger.forget_account(stream, epoch);
        self.notify_paths_changed();
    }

    /// Returns how long the last batch of received ADUs took to hand on.
    pub(crate) fn lag(&self) -> Duration {
        self.lag_meter.last()
    }

    pub(crate) fn route(&self, stream: StreamId, epoch: Epoch) -> Option<Arc<Route>> {
        read(&self.routes).get(&(stream, epoch)).map(Arc::clone)
    }

    pub(crate) fn routes(&self) -> Vec<Arc<Route>> {
        let mut routes: Vec<_> = read(&self.routes).values().map(Arc::clone).collect();
        routes.sort_by_key(|route| (route.installation().stream, route.installation().epoch));
        routes
    }

    pub(crate) fn link_up(&self, link: Link) {
        write(&self.links).insert(link.peer(), link);
        self.notify_paths_changed();
    }

    pub(crate) fn link_down(&self, peer: NodeId) {
        write(&self.links).remove(&peer);
        self.notify_paths_changed();
    }

    /// Returns a watch that changes with each change of a route or a link.
    pub(crate) fn watch_paths(&self) -> watch::Receiver<u64> {
        self.path_changes.subscribe()
    }

    fn notify_paths_changed(&self) {
        self.path_changes.send_modify(|changes| *changes += 1);
    }

    pub(crate) fn link(&self, peer: NodeId) -> Option<Link> {
        read(&self.links).get(&peer).cloned()
    }

    pub(crate) fn links(&self) -> Vec<Link> {
        let mut links: Vec<_> = read(&self.links).values().cloned().collect();
        links.sort_by_key(Link::peer);
        links
    }

    /// Handles an ADU that arrives over a link.
    pub(crate) async fn handle_adu(self: &Arc<Self>, from: &Link, adu: Arriving) {
        let mut taking = pin!(self.take(from, adu));
        let mut is_first = true;
        // Only the first poll is this node's own work; later polls wait for the network.
        poll_fn(|context| {
            let taken = taking.as_mut().poll(context);
            if std::mem::take(&mut is_first) {
                self.lag_meter.measure();
            }
            taken
        })
        .await;
    }

    async fn take(self: &Arc<Self>, from: &Link, mut adu: Arriving) {
        let (header, trace) = (adu.header, adu.trace.take());
        let Some(route) = self.route(header.stream, header.epoch) else {
            self.ledger.count_unknown();
            return adu.body.refuse(StreamCode::UnknownStream);
        };
        let plan = (header.stream, header.epoch);
        let branches = self.casts.of(plan);
        let copies = branches.having(header.sequence).count();
        let way = match route.part.admit_copied(from.peer(), &header, copies > 0) {
            Ok(way) => way,
            Err(Refusal::Stranger) => {
                self.ledger.count_unknown();
                return adu.body.refuse(StreamCode::Protocol);
            }
            Err(Refusal::Dropped(cause)) => {
                route.counts.received();
                route.refused(&header, cause);
                return adu.body.refuse(StreamCode::of_drop(cause));
            }
        };
        route.counts.received();
        let sends = usize::from(route.installation().next.is_some()) + copies;
        if !self.lag_meter.admits(&header, sends, self.clock.now()) {
            route.refused(&header, DropCause::Expired);
            return adu.body.refuse(StreamCode::of_drop(DropCause::Expired));
        }
        // A plan with a queue keeps using it, so that no ADU overtakes the queued ones.
        if route.part.is_repaired() && (copies > 0 || self.queues.has(plan)) {
            return self.fan_out(route, branches, adu, trace).await;
        }
        let is_kept = self.may_keep(&route, &header);
        // Keeping an ADU for late joiners is no reason to delay one that passes cut-through. One
        // that is here whole, or goes no further, is kept directly.
        let is_here = adu.body.is_whole() || route.installation().next.is_none();
        if way == Way::Through && !(is_kept && is_here) {
            return self.pass_through(&route, adu, trace, is_kept).await;
        }
        match adu.collect().await {
            Ok(payload) => {
                let adu = Adu { header, payload };
                let branches = self.keep(&adu, is_kept, branches);
                self.carry_all(&route, &branches, adu, trace).await;
            }
            // The node that gave the rest up accounts for the ADU; the same holds in `deliver`.
            Err(error) => route.counts.dropped(error.drop_cause()),
        }
    }

    /// Forwards an ADU while it arrives; if it is to be kept, gathers a second copy of it.
    async fn pass_through(
        &self,
        route: &Route,
        mut adu: Arriving,
        trace: Option<Box<Trace>>,
        is_kept: bool,
    ) {
        let header = adu.header;
        let twin = is_kept.then(|| adu.body.twin());
        self.send_on(route, header, Payload::Arriving(adu.body), trace.clone())
            .await;
        let Some(twin) = twin else {
            return;
        };
        if let Some(payload) = twin.whole().await {
            let adu = Adu { header, payload };
            // Plans may have been cast since this ADU began to arrive.
            let branches = self.keep(&adu, true, Branches::default());
            self.carry_copies(&branches, &adu, trace.as_deref()).await;
        }
    }

    /// Carries a whole ADU along its route: one of a local producer, or a copy.
    pub(crate) async fn carry(&self, route: &Route, adu: Adu, trace: Option<Box<Trace>>) {
        route.account.arrived(&adu.header);
        if route.installation().base.is_some() {
            route.account.copied(&adu.header);
        }
        match route.part.way(&adu.header) {
            Ok(Way::Through) => {
                self.send_on(route, adu.header, Payload::Whole(adu.payload), trace)
                    .await;
            }
            Ok(Way::Gather) => self.carry_whole(route, adu, trace).await,
            Err(cause) => route.dropped(&adu.header, cause),
        }
    }

    async fn carry_whole(&self, route: &Route, adu: Adu, mut trace: Option<Box<Trace>>) {
        let start = self.clock.now();
        let packets = route.carry(Packet::from(adu), start);
        if let Some(trace) = &mut trace {
            trace.add_lift(self.clock.now().saturating_since(start));
        }
        let mut left = packets.len();
        for packet in packets {
            left -= 1;
            // If a module makes several packets of one, the last carries the trace.
            let trace = if left == 0 { trace.take() } else { None };
            let header = packet.header;
            self.send_on(route, header, Payload::Whole(packet.into_bytes()), trace)
                .await;
        }
    }

    /// Sends an ADU that has been through the chain to the next node, or delivers it here.
    async fn send_on(
        &self,
        route: &Route,
        mut header: Header,
        mut payload: Payload,
        trace: Option<Box<Trace>>,
    ) {
        let Some(next) = route.installation().next else {
            return self.deliver(route, header, payload, trace).await;
        };
        let Some(link) = self.link(next) else {
            return match payload {
                Payload::Whole(_) => route.dropped(&header, DropCause::PathLost),
                Payload::Arriving(_) => route.refused(&header, DropCause::PathLost),
            };
        };
        if let Some(exposure) = &route.exposure {
            exposure.sent(header.flags.contains(Flags::SEALED));
        }
        let (came, carriage) = (header.mark(), carriage(route, &header, payload.bytes()));
        let is_acknowledged = carriage != Carriage::Datagram;
        route.account.set_hop_mark(&mut header, is_acknowledged);
        route.counts.handed_on();
        route.account.sent(came, &header, &mut payload);
        let options = SendOptions {
            order: route.part.order(),
            weight: route.part.weight(),
            ..SendOptions::new(carriage)
        };
        let sending = link.send_adu(header, payload, options).traced(trace);
        // An ordered sequence gains nothing from a second ADU before the first has gone, so it
        // waits here. Other sends wait for room in tasks of their own; the publisher's window
        // bounds them here, and the outbox limit on relays.
        if route.part.is_ordered() {
            let outcome = tokio::select! {
                biased;
                () = route.recalled() => Outcome::Cancelled,
                outcome = sending => outcome,
            };
            route.account.ended(&header, outcome);
            route.counts.ended(outcome);
        } else if route.counts.is_published() {
            sending.detach(0);
        } else {
            sending.patient().detach(0);
        }
    }

    async fn deliver(
        &self,
        route: &Route,
        header: Header,
        payload: Payload,
        trace: Option<Box<Trace>>,
    ) {
        let payload = match payload {
            Payload::Whole(payload) => Ok(payload),
            Payload::Arriving(body) => body
                .collect()
                .await
                .inspect(|_| route.account.arrived(&header)),
        };
        match payload {
            Ok(payload) => self.post(route, Adu { header, payload }, trace),
            Err(error) => route.counts.dropped(error.drop_cause()),
        }
    }

    /// Puts an ADU into the mailboxes of its stream, without waiting for any of them.
    fn post(&self, route: &Route, mut adu: Adu, trace: Option<Box<Trace>>) {
        // The mark belongs to the hop; subscribers do not see it.
        adu.header.set_mark(Mark::NONE);
        let header = adu.header;
        let arrived = route.arrived.as_ref();
        let inserted = arrived.map(|arrived| arrived.insert(&header, adu.payload.len()));
        if let Some(Err(cause)) = inserted {
            return route.dropped(&header, cause);
        }
        let now = self.clock.now();
        let delivery = Delivery::new(route, header);
        let reliability = route.installation().reliability;
        let is_queued = self.mailboxes.post(&adu, &delivery, reliability, now);
        if let Some(mut trace) = trace.filter(|_| is_queued) {
            trace.queue(now, Duration::ZERO);
            self.traces.finish(trace.finish(&header, now), now);
        }
    }

    /// Ends the ordered sequences of a stream that start here, and waits until the next nodes have
    /// them whole.
    pub(crate) async fn flush(&self, stream: StreamId) {
        let ordered = |route: &Arc<Route>| {
            let is_of_stream = route.installation().stream == stream;
            is_of_stream && route.part.is_ordered() && !route.is_recalled()
        };
        for route in self.routes().into_iter().filter(ordered) {
            self.queues.wait_empty(queue::plan(&route)).await;
            let link = route.installation().next.and_then(|next| self.link(next));
            if let Some(link) = link {
                link.finish_ordered(sequence(&route)).await;
            }
        }
    }

    /// Makes the next link of a plan report the outcomes that it knows by now.
    pub(crate) fn catch_up(&self, stream: StreamId, epoch: Epoch) {
        let route = self.route(stream, epoch);
        let next = route.and_then(|route| route.installation().next);
        if let Some(link) = next.and_then(|next| self.link(next)) {
            link.catch_up();
        }
    }

    /// Handles the outcome of an ADU that was sent without waiting.
    pub(crate) fn handle_outcome(&self, header: &Header, outcome: Outcome) {
        if let Some(counts) = self.ledger.find(header.stream) {
            counts.ended(outcome);
        }
        if let Some(account) = self.ledger.find_account(header.stream, header.epoch) {
            account.ended(header, outcome);
        }
    }
}

/// Returns how an ADU travels over the next hop, in the link's terms.
fn carriage(route: &Route, header: &Header, payload_bytes: usize) -> Carriage {
    match route.part.carriage(header, payload_bytes) {
        plan::Carriage::Ordered => Carriage::Ordered(sequence(route)),
        plan::Carriage::Datagram => Carriage::Datagram,
        plan::Carriage::Stream => Carriage::Stream,
    }
}

/// Returns the id of a route's ordered sequence.
fn sequence(route: &Route) -> OrderedId {
    let part = route.installation();
    OrderedId {
        stream: part.stream,
        epoch: part.epoch,
    }
}

/// No code that can panic runs under these locks, so the value behind a poisoned lock is intact.
fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
