//! The link with one neighbour: control frames and ADUs on one connection.
//!
//! *The idea.* Everything travels on unidirectional streams, marked by a first byte, and
//! in datagrams:
//!
//! ```text
//! 0  control   one each way, opened first, with the highest priority: (length:32, frame)*
//! 1  ADU       header, payload, end
//! 2  ordered   (header, payload)*
//!    datagram  header, payload: one whole ADU
//! ```
//!
//! So an ADU can be overtaken, reset when it expires, or forwarded while it arrives, without
//! head-of-line blocking. A link is up when each end has received the other's control stream, which
//! an end opens only for an admitted peer. The end of a control stream means that no more is sent:
//! so a link that must go is drained, not cut.
//!
//! The connection is QUIC or, where UDP is blocked, a session over TCP. Only `connection`, `stream`
//! and `wire` distinguish the two.
//!
//! *What it does not do.* It does not select what to send: `thalweg_link::outbox` does, which `sender`
//! drives. It keeps no copy of sent ADUs: those that a lost link had not acknowledged are reported,
//! and resent by a node that has them.
//!
//! *Sources.* docs/reference/protocol.md §2; draft-ietf-moq-transport for one stream per object.

mod batch;
mod bells;
mod body;
mod connection;
mod control;
mod counters;
mod direct;
mod footprint;
mod gathering;
mod handed;
mod lots;
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
mod standby;
mod stats;
mod stream;
mod tcp;
#[cfg(test)]
mod tests;
mod wire;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use iroh::endpoint::ConnectionError;
use thalweg_base::adu::Header;
use thalweg_base::id::NodeId;
use thalweg_base::limits::WAITING_BYTES_MAX;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_link::gauge::Sample;
use thalweg_link::hop::narrow::Passage;
use thalweg_link::hop::sender::room::ROOM_KIB;
use thalweg_link::hop::sender::{Owner, StreamEvent};
use thalweg_link::hop::settings::{FRAMES_QUEUED_MAX, REASON_CHARS_MAX};
use thalweg_link::outbox::census::OutboxReading;
use thalweg_link::pulse::Sign;
use tokio::sync::{Semaphore, mpsc, watch};

pub use batch::EndedAdu;
pub(crate) use batch::gather;
pub use body::{Arriving, Body, BodyEnd, End};
pub(crate) use connection::NewConnection;
pub use counters::LinkCounters;
pub use footprint::Footprint;
pub use lots::Lots;
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
use self::standby::Moves;
use self::stats::Meter;
use crate::clock::Clock;
use crate::close::CloseCode;
use crate::error::{BodyError, ControlError};
use crate::task;

/// The protocol of links and its version, as the TLS handshake names it (ALPN).
pub const ALPN: &str = "thalweg/1";

/// The same of a connection that stands by for a link over the engine from its start.
pub(crate) const STANDBY_ALPN: &str = "thalweg-standby/1";

/// How long the close code may take to leave on a connection over TCP.
const CLOSE_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// The close reason for a failure of this node's own.
const FAULT: &str = "internal error";

/// A link with one neighbour; clones share it.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

/// Stream events: the owner, the event, and its time.
type Events = Vec<(Owner, StreamEvent, Instant)>;

/// The transport of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// QUIC over UDP.
    Quic,
    /// Several TCP connections, where UDP is blocked: docs/concepts/tcp.md.
    Tcp,
    /// QUIC over the engine's UDP port, between peers that reach each other directly.
    Engine,
}

/// State shared by all links of an endpoint.
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
    /// The outbox's room for ADUs that wait for room, in KiB ([`ROOM_KIB`]).
    room: Arc<Semaphore>,
    /// Budget of detached ADUs that wait for `room`, in KiB.
    waiting: Arc<Semaphore>,
    gathering: Gathering,
    control: mpsc::Sender<Command>,
    /// Whether sending has ended: the connection drains or is closed.
    ended: AtomicBool,
    /// Whether the peer has ended its control stream.
    peer_done: watch::Sender<bool>,
    /// Whether the receiver is notified of the next ADU or control frame given to the link.
    notifies_given: AtomicBool,
    counters: Counters,
    meter: Mutex<Meter>,
    silence: watch::Sender<Silence>,
    /// Whether full-sized packets pass, as of the last sample.
    passage: watch::Sender<Passage>,
    /// Whether this end closed the link because they do not.
    is_narrow: AtomicBool,
    moves: Moves,
}

/// Why a connection did not become a link.
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
        fresh: NewConnection,
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
            notifies_given: AtomicBool::new(false),
            counters: Counters::default(),
            meter: Mutex::default(),
            silence: watch::Sender::default(),
            passage: watch::Sender::default(),
            is_narrow: AtomicBool::new(false),
            moves: Moves::default(),
        }));
        link.measure();
        Ok((link, incoming))
    }

    /// Starts the link's tasks, which receive and send.
    pub(crate) fn start(&self, control: Reader) {
        let driving = sender::drive(self.clone());
        match &self.0.connection {
            // Its loop saves the driver a task.
            Connection::Engine { connection, .. } => connection.drive(guard(self.clone(), driving)),
            // As above, if it is in the clear and there is a loop.
            Connection::Tcp(connection) => connection.drive(guard(self.clone(), driving)),
            Connection::Quic { .. } => self.spawn(driving),
        }
        self.spawn(receive::control(self.clone(), control));
        self.spawn(receive::streams(self.clone()));
        self.spawn(receive::datagrams(self.clone()));
    }

    /// Starts a task that the link cannot run without; its panic closes the link, which is then
    /// redialled.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(guard(self.clone(), task));
    }

    /// Returns the neighbour's key.
    pub fn peer(&self) -> NodeId {
        self.0.peer
    }

    /// Returns whether this node dialled the peer.
    pub fn is_dialled(&self) -> bool {
        self.0.dialled
    }

    /// Returns the link's transport.
    pub fn transport(&self) -> Transport {
        self.0.connection.transport()
    }

    /// Returns this node's address that the path in use is bound to, if any.
    pub(crate) fn source(&self) -> Option<IpAddr> {
        self.0.connection.source()
    }

    /// Returns the peer's UDP address on the path in use, if that leads there without a relay.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        self.0.connection.remote()
    }

    /// Returns the smoothed round-trip time of the path in use.
    pub(crate) fn rtt(&self) -> Duration {
        self.0.connection.rtt()
    }

    /// Returns when the link came up.
    pub fn since(&self) -> Instant {
        self.0.since
    }

    /// Returns whether both are the same link.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns whether the connection has ended or accepts no more ADUs.
    pub fn is_closed(&self) -> bool {
        self.is_ended() || self.0.connection.is_over()
    }

    /// Returns the link's measurements; rates and losses are those of the last seconds.
    pub fn stats(&self) -> LinkStats {
        stats::read(self)
    }

    /// Returns the evidence that the peer is alive. The received total is read only if something
    /// has been in flight for a tick, or the caller thinks the peer `is_silent`.
    ///
    /// Over TCP nothing is reported in flight: a session detects a stalled connection by itself.
    pub fn sign(&self, is_silent: bool) -> Sign {
        stats::sign(self, is_silent)
    }

    /// Requests one notification of the next ADU or control frame given to the link
    /// ([`Receiver::handle_given`]).
    ///
    /// It covers what is given after this call returns; [`Link::has_all_gone`] covers what was
    /// given before.
    pub fn tell_when_given(&self) {
        self.0.notifies_given.store(true, Ordering::SeqCst);
    }

    /// Returns whether every ADU has its outcome, and the transport has taken every control frame.
    pub fn has_all_gone(&self) -> bool {
        let control = &self.0.control;
        control.capacity() == control.max_capacity() && self.in_flight() == 0
    }

    /// Notifies the receiver of a given ADU or control frame, if that was requested.
    fn notify_given(&self) {
        let notifies = &self.0.notifies_given;
        if notifies.load(Ordering::SeqCst) && notifies.swap(false, Ordering::SeqCst) {
            self.0.context.receiver.given(self);
        }
    }

    /// Samples the link, as its endpoint does four times a second, and handles events that woke no
    /// task; returns the sample for a [`Gauge`](thalweg_link::gauge::Gauge).
    ///
    /// Cost    a few queries of the transport, two per path
    pub fn measure(&self) -> Sample {
        let now = self.now();
        self.catch_up();
        self.0.outgoing.handle_tick(now);
        stats::sample(self, now)
    }

    /// Returns the counters since the link came up.
    pub fn counters(&self) -> LinkCounters {
        self.0.counters.read()
    }

    /// Returns the number of ADUs without an outcome.
    pub fn in_flight(&self) -> u32 {
        u32::try_from(self.0.outgoing.len()).unwrap_or(u32::MAX)
    }

    /// Returns the estimated rate of the path in use, for an encoder to follow; `None` before the
    /// first acknowledgement.
    ///
    /// Before the path has ever been full, this is the rate that was tried, not the rate the path
    /// can carry.
    pub fn sendable_rate(&self) -> Option<Bitrate> {
        self.0.outgoing.sendable_rate(self.now())
    }

    /// Returns a watch on that estimate: it changes when the estimate has moved by an eighth
    /// ([`thalweg_link::hop::steady`]), and becomes `None` when the link goes down.
    pub fn sendable(&self) -> watch::Receiver<Option<Bitrate>> {
        self.0.outgoing.sendable(self.now())
    }

    /// Returns the number of queued bytes; cheaper than [`Link::outbox`], for frequent use.
    ///
    /// Cost    O(queued ADUs), 3 ns each; the link sends nothing meanwhile
    pub fn waiting(&self) -> DataSize {
        self.0.outgoing.waiting()
    }

    /// Returns the queue, the ADUs' latency over the last ten seconds, and the drops.
    ///
    /// Cost    O(queued ADUs), 3 ns each; the link sends nothing meanwhile
    pub fn outbox(&self) -> OutboxReading {
        self.0.outgoing.outbox(self.now())
    }

    /// Queues a control frame; waits while the queue is full.
    ///
    /// Frames arrive whole, in order, and before ADUs sent at the same time. `Ok` does not mean
    /// that the frame has arrived.
    pub async fn send_control(&self, frame: Bytes) -> Result<(), ControlError> {
        self.send_controls(vec![frame]).await
    }

    /// Queues control frames to be written in one piece; otherwise like [`Link::send_control`]. If
    /// one is too large, none is sent.
    pub async fn send_controls(&self, frames: Vec<Bytes>) -> Result<(), ControlError> {
        frames.iter().try_for_each(control::check)?;
        if self.is_closed() {
            return Err(ControlError::LinkLost);
        }
        for frames in control::batches(frames) {
            let sent = self.0.control.send(Command::Frames(frames)).await;
            sent.map_err(|_| ControlError::LinkLost)?;
            self.notify_given();
        }
        Ok(())
    }

    /// Prepares to send an ADU; the returned [`Sending`] sends it when it is awaited or detached.
    ///
    /// The header's deadline is on this node's clock; the remaining time is encoded when the header
    /// is written.
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
    /// Returns [`Outcome::Acknowledged`] on success, also for a sequence that was never begun.
    pub async fn finish_ordered(&self, id: OrderedId) -> Outcome {
        self.end_ordered(id).await
    }

    /// Closes the link at once; ADUs in flight end as [`Outcome::LinkLost`].
    pub fn close(&self, code: CloseCode, reason: &str) {
        self.end();
        self.0.connection.close(code, reason);
    }

    /// Waits until the connection has ended.
    pub async fn closed(&self) -> DownCause {
        self.0.connection.closed().await
    }

    /// Accepts no more ADUs, waits at most `grace` until everything sent is acknowledged, then
    /// closes the link.
    ///
    /// With `until_peer_done`, it also waits until the peer has ended its control stream.
    pub async fn drain(
        &self,
        code: CloseCode,
        reason: &str,
        grace: Duration,
        until_peer_done: bool,
    ) {
        self.end();
        let drained = async {
            // All room is back once no ADU waits for it; the semaphore is never closed.
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
        // The caller may end the process next, and the unsent close code with it.
        let _ = tokio::time::timeout(CLOSE_WAIT, self.0.connection.gone()).await;
    }

    /// Accepts no more ADUs and waits until all have their outcome; the connection stays.
    pub(crate) async fn rest(&self) {
        self.end();
        // As in a drain: all room is back once no ADU waits for it.
        let _ = self.0.room.acquire_many(ROOM_KIB).await;
        self.settle().await;
    }

    /// Accepts ADUs again.
    pub(crate) fn resume(&self) {
        self.0.ended.store(false, Ordering::Relaxed);
    }

    /// Returns whether the connection has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.0.connection.is_over()
    }

    /// Returns the link's moves to the engine and back.
    pub(crate) fn moves(&self) -> &Moves {
        &self.0.moves
    }

    /// Like [`Link::is_closed`], without taking QUIC's lock; may lag a little.
    fn is_ended(&self) -> bool {
        self.0.ended.load(Ordering::Relaxed)
    }

    /// Makes the link refuse further ADUs.
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
    /// Prefers the connection's own reason over the stream's error, if the connection has ended.
    fn of(connection: &Connection, error: BodyError) -> Self {
        match (connection.end(), error) {
            (Some(end), BodyError::LinkLost) => end,
            _ => Self::Protocol,
        }
    }
}

/// Wraps a task that the link cannot run without; its panic closes the link.
async fn guard(link: Link, task: impl Future<Output = ()>) {
    let fail = || {
        tracing::error!(peer = %link.0.peer.short(), "a task of the link has panicked; the link ends");
        link.close(CloseCode::Fault, FAULT);
    };
    task::alone_or(task, fail).await;
}

/// Returns a peer's text, cut to a printable length and without control characters.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .filter(|c| !c.is_control())
        .take(REASON_CHARS_MAX)
        .collect()
}
