//! The data path of a node: from a link, through the chain of the ADU's plan, to the next link or a mailbox.
//!
//! *The idea.* An ADU names its stream and its plan, and that pair names a [`Route`], which decides
//! ([`thalweg_lift::route`]); here it is done, with links and mailboxes. What passes while it still arrives is not
//! copied, what must be whole is gathered first. Every ADU that goes no further is counted with its cause.
//!
//! *What it does not do.* It makes no routes (`control` does) and knows no socket (`thalweg-net` does).
//!
//! *Sources.* design.md, "Data path"; spec PA-29, PA-32, PA-33.

mod account;
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

use thalweg_core::adu::{Adu, Flags, Header, Mark};
use thalweg_core::event::DropCause;
use thalweg_core::id::{Epoch, NodeId, StreamId};
use thalweg_core::time::Duration;
use thalweg_core::trace::Trace;
use thalweg_lift::packet::{Packet, Pool};
use thalweg_lift::route::{self as plan, Refusal, Way};
use thalweg_net::{
    Arriving, Carriage, Clock, Link, OrderedId, Outcome, Payload, SendOptions, StreamCode,
};

use tokio::sync::watch;

use crate::continuity::Arrivals;

pub(crate) use account::{Account, Passed};
use cast::{Branches, Casts};
use kept::Kept;
use lag::Lagging;
pub(crate) use lag::measure as measure_lag;
pub use ledger::{Exposure, StreamReading};
pub(crate) use ledger::{ExposureCounts, Ledger, StreamCounts};
pub(crate) use mailbox::{Delivery, Inbox, Mail, Mailbox, Mailboxes, Reading as MailboxReading};
use queue::Queues;
pub(crate) use route::Route;
pub(crate) use trace::Traces;

/// What is looked up for each ADU.
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
    casts: Casts,
    kept: Kept,
    queues: Queues,
    lagging: Lagging,
    /// Counts changes of the two.
    ways: watch::Sender<u64>,
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
            casts: Casts::default(),
            kept: Kept::default(),
            queues: Queues::default(),
            lagging: Lagging::default(),
            ways: watch::Sender::default(),
        }
    }

    /// Installs a route in the place of the one before.
    pub(crate) fn install(&self, route: Arc<Route>) {
        self.recast(&route);
        let part = route.installation();
        let plan = (part.stream, part.epoch);
        write(&self.routes).insert(plan, route);
        self.ways_changed();
    }

    pub(crate) fn remove(&self, stream: StreamId, epoch: Epoch) {
        write(&self.routes).remove(&(stream, epoch));
        self.casts.cease(stream, epoch);
        self.kept.forget((stream, epoch));
        self.queues.forget((stream, epoch));
        self.ledger.forget_account(stream, epoch);
        self.ways_changed();
    }

    /// Returns how long it took to hand on what was last taken in one go.
    pub(crate) fn lag(&self) -> Duration {
        self.lagging.last()
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
        self.ways_changed();
    }

    pub(crate) fn link_down(&self, peer: NodeId) {
        write(&self.links).remove(&peer);
        self.ways_changed();
    }

    /// Returns a watch that changes when a route or a link does.
    pub(crate) fn ways(&self) -> watch::Receiver<u64> {
        self.ways.subscribe()
    }

    fn ways_changed(&self) {
        self.ways.send_modify(|changes| *changes += 1);
    }

    pub(crate) fn link(&self, peer: NodeId) -> Option<Link> {
        read(&self.links).get(&peer).cloned()
    }

    pub(crate) fn links(&self) -> Vec<Link> {
        let mut links: Vec<_> = read(&self.links).values().cloned().collect();
        links.sort_by_key(Link::peer);
        links
    }

    /// Takes an ADU from a link.
    pub(crate) async fn handle_adu(self: &Arc<Self>, from: &Link, adu: Arriving) {
        let mut taking = pin!(self.take(from, adu));
        let mut is_first = true;
        // What is waited for after the first turn is not this node's work.
        poll_fn(|context| {
            let taken = taking.as_mut().poll(context);
            if std::mem::take(&mut is_first) {
                self.lagging.measure();
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
        let begun = self.casts.of(header.stream, header.epoch);
        let way = match route.part.admit(from.peer(), &header) {
            // What the base leaves out here a branch may want.
            Ok(_) | Err(Refusal::Dropped(DropCause::Filtered)) if !begun.is_empty() => Way::Gather,
            Ok(way) => way,
            Err(Refusal::Stranger) => {
                self.ledger.count_unknown();
                return adu.body.refuse(StreamCode::Protocol);
            }
            Err(Refusal::Dropped(cause)) => {
                route.counts.received();
                route.refused(&header, cause);
                return adu.body.refuse(code(cause));
            }
        };
        route.counts.received();
        let copies = usize::from(route.installation().next.is_some()) + begun.len();
        if !self.lagging.admits(&header, copies, self.clock.now()) {
            route.refused(&header, DropCause::Expired);
            return adu.body.refuse(code(DropCause::Expired));
        }
        // One that had a queue keeps it, so that nothing overtakes what is in there.
        if route.part.is_repaired()
            && (!begun.is_empty() || self.queues.has((header.stream, header.epoch)))
        {
            return self.spread(route, begun, adu, trace).await;
        }
        let is_kept = self.may_keep(&route, &header);
        // Who may come later is no reason to hold up what passes while it arrives; what need not wait is taken as it is.
        let is_here = adu.body.is_whole() || route.installation().next.is_none();
        if way == Way::Through && !(is_kept && is_here) {
            return self.pass(&route, adu, trace, is_kept).await;
        }
        match adu.collect().await {
            Ok(payload) => {
                let adu = Adu { header, payload };
                let branches = self.keep(&adu, is_kept, &begun);
                self.carry_all(&route, &branches, adu, trace).await;
            }
            // Whoever gave it up accounts for it; so in `deliver`.
            Err(error) => route.counts.dropped(error.drop_cause()),
        }
    }

    /// Sends an ADU on while it arrives; one that is to be kept is gathered beside.
    async fn pass(
        &self,
        route: &Route,
        mut adu: Arriving,
        trace: Option<Box<Trace>>,
        is_kept: bool,
    ) {
        let header = adu.header;
        let twin = is_kept.then(|| adu.body.twin());
        self.onward(route, header, Payload::Arriving(adu.body), trace.clone())
            .await;
        let Some(twin) = twin else {
            return;
        };
        if let Some(payload) = twin.whole().await {
            let adu = Adu { header, payload };
            // A plan that is cast since this began to come.
            let branches = self.keep(&adu, true, &Branches::default());
            self.carry_copies(&branches, &adu, trace.as_deref()).await;
        }
    }

    /// Takes an ADU that is here whole through its route: a local producer's, or a copy.
    pub(crate) async fn carry(&self, route: &Route, adu: Adu, trace: Option<Box<Trace>>) {
        route.account.arrived(&adu.header);
        if route.installation().base.is_some() {
            route.account.copied(&adu.header);
        }
        match route.part.way(&adu.header) {
            Ok(Way::Through) => {
                self.onward(route, adu.header, Payload::Whole(adu.payload), trace)
                    .await;
            }
            Ok(Way::Gather) => self.carry_whole(route, adu, trace).await,
            Err(cause) => route.dropped(&adu.header, cause),
        }
    }

    async fn carry_whole(&self, route: &Route, adu: Adu, mut trace: Option<Box<Trace>>) {
        let begun = self.clock.now();
        let packets = route.carry(Packet::from(adu), begun);
        if let Some(trace) = &mut trace {
            trace.add_lift(self.clock.now().saturating_since(begun));
        }
        let mut left = packets.len();
        for packet in packets {
            left -= 1;
            // What a module makes of several bears the stamps of the newest.
            let trace = if left == 0 { trace.take() } else { None };
            let header = packet.header;
            self.onward(route, header, Payload::Whole(packet.into_bytes()), trace)
                .await;
        }
    }

    /// Gives an ADU that has been through the chain to the next node or to the subscribers here.
    async fn onward(
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
        route.account.paint(&mut header, is_acknowledged);
        route.counts.handed_on();
        route.account.sent(came, &header, &mut payload);
        let options = SendOptions {
            order: route.part.order(),
            weight: route.part.weight(),
            ..SendOptions::new(carriage)
        };
        let sending = link.send_adu(header, payload, options).traced(trace);
        // An ordered sequence has nothing to gain from a second ADU before the first has gone. Others wait for room on
        // their own: they are bounded by the publisher's window here, and by what may wait on a link.
        if route.part.is_ordered() {
            let outcome = tokio::select! {
                biased;
                () = route.recalled() => Outcome::Cancelled,
                outcome = sending => outcome,
            };
            route.account.ended(&header, outcome);
            route.counts.ended(outcome);
        } else if route.counts.is_given() {
            sending.detach();
        } else {
            sending.patient().detach();
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

    /// Puts an ADU into the mailboxes of its stream, which waits for none of them.
    fn post(&self, route: &Route, mut adu: Adu, trace: Option<Box<Trace>>) {
        // It is of the hop, and nothing to subscribers.
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
        let is_in = self.mailboxes.post(&adu, &delivery, reliability, now);
        if let Some(mut trace) = trace.filter(|_| is_in) {
            trace.queue(now, Duration::ZERO);
            self.traces.finish(trace.finish(&header, now), now);
        }
    }

    /// Ends the ordered sequences of a stream that begin here, and waits until the next nodes have all of them.
    pub(crate) async fn flush(&self, stream: StreamId) {
        let ordered = |route: &Arc<Route>| {
            let is_of_stream = route.installation().stream == stream;
            is_of_stream && route.part.is_ordered() && !route.is_recalled()
        };
        for route in self.routes().into_iter().filter(ordered) {
            self.queues.emptied(queue::plan(&route)).await;
            let link = route.installation().next.and_then(|next| self.link(next));
            if let Some(link) = link {
                link.finish_ordered(sequence(&route)).await;
            }
        }
    }

    /// Has the link on which a plan goes on tell what became of its ADUs, as far as that is known.
    pub(crate) fn catch_up(&self, stream: StreamId, epoch: Epoch) {
        let route = self.route(stream, epoch);
        let next = route.and_then(|route| route.installation().next);
        if let Some(link) = next.and_then(|next| self.link(next)) {
            link.catch_up();
        }
    }

    /// Takes what became of an ADU that was sent without waiting.
    pub(crate) fn handle_outcome(&self, header: &Header, outcome: Outcome) {
        if let Some(counts) = self.ledger.find(header.stream) {
            counts.ended(outcome);
        }
        if let Some(account) = self.ledger.find_account(header.stream, header.epoch) {
            account.ended(header, outcome);
        }
    }
}

/// Returns how an ADU travels over the next hop, in the words of the link.
fn carriage(route: &Route, header: &Header, payload_bytes: usize) -> Carriage {
    match route.part.carriage(header, payload_bytes) {
        plan::Carriage::Ordered => Carriage::Ordered(sequence(route)),
        plan::Carriage::Datagram => Carriage::Datagram,
        plan::Carriage::Stream => Carriage::Stream,
    }
}

/// Returns the name of a route's ordered sequence.
fn sequence(route: &Route) -> OrderedId {
    let part = route.installation();
    OrderedId {
        stream: part.stream,
        epoch: part.epoch,
    }
}

/// Returns what a neighbour is told of an ADU that goes no further: that it did no wrong, or that it did.
fn code(cause: DropCause) -> StreamCode {
    match cause {
        DropCause::Filtered | DropCause::Expired => StreamCode::Whole,
        _ => StreamCode::Protocol,
    }
}

/// No code that can panic runs under these locks, so what a poisoned one guards is still whole.
fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
