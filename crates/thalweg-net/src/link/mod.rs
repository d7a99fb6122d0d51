//! One neighbour: control frames and ADUs on one connection.
//!
//! *The idea.* Everything travels on unidirectional streams whose first byte says what follows, and in datagrams:
//!
//! ```text
//! 0  control   one each way, opened first, before all else in priority: (length:32, frame)*
//! 1  ADU       header, payload, end
//! 2  ordered   (header, payload)*
//!    datagram  header, payload: one whole ADU
//! ```
//!
//! So an ADU can be overtaken, reset when it expires, or passed on while it arrives, without touching the others. A
//! link is up when each end has seen the other's control stream, which it opens only for an admitted peer. Ending a
//! control stream says that nothing more will be sent: a link that has to go is drained, not cut.
//!
//! The connection is one of QUIC, or where UDP is blocked a session over TCP (`connection`, `stream`, `wire` tell the two
//! apart, and nothing else does).
//!
//! *What it does not do.* It does not choose what is worth sending (`core::outbox` does, which `sender` drives) and keeps no
//! copy of what it sent: what a lost link had not acknowledged is reported, and resent by whoever has it.
//!
//! *Sources.* docs/protocol.md §2; draft-ietf-moq-transport for one stream per object.

mod bells;
mod body;
mod connection;
mod control;
mod counters;
mod gathering;
mod memory;
mod news;
mod outcome;
mod quic;
mod reader;
mod receive;
mod receiver;
mod sender;
mod sending;
mod silence;
mod stats;
mod stream;
mod tcp;
#[cfg(test)]
mod tests;
mod wire;

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use iroh::endpoint::ConnectionError;
use thalweg_core::adu::Header;
use thalweg_core::hop::narrow::Passage;
use thalweg_core::hop::sender::room::ROOM_KIB;
use thalweg_core::hop::settings::{FRAMES_QUEUED_MAX, REASON_CHARS_MAX};
use thalweg_core::id::NodeId;
use thalweg_core::limits::WAITING_BYTES_MAX;
use thalweg_core::outbox::census::OutboxReading;
use thalweg_core::routing::gauge::Sample;
use thalweg_core::routing::pulse::Sign;
use thalweg_core::time::{Duration, Instant};
use thalweg_core::units::{Bitrate, DataSize};
use tokio::sync::{Semaphore, mpsc, watch};

pub use body::{Arriving, Body, Rest, Twin};
pub(crate) use connection::Fresh;
pub use counters::LinkCounters;
pub(crate) use memory::Memories;
pub use outcome::{Carriage, OrderedId, Outcome, Payload, SendOptions};
pub(crate) use receiver::DynReceiver;
pub use receiver::{DownCause, LinkEvent, Receiver, Samples};
pub use sending::Sending;
pub use stats::{LinkStats, PathStats, Remote};

use self::connection::Connection;
use self::control::Command;
use self::counters::Counters;
use self::gathering::Gathering;
use self::reader::Reader;
use self::sender::Outgoing;
use self::silence::Silence;
use self::stats::Meter;
use crate::clock::Clock;
use crate::close::CloseCode;
use crate::error::{BodyError, ControlError};
use crate::task;

/// How long the code of a connection that is closed over TCP may take to leave.
const LAST_WORD: std::time::Duration = std::time::Duration::from_secs(1);

/// What the peer is told of a link that ends by a fault of ours.
const FAULT: &str = "this node has failed at this link";

/// A connection with one neighbour; clones are the same link.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

/// What carries a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// QUIC over UDP.
    Quic,
    /// Several TCP connections, where UDP is blocked: docs/tcp.md.
    Tcp,
}

/// What all links of an endpoint share.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) clock: Clock,
    pub(crate) receiver: Arc<dyn DynReceiver>,
    pub(crate) memories: Arc<Memories>,
}

struct Inner {
    peer: NodeId,
    /// Whether this node dialled.
    dialled: bool,
    since: Instant,
    connection: Connection,
    context: Context,
    outgoing: Outgoing,
    /// For those that would wait rather than be dropped, in KiB.
    room: Arc<Semaphore>,
    /// How much payload may wait for that, in KiB.
    waiting: Arc<Semaphore>,
    gathering: Gathering,
    control: mpsc::Sender<Command>,
    /// Whether nothing more is to be sent: the connection drains or has ended.
    ended: AtomicBool,
    /// Whether the peer has said that it sends nothing more.
    peer_done: watch::Sender<bool>,
    /// Whether the receiver is to be told when something is given to it.
    tells_given: AtomicBool,
    counters: Counters,
    meter: Mutex<Meter>,
    silence: watch::Sender<Silence>,
    /// Whether full packets pass, as of the last look.
    passage: watch::Sender<Passage>,
    /// Whether the link was closed because they do not.
    is_narrow: AtomicBool,
}

/// A connection did not become a link.
#[derive(Debug)]
pub(crate) enum OpenError {
    Quic(ConnectionError),
    Tcp(DownCause),
    /// The peer's first stream was not a control stream.
    Protocol,
}

impl Link {
    /// Greets the peer and waits for its greeting.
    pub(crate) async fn open(
        fresh: Fresh,
        dialled: bool,
        context: Context,
    ) -> Result<(Self, Reader), OpenError> {
        let connection = fresh.connection();
        let outgoing = control::greet(&connection).await?;
        let incoming = control::greeting(&connection).await?;
        let (control, commands) = mpsc::channel(FRAMES_QUEUED_MAX);
        let writing = control::write(outgoing, commands);
        let written = connection.clone();
        let fail = move || written.close(CloseCode::Fault, FAULT);
        tokio::spawn(task::alone_or(writing, fail));
        let now = context.clock.now();
        let peer = connection.peer();
        let memory = context.memories.of(peer);
        let link = Self(Arc::new(Inner {
            peer,
            dialled,
            since: now,
            outgoing: Outgoing::new(now, fresh, memory),
            connection,
            context,
            room: Arc::new(Semaphore::new(ROOM_KIB as usize)),
            waiting: Arc::new(Semaphore::new(
                (WAITING_BYTES_MAX.as_bytes() >> 10) as usize,
            )),
            gathering: Gathering::default(),
            control,
            ended: AtomicBool::new(false),
            peer_done: watch::Sender::new(false),
            tells_given: AtomicBool::new(false),
            counters: Counters::default(),
            meter: Mutex::default(),
            silence: watch::Sender::default(),
            passage: watch::Sender::default(),
            is_narrow: AtomicBool::new(false),
        }));
        link.measure();
        Ok((link, incoming))
    }

    /// Begins to take what arrives.
    pub(crate) fn start(&self, control: Reader) {
        self.spawn(sender::drive(self.clone()));
        self.spawn(receive::control(self.clone(), control));
        self.spawn(receive::streams(self.clone()));
        self.spawn(receive::datagrams(self.clone()));
    }

    /// Starts a task that the link cannot be without; its panic ends the link, which is dialled again.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let link = self.clone();
        tokio::spawn(task::alone_or(task, move || {
            tracing::error!(peer = %link.0.peer.short(), "a task of the link has panicked; the link ends");
            link.close(CloseCode::Fault, FAULT);
        }));
    }

    /// Returns the neighbour's key.
    pub fn peer(&self) -> NodeId {
        self.0.peer
    }

    /// Returns whether this node dialled the other.
    pub fn is_dialled(&self) -> bool {
        self.0.dialled
    }

    /// Returns what carries it.
    pub fn transport(&self) -> Transport {
        self.0.connection.transport()
    }

    /// Returns the address of this node that the link is bound to, if it is bound to one.
    pub(crate) fn source(&self) -> Option<IpAddr> {
        self.0.connection.source()
    }

    /// Returns the smoothed round trip of the path in use.
    pub(crate) fn rtt(&self) -> Duration {
        self.0.connection.rtt()
    }

    /// Returns since when the link is up.
    pub fn since(&self) -> Instant {
        self.0.since
    }

    /// Returns whether the two are one link.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns whether the connection has ended or takes nothing more to send.
    pub fn is_closed(&self) -> bool {
        self.is_ended() || self.0.connection.is_over()
    }

    /// Returns measurements of the link; rates and losses are those of the last seconds.
    pub fn stats(&self) -> LinkStats {
        stats::read(self)
    }

    /// Returns what tells whether the peer answers; what has come only if something has been in flight for a look's time, or the
    /// peer `is_silent`.
    ///
    /// Over TCP nothing is said to be in flight: such a link finds out by itself when a connection of its stalls.
    pub fn sign(&self, is_silent: bool) -> Sign {
        stats::sign(self, is_silent)
    }

    /// Has the receiver told, once, when an ADU or a control frame is next given to the link ([`Receiver::handle_given`]).
    ///
    /// What is given after this returns is told; what was given before [`Link::has_all_gone`] knows.
    pub fn tell_when_given(&self) {
        self.0.tells_given.store(true, Ordering::SeqCst);
    }

    /// Returns whether every ADU has its outcome, and every control frame is in the transport's hands.
    pub fn has_all_gone(&self) -> bool {
        let control = &self.0.control;
        control.capacity() == control.max_capacity() && self.in_flight() == 0
    }

    /// Takes in that it was given something.
    fn given(&self) {
        let told = &self.0.tells_given;
        if told.load(Ordering::SeqCst) && told.swap(false, Ordering::SeqCst) {
            self.0.context.receiver.given(self);
        }
    }

    /// Measures the link, as its endpoint does four times a second, and does what nobody is woken for; returns what a
    /// [`Gauge`](thalweg_core::routing::gauge::Gauge) is to be given.
    ///
    /// Cost    some questions to the transport, two of them for each path
    pub fn measure(&self) -> Sample {
        let now = self.now();
        self.catch_up();
        self.0.outgoing.look(now);
        stats::sample(self, now)
    }

    /// Returns what has been counted since the link is up.
    pub fn counters(&self) -> LinkCounters {
        self.0.counters.read()
    }

    /// Returns how many ADUs have no outcome yet.
    pub fn in_flight(&self) -> u32 {
        u32::try_from(self.0.outgoing.len()).unwrap_or(u32::MAX)
    }

    /// Returns the estimate of what can be sent on the path in use, which an encoder can follow; none before anything
    /// was acknowledged.
    ///
    /// Before the path was ever full it says how much was tried, not how much the path can carry.
    pub fn sendable_rate(&self) -> Option<Bitrate> {
        self.0.outgoing.sendable_rate(self.now())
    }

    /// Returns a watch on that estimate: it changes when the estimate has moved by an eighth
    /// ([`thalweg_core::hop::steady`]), and is none when
    /// the link is down.
    pub fn sendable(&self) -> watch::Receiver<Option<Bitrate>> {
        self.0.outgoing.sendable(self.now())
    }

    /// Returns how many bytes wait to be sent: what of [`Link::outbox`] is asked for often.
    ///
    /// Cost    O(ADUs that wait), 3 ns each, while nothing is sent
    pub fn waiting(&self) -> DataSize {
        self.0.outgoing.waiting()
    }

    /// Returns what waits to be sent, how long ADUs took over the last ten seconds, and what was given up.
    ///
    /// Cost    O(ADUs that wait), 3 ns each, while nothing is sent
    pub fn outbox(&self) -> OutboxReading {
        self.0.outgoing.outbox(self.now())
    }

    /// Queues a control frame; waits when too many are queued.
    ///
    /// Frames arrive whole, in order, before any ADU of the same moment; `Ok` does not mean that it has arrived.
    pub async fn send_control(&self, frame: Bytes) -> Result<(), ControlError> {
        self.send_controls(vec![frame]).await
    }

    /// Queues control frames that are written in one piece; else as [`Link::send_control`]. None is sent if one is too large.
    pub async fn send_controls(&self, frames: Vec<Bytes>) -> Result<(), ControlError> {
        frames.iter().try_for_each(control::check)?;
        if self.is_closed() {
            return Err(ControlError::LinkLost);
        }
        for frames in control::batches(frames) {
            let sent = self.0.control.send(Command::Frames(frames)).await;
            sent.map_err(|_| ControlError::LinkLost)?;
            self.given();
        }
        Ok(())
    }

    /// Prepares to send an ADU; the returned [`Sending`] does it when it is awaited or detached.
    ///
    /// The header's deadline is on this node's clock; what is left of it goes on the wire at the moment of writing.
    pub fn send_adu(
        &self,
        header: Header,
        payload: impl Into<Payload>,
        options: SendOptions,
    ) -> Sending {
        Sending::new(self.clone(), header, payload.into(), options)
    }

    /// Ends an ordered sequence and waits until the peer has all of it.
    ///
    /// [`Outcome::Acknowledged`] if so, also for a sequence that was never begun.
    pub async fn finish_ordered(&self, id: OrderedId) -> Outcome {
        self.end_ordered(id).await
    }

    /// Closes at once; what is in flight ends as [`Outcome::LinkLost`].
    pub fn close(&self, code: CloseCode, reason: &str) {
        self.end();
        self.0.connection.close(code, reason);
    }

    /// Waits until the connection has ended.
    pub async fn closed(&self) -> DownCause {
        self.0.connection.closed().await
    }

    /// Sends nothing new, waits until all that was sent is acknowledged, then closes; cuts at `grace`.
    ///
    /// With `until_peer_done`, what the peer still sends is waited for as well.
    pub async fn drain(
        &self,
        code: CloseCode,
        reason: &str,
        grace: Duration,
        until_peer_done: bool,
    ) {
        self.end();
        let drained = async {
            // All room is back when those that waited for it have gone; the semaphore is never closed.
            let _ = self.0.room.acquire_many(ROOM_KIB).await;
            self.settle().await;
            self.0.connection.datagrams_gone().await;
            control::finish(&self.0.control).await;
            if until_peer_done {
                let _ = self.0.peer_done.subscribe().wait_for(|done| *done).await;
            }
        };
        let cut = tokio::time::timeout(grace.into(), drained).await.is_err();
        tracing::debug!(peer = %self.peer().short(), %code, cut, "link drained");
        self.0.connection.close(code, reason);
        // Whoever waits for this ends the process next, perhaps, and the code with it.
        let _ = tokio::time::timeout(LAST_WORD, self.0.connection.gone()).await;
    }

    /// [`Link::is_closed`] without asking QUIC, for which the connection must be locked: it may lag a little.
    fn is_ended(&self) -> bool {
        self.0.ended.load(Ordering::Relaxed)
    }

    /// Takes nothing more to send.
    pub(crate) fn end(&self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }

    fn meter<T>(&self, with: impl FnOnce(&mut Meter) -> T) -> T {
        // No code that can panic runs under this lock.
        with(&mut self.0.meter.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn now(&self) -> Instant {
        self.0.context.clock.now()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("peer", &self.0.peer)
            .field("dialled", &self.0.dialled)
            .finish_non_exhaustive()
    }
}

impl OpenError {
    /// The connection's own word on why its stream broke, if it has one.
    fn of(connection: &Connection, error: BodyError) -> Self {
        match (connection.end(), error) {
            (Some(end), BodyError::LinkLost) => end,
            _ => Self::Protocol,
        }
    }
}

/// Returns a peer's words, cut to what is worth printing and without control characters.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .filter(|c| !c.is_control())
        .take(REASON_CHARS_MAX)
        .collect()
}
