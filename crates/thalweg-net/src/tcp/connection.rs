//! One session as the application sees it: streams and messages both ways, and what became of them.
//!
//! *The idea.* The session is behind one lock that is held for as long as it takes to decide, never while waiting. Whoever
//! changes it wakes the carrier that has something to say; whatever it tells is passed on at once: to the reader of the
//! stream, to who accepts streams, to who asked for [`Events`].
//!
//! *What it does not do.* It knows no ADU. It does not order what is written beyond its rank: the outbox above does.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use thalweg_core::hop::sender::PathRate;
use thalweg_core::hop::{BodyError, CloseCode, DownCause, StreamCode};
use thalweg_core::id::NodeId;
use thalweg_core::outbox::CHUNK_BYTES_MIN;
use thalweg_core::pace::{
    Carried, CarrierNumber, DatagramError, Decoder, Event, Read, Session, SessionError,
    StreamNumber, Written,
};
use thalweg_core::time::{Duration, Instant};
use thalweg_core::units::DataSize;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, watch};

use super::line::{Line, printable};
use super::{carrier, socket};
use crate::clock::Clock;

/// A session with a peer; clones are the same one. It is closed when the last is dropped.
#[derive(Clone)]
pub struct Connection(Arc<Handle>);

/// What happens to what is sent, and to the session; to be drained, or dropped.
#[derive(Debug)]
pub struct Events(UnboundedReceiver<Event>);

/// A stream that arrives. Dropped before its end, it is stopped.
pub struct Arriving {
    connection: Connection,
    stream: StreamNumber,
    wake: Arc<Notify>,
    is_over: bool,
}

struct Handle {
    shared: Arc<Shared>,
    arrivals: tokio::sync::Mutex<UnboundedReceiver<StreamNumber>>,
}

/// What the tasks of a session share.
pub(super) struct Shared {
    pub(super) peer: NodeId,
    pub(super) clock: Clock,
    /// Woken when a carrier may be missing, and at the end.
    pub(super) keeper: Notify,
    datagrams: Notify,
    over: watch::Sender<Option<DownCause>>,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) session: Session,
    carriers: BTreeMap<CarrierNumber, Slot>,
    readers: BTreeMap<StreamNumber, Arc<Notify>>,
    /// None once the session is over.
    arrivals: Option<UnboundedSender<StreamNumber>>,
    events: Option<UnboundedSender<Event>>,
    /// Whether somebody was told that there is no credit, and is to be told when there is some.
    awaits_credit: bool,
    next: u64,
}

struct Slot {
    wake: Arc<Notify>,
    socket: Arc<TcpStream>,
}

impl Shared {
    pub(super) fn begin(
        session: Session,
        peer: NodeId,
        clock: Clock,
    ) -> (Arc<Self>, Connection, Events) {
        let (arrivals, arriving) = unbounded_channel();
        let (events, happening) = unbounded_channel();
        let shared = Arc::new(Self {
            peer,
            clock,
            keeper: Notify::new(),
            datagrams: Notify::new(),
            over: watch::Sender::new(None),
            state: Mutex::new(State {
                session,
                carriers: BTreeMap::new(),
                readers: BTreeMap::new(),
                arrivals: Some(arrivals),
                events: Some(events),
                awaits_credit: false,
                next: 0,
            }),
        });
        let handle = Handle {
            shared: shared.clone(),
            arrivals: tokio::sync::Mutex::new(arriving),
        };
        (shared, Connection(Arc::new(handle)), Events(happening))
    }

    /// Adds a connection over which both ends have greeted, and runs it; returns whether it is of use.
    pub(super) fn join(
        self: &Arc<Self>,
        number: CarrierNumber,
        line: Line,
        decoder: Decoder,
    ) -> bool {
        let slot = Slot {
            wake: Arc::new(Notify::new()),
            socket: line.socket().clone(),
        };
        let wake = slot.wake.clone();
        let now = self.clock.now();
        let is_of_use = self.act(|state| {
            let is_of_use = state.session.handle_carrier(number, decoder, now);
            if is_of_use {
                state.next = state.next.max(number.0 + 1);
                state.carriers.insert(number, slot);
            }
            is_of_use
        });
        if is_of_use {
            tracing::debug!(peer = %self.peer.short(), %number, "tcp carrier up");
            tokio::spawn(carrier::run(self.clone(), number, line, wake));
        }
        is_of_use
    }

    /// Does something with the session, tells what came of it, and wakes who has something to send.
    pub(super) fn act<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let before = state.wants();
        let result = act(&mut state);
        self.tell(&mut state);
        state.wake_for(before);
        result
    }

    /// The same for a carrier, which looks by itself for what it has to send.
    pub(super) fn act_as<T>(
        &self,
        number: CarrierNumber,
        act: impl FnOnce(&mut State, Instant) -> T,
    ) -> T {
        let now = self.clock.now();
        let mut state = self.lock();
        let before = state.wants();
        let result = act(&mut state, now);
        self.tell(&mut state);
        if state.session.active() != Some(number) {
            state.wake_for(before);
        }
        if state.awaits_credit && state.session.credit().as_bytes() >= CHUNK_BYTES_MIN.into() {
            state.awaits_credit = false;
            state.say(Event::Room);
        }
        result
    }

    /// Ends the session because the peer broke the protocol.
    pub(super) fn fail(&self, error: SessionError) {
        tracing::debug!(peer = %self.peer.short(), %error, "tcp session broken by the peer");
        self.end(DownCause::Other(error.to_string()));
        self.act(|state| state.session.close(CloseCode::Protocol, error.to_string()));
    }

    fn close(&self, code: CloseCode, reason: &str) {
        self.end(DownCause::ByUs);
        self.act(|state| {
            state.session.close(code, reason.into());
            state.wake_all();
        });
    }

    /// Returns whether the session has ended, for whatever reason.
    pub(super) fn is_over(&self) -> bool {
        self.over.borrow().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock, but the session's own, whose panics are bugs.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first cause is the one that is told.
    fn end(&self, cause: DownCause) {
        self.over.send_if_modified(|over| {
            let is_first = over.is_none();
            if is_first {
                *over = Some(cause);
            }
            is_first
        });
    }

    /// Passes on what has happened.
    fn tell(&self, state: &mut State) {
        while let Some(event) = state.session.poll_event() {
            match event {
                Event::Opened(stream) => {
                    state.readers.insert(stream, Arc::new(Notify::new()));
                    if let Some(arrivals) = &state.arrivals {
                        // Who no longer accepts streams has dropped the connection.
                        let _ = arrivals.send(stream);
                    }
                }
                Event::Readable(stream) => {
                    if let Some(wake) = state.readers.get(&stream) {
                        wake.notify_one();
                    }
                }
                Event::Datagram => self.datagrams.notify_one(),
                Event::FailedOver { from, to } => {
                    tracing::info!(peer = %self.peer.short(), %from, %to, "tcp fail-over");
                    state.wake_all();
                    self.keeper.notify_one();
                    state.say(event);
                }
                Event::Closed { code, reason } => {
                    let reason = printable(&reason);
                    self.end(DownCause::ByPeer {
                        code,
                        reason: reason.clone(),
                    });
                    state.say(Event::Closed { code, reason });
                }
                Event::Lost => {
                    self.end(DownCause::TimedOut);
                    state.say(Event::Lost);
                }
                event => state.say(event),
            }
        }
        if self.is_over() && state.arrivals.take().is_some() {
            state.events = None;
            for wake in state.readers.values() {
                wake.notify_one();
            }
            self.datagrams.notify_waiters();
            self.keeper.notify_one();
            state.wake_all();
        }
    }
}

impl State {
    /// Returns the number of the next carrier to be dialled.
    pub(super) fn number(&mut self) -> CarrierNumber {
        let number = CarrierNumber(self.next);
        self.next += 1;
        number
    }

    /// Asks the kernel about the active carrier.
    pub(super) fn refresh(&mut self) {
        let path = self
            .active()
            .and_then(|slot| socket::path(&slot.socket).ok());
        if let (Some(path), Some(number)) = (path, self.session.active()) {
            self.session.handle_kernel(number, path);
        }
    }

    pub(super) fn lose(&mut self, number: CarrierNumber, now: Instant) {
        self.carriers.remove(&number);
        self.session.handle_carrier_lost(number, now);
    }

    /// Returns whether somebody waits for credit, in the session or above it.
    pub(super) fn wants_credit(&self) -> bool {
        self.awaits_credit || self.session.has_more()
    }

    /// Returns who carries, and whether there is something that needs no credit, and something that does.
    fn wants(&self) -> (Option<CarrierNumber>, bool, bool) {
        let session = &self.session;
        (session.active(), session.has_word(), session.has_more())
    }

    /// Wakes the active carrier if it has something to send that it had not before; otherwise it knows.
    fn wake_for(&self, before: (Option<CarrierNumber>, bool, bool)) {
        let (active, has_word, has_more) = self.wants();
        let is_news = active != before.0 || (has_word && !before.1) || (has_more && !before.2);
        if let Some(slot) = self.active().filter(|_| is_news) {
            slot.wake.notify_one();
        }
    }

    fn active(&self) -> Option<&Slot> {
        self.carriers.get(&self.session.active()?)
    }

    fn wake_all(&self) {
        for slot in self.carriers.values() {
            slot.wake.notify_one();
        }
    }

    fn say(&self, event: Event) {
        if let Some(events) = &self.events {
            // Who does not want to know has dropped the other end.
            let _ = events.send(event);
        }
    }
}

impl Connection {
    /// Returns the peer's key, which it has proved.
    pub fn peer(&self) -> NodeId {
        self.0.shared.peer
    }

    /// Returns the next stream that arrives; nothing once the session is over.
    pub async fn accept(&self) -> Option<Arriving> {
        let stream = self.0.arrivals.lock().await.recv().await?;
        let wake = self.0.shared.lock().readers.get(&stream)?.clone();
        Some(Arriving {
            connection: self.clone(),
            stream,
            wake,
            is_over: false,
        })
    }

    /// Returns the next datagram that arrives; nothing once the session is over. One task at a time is woken.
    pub async fn datagram(&self) -> Option<Bytes> {
        let shared = &self.0.shared;
        loop {
            let arrival = shared.datagrams.notified();
            if let Some(datagram) = shared.lock().session.poll_datagram() {
                return Some(datagram);
            }
            if shared.is_over() {
                return None;
            }
            arrival.await;
        }
    }

    /// Opens a stream whose bytes go before those of lower rank; none while the peer admits no more.
    pub fn open(&self, rank: i32) -> Option<StreamNumber> {
        self.0.shared.act(|state| state.session.open(rank))
    }

    /// Hands over bytes of a stream; takes from the front of `bytes` what there is room for.
    pub fn write(&self, stream: StreamNumber, bytes: &mut Bytes) -> Written {
        let shared = &self.0.shared;
        shared.act(|state| state.session.write(stream, bytes))
    }

    /// Says that nothing more will be written; [`Event::Acknowledged`] follows when the peer has every byte.
    pub fn finish(&self, stream: StreamNumber) {
        self.0.shared.act(|state| state.session.finish(stream));
    }

    /// Gives a stream up: what is not sent is not, and the peer forgets what it has.
    pub fn reset(&self, stream: StreamNumber, code: StreamCode) {
        self.0.shared.act(|state| state.session.reset(stream, code));
    }

    /// Sends a message once, before the bytes of all streams.
    ///
    /// Fails   gives it back if it is too large, if those before it have not left, or if the session is over
    pub fn send_datagram(&self, datagram: Bytes) -> Result<(), (DatagramError, Bytes)> {
        let shared = &self.0.shared;
        shared.act(|state| state.session.send_datagram(datagram))
    }

    /// Returns how much may be written now so that no more than a sliver lies below whoever writes.
    ///
    /// If that is less than a packet, [`Event::Room`] follows when it is more.
    pub fn credit(&self) -> DataSize {
        let mut state = self.0.shared.lock();
        state.refresh();
        let credit = state.session.credit();
        if credit.as_bytes() < CHUNK_BYTES_MIN.into() {
            state.awaits_credit = true;
            // The carrier asks the kernel to say when there is room.
            if let Some(slot) = state.active() {
                slot.wake.notify_one();
            }
        }
        credit
    }

    /// Returns what is known of the rate of the TCP connection in use.
    pub fn path_rate(&self) -> PathRate {
        let state = self.0.shared.lock();
        PathRate {
            sendable: state.session.sendable_rate(),
            transit: state.session.transit(),
            has_been_full: state.session.has_been_full(),
        }
    }

    /// Ends the session for this reason; what is not sent yet is not.
    pub fn close(&self, code: CloseCode, reason: &str) {
        self.0.shared.close(code, reason);
    }

    /// Waits for the end of the session.
    pub async fn closed(&self) -> DownCause {
        let mut over = self.0.shared.over.subscribe();
        let cause = over.wait_for(Option::is_some).await;
        // The sender lives as long as this handle does.
        cause
            .ok()
            .and_then(|cause| cause.clone())
            .unwrap_or(DownCause::ByUs)
    }

    /// Returns whether all that was written, and is still wanted, has been acknowledged.
    pub fn is_settled(&self) -> bool {
        self.0.shared.lock().session.is_settled()
    }

    /// Returns what has happened so far, in numbers.
    pub fn carried(&self) -> Carried {
        self.0.shared.lock().session.carried()
    }

    /// Returns the smoothed time between sending and the peer's word; zero before one was measured.
    pub fn rtt(&self) -> Duration {
        self.0.shared.lock().session.rtt()
    }

    /// Returns how many TCP connections there are, those that stand by included.
    pub fn carriers(&self) -> usize {
        self.0.shared.lock().session.carriers()
    }

    /// Returns the number of the TCP connection in use.
    pub fn active(&self) -> Option<CarrierNumber> {
        self.0.shared.lock().session.active()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.peer()).finish()
    }
}

impl Events {
    /// Returns what happens next; nothing once the session is over.
    pub async fn next(&mut self) -> Option<Event> {
        self.0.recv().await
    }
}

impl Arriving {
    /// Returns the stream's number at the peer, which counts from zero in the order of opening.
    pub const fn number(&self) -> StreamNumber {
        self.stream
    }

    /// Returns the next bytes, nothing after the last; waits for them to arrive.
    ///
    /// Fails   the sender gave up, or the session is over
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        let shared = &self.connection.0.shared;
        while !self.is_over {
            let arrival = self.wake.notified();
            match shared.act(|state| state.session.read(self.stream)) {
                Read::Bytes(bytes) => return Ok(Some(bytes)),
                Read::Finished => self.is_over = true,
                Read::Reset(code) => {
                    self.is_over = true;
                    return Err(BodyError::Reset(code));
                }
                Read::Unknown => return Err(BodyError::LinkLost),
                Read::Blocked if shared.is_over() => return Err(BodyError::LinkLost),
                Read::Blocked => arrival.await,
            }
        }
        Ok(None)
    }

    /// Returns all of it.
    ///
    /// Fails   as [`Arriving::chunk`]; or with [`BodyError::Truncated`] if there is more than `bytes_max`, and it is stopped
    pub async fn collect(mut self, bytes_max: usize) -> Result<Vec<u8>, BodyError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if all.len() + chunk.len() > bytes_max {
                self.stop(StreamCode::Overload);
                return Err(BodyError::Truncated { missing: 0 });
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    /// Wants no more of it, for this reason.
    pub fn stop(mut self, code: StreamCode) {
        self.stop_now(code);
    }

    fn stop_now(&mut self, code: StreamCode) {
        let shared = &self.connection.0.shared;
        shared.act(|state| {
            state.readers.remove(&self.stream);
            if !self.is_over {
                state.session.stop(self.stream, code);
            }
        });
        self.is_over = true;
    }
}

impl fmt::Debug for Arriving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Arriving").field(&self.stream).finish()
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.stop_now(StreamCode::Cancelled);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared
            .close(CloseCode::Shutdown, "nobody uses the connection any more");
    }
}
