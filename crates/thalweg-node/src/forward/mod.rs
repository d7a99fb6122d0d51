//! The data path of a node: from a link, through the chain of the ADU's plan, to the next link or a mailbox.
//!
//! *The idea.* An ADU names its stream and its plan, and that pair names a [`Route`]: the chain to apply and where to
//! go. Nothing is decided here that the plan has not decided. A chain that reads only headers lets the payload pass
//! while it still arrives (cut-through, not copied); a chain that changes payloads gathers it first. Every ADU that
//! goes no further is counted with its cause.
//!
//! *What it does not do.* It makes no routes (`control` does) and knows no socket (`thalweg-net` does).
//!
//! *Sources.* design.md, "Data path"; spec PA-29, PA-32, PA-33.

mod ledger;
mod mailbox;
mod route;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use thalweg_core::adu::{Adu, Flags, Header};
use thalweg_core::event::DropCause;
use thalweg_core::id::{Epoch, NodeId, StreamId};
use thalweg_core::needs::{Order, Reliability};
use thalweg_core::time::Instant;
use thalweg_lift::packet::{Packet, Pool};
use thalweg_net::{
    Arriving, Carriage, Clock, Link, OrderedId, Outcome, Payload, SendOptions, StreamCode,
};

pub use ledger::{Exposure, StreamReading};
pub(crate) use ledger::{ExposureCounts, Ledger, StreamCounts};
pub(crate) use mailbox::{Mail, Mailboxes, mailbox};
pub(crate) use route::{Chain, Lease, Route};

/// A datagram is worth it only for what surely fits one: QUIC's smallest packet less its headers and ours.
const DATAGRAM_BYTES_MAX: usize = 1_000;

type Table<K, V> = RwLock<HashMap<K, V>>;

/// Routes, links and mailboxes of a node, shared by every task that carries ADUs.
pub(crate) struct Forwarder {
    pub(crate) clock: Clock,
    pub(crate) pool: Pool,
    pub(crate) ledger: Ledger,
    pub(crate) mailboxes: Mailboxes,
    routes: Table<(StreamId, Epoch), Arc<Route>>,
    links: Table<NodeId, Link>,
}

impl Forwarder {
    pub(crate) fn new(clock: Clock, pool: Pool) -> Self {
        Self {
            clock,
            pool,
            ledger: Ledger::default(),
            mailboxes: Mailboxes::default(),
            routes: Table::default(),
            links: Table::default(),
        }
    }

    /// Installs a route in the place of the one before.
    pub(crate) fn install(&self, route: Arc<Route>) {
        write(&self.routes).insert((route.stream, route.epoch), route);
    }

    pub(crate) fn remove(&self, stream: StreamId, epoch: Epoch) {
        write(&self.routes).remove(&(stream, epoch));
    }

    /// Removes the routes whose lease has ended, and returns them.
    pub(crate) fn expire(&self, now: Instant) -> Vec<Arc<Route>> {
        let mut routes = write(&self.routes);
        let ended: Vec<_> = routes
            .values()
            .filter(|route| route.lease.has_ended(now))
            .map(Arc::clone)
            .collect();
        for route in &ended {
            routes.remove(&(route.stream, route.epoch));
        }
        ended
    }

    pub(crate) fn route(&self, stream: StreamId, epoch: Epoch) -> Option<Arc<Route>> {
        read(&self.routes).get(&(stream, epoch)).map(Arc::clone)
    }

    pub(crate) fn routes(&self) -> Vec<Arc<Route>> {
        let mut routes: Vec<_> = read(&self.routes).values().map(Arc::clone).collect();
        routes.sort_by_key(|route| (route.stream, route.epoch));
        routes
    }

    pub(crate) fn link_up(&self, link: Link) {
        write(&self.links).insert(link.peer(), link);
    }

    pub(crate) fn link_down(&self, peer: NodeId) {
        write(&self.links).remove(&peer);
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
    pub(crate) async fn handle_adu(&self, from: &Link, adu: Arriving) {
        let header = adu.header;
        let Some(route) = self.route(header.stream, header.epoch) else {
            self.ledger.count_unknown();
            return adu.body.refuse(StreamCode::UnknownStream);
        };
        if route.previous != from.peer() {
            self.ledger.count_unknown();
            return adu.body.refuse(StreamCode::Protocol);
        }
        route.counts.received();
        if !route.plaintext && !header.flags.contains(Flags::SEALED) {
            route.counts.dropped(DropCause::Exposed);
            return adu.body.refuse(StreamCode::Protocol);
        }
        match &route.chain {
            Chain::Pass => {
                self.onward(&route, header, Payload::Arriving(adu.body))
                    .await;
            }
            Chain::Keep(layers) if header.layer < *layers => {
                self.onward(&route, header, Payload::Arriving(adu.body))
                    .await;
            }
            Chain::Keep(_) => {
                route.counts.dropped(DropCause::Filtered);
                adu.body.refuse(StreamCode::Whole);
            }
            Chain::Lift(_) => match adu.collect().await {
                Ok(payload) => self.carry(&route, Adu { header, payload }).await,
                Err(error) => route.counts.dropped(error.drop_cause()),
            },
        }
    }

    /// Takes a whole ADU, from a local producer or for a chain that changes payloads, through its route.
    pub(crate) async fn carry(&self, route: &Route, adu: Adu) {
        match &route.chain {
            Chain::Keep(layers) if adu.header.layer >= *layers => {
                route.counts.dropped(DropCause::Filtered);
            }
            Chain::Pass | Chain::Keep(_) => {
                self.onward(route, adu.header, Payload::Whole(adu.payload))
                    .await;
            }
            Chain::Lift(lift) => {
                let now = self.clock.now();
                let carried = route::carry(lift, Packet::from(adu), now, &route.counts);
                for packet in carried {
                    let header = packet.header;
                    self.onward(route, header, Payload::Whole(packet.into_bytes()))
                        .await;
                }
            }
        }
    }

    /// Gives an ADU that has been through the chain to the next node or to the subscribers here.
    async fn onward(&self, route: &Route, header: Header, payload: Payload) {
        let Some(next) = route.next else {
            return self.deliver(route, header, payload).await;
        };
        let Some(link) = self.link(next) else {
            return route.counts.dropped(DropCause::PathLost);
        };
        if let Some(exposure) = &route.exposure {
            exposure.sent(header.flags.contains(Flags::SEALED));
        }
        route.counts.sent();
        let options = SendOptions {
            carriage: carriage(route, &header, payload.bytes()),
            priority: priority(route.order, &header),
        };
        let sending = link.send_adu(header, payload, options);
        // An ordered sequence has nothing to gain from a second ADU before the first has gone. Others wait for room on
        // their own: their number is bounded by the publisher's window here, by the streams a peer may open there.
        if route.reliability == Reliability::Full {
            route.counts.ended(sending.await);
        } else {
            sending.detach();
        }
    }

    async fn deliver(&self, route: &Route, header: Header, payload: Payload) {
        let payload = match payload {
            Payload::Whole(payload) => Ok(payload),
            Payload::Arriving(body) => body.collect().await,
        };
        match payload {
            Ok(payload) => self.post(route, Adu { header, payload }).await,
            Err(error) => route.counts.dropped(error.drop_cause()),
        }
    }

    async fn post(&self, route: &Route, adu: Adu) {
        let waits = if route.waits(&adu.header) {
            Instant::NEVER
        } else {
            adu.header.deadline
        };
        match self.mailboxes.post(adu, &self.clock, waits).await {
            Ok(()) => route.counts.delivered(),
            Err(cause) => route.counts.dropped(cause),
        }
    }

    /// Ends the ordered sequences of a stream that begin here, and waits until the next nodes have all of them.
    pub(crate) async fn flush(&self, stream: StreamId) {
        for route in self.routes() {
            let ordered = route.stream == stream && route.reliability == Reliability::Full;
            if let Some(link) = route
                .next
                .filter(|_| ordered)
                .and_then(|next| self.link(next))
            {
                link.finish_ordered(OrderedId {
                    stream,
                    epoch: route.epoch,
                })
                .await;
            }
        }
    }

    /// Takes what became of an ADU that was sent without waiting.
    pub(crate) fn handle_outcome(&self, header: &Header, outcome: Outcome) {
        if let Some(counts) = self.ledger.find(header.stream) {
            counts.ended(outcome);
        }
    }
}

/// Chooses how an ADU travels over the next hop, from what the stream needs.
fn carriage(route: &Route, header: &Header, payload_bytes: usize) -> Carriage {
    let end = header.flags.contains(Flags::END);
    match route.reliability {
        Reliability::Full => Carriage::Ordered(OrderedId {
            stream: route.stream,
            epoch: route.epoch,
        }),
        Reliability::None if !end && payload_bytes <= DATAGRAM_BYTES_MAX => Carriage::Datagram,
        Reliability::None | Reliability::UntilDeadline => Carriage::Stream,
    }
}

/// Returns the priority on a link: the importance, or the same for all of a stream that goes first in, first out.
fn priority(order: Order, header: &Header) -> u8 {
    match order {
        Order::Importance => header.importance.0,
        Order::Sequence => u8::MAX / 2,
    }
}

/// Returns an ADU that says that a stream has ended.
pub(crate) fn end(mut header: Header) -> Adu {
    header.flags = Flags::END;
    header.deadline = Instant::NEVER;
    Adu {
        header,
        payload: Bytes::new(),
    }
}

/// No code that can panic runs under these locks, so what a poisoned one guards is still whole.
fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether an adapter of a plan needs the stream's key.
pub(crate) fn needs_key(word: &str) -> bool {
    matches!(word.split(':').next(), Some("seal" | "open"))
}
