//! One connection behind its lock, for the loop and the tasks of its link.
//!
//! *The idea.* The lock is held for a few calls of the QUIC library and never while a task waits.
//! The loop takes what the library reports and notifies the task concerned: the reader or writer of
//! a stream, or the driver of the link's sender. A task that has changed something marks the
//! connection, and the loop sends in its next turn.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant as Moment;

use bytes::Bytes;
use noq_proto::{
    Connection, ConnectionError, ConnectionHandle, Dir, Event, PathId, StreamEvent as QuicEvent,
    StreamId,
};
use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;
use thalweg_link::hop::sender::{Owner, StreamEvent};
use thalweg_link::hop::{CloseCode, StreamCode};
use thalweg_quic::Watch;
use tokio::sync::{Notify, watch};

use super::driver::{Driven, Driver, DriverSeat, DriverWaker};
use super::marks::Marks;
use crate::close::ToVarInt as _;
use crate::lot::TakesLots;

/// A connection with a peer that has proved its key and is admitted.
pub(super) struct Shared {
    pub(super) peer: NodeId,
    pub(super) remote: SocketAddr,
    handle: ConnectionHandle,
    marks: Arc<Marks>,
    /// The loop.
    pub(super) takes_lots: Arc<dyn TakesLots>,
    moment: fn() -> Moment,
    /// Whether something is to be done for the connection.
    is_marked: AtomicBool,
    /// Whether the loop is at it, and looks for marks afterwards.
    is_settling: AtomicBool,
    /// The driver of the link's sender.
    pub(super) driver: DriverSeat,
    /// Whether it is to be polled.
    is_woken: AtomicBool,
    state: Mutex<State>,
    /// Why the connection has ended, once it has.
    pub(super) over: watch::Sender<Option<ConnectionError>>,
    /// Whether the close of a connection that is over has been sent.
    pub(super) gone: watch::Sender<bool>,
    /// Notified when the peer has opened a stream.
    pub(super) arrival: Notify,
    /// Notified when a datagram has arrived.
    pub(super) datagram: Notify,
}

/// The connection, and what waits on it.
pub(super) struct State {
    pub(super) quic: Connection,
    pub(super) watch: Option<Arc<Watch>>,
    /// The open streams of the link's sender.
    pub(super) owned: BTreeMap<StreamId, Owned>,
    pub(super) readers: BTreeMap<StreamId, Arc<Notify>>,
    pub(super) writers: BTreeMap<StreamId, Arc<Notify>>,
    pub(super) events: Events,
    /// The acknowledgements heard at the last sweep, and since when there was no other.
    heard: (u64, Moment),
}

/// A stream of the sender's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    pub(super) owner: Owner,
    pub(super) written: usize,
}

/// The stream events that the sender has not taken yet.
pub(super) struct Events {
    queue: VecDeque<(Owner, StreamEvent, Instant)>,
    driver: Waker,
    /// Whether the driver has taken everything and is to be woken.
    is_waiting: bool,
    /// Whether acknowledgements wake nothing.
    is_patient: bool,
}

impl Shared {
    pub(super) fn new(
        quic: Connection,
        (peer, remote): (NodeId, SocketAddr),
        handle: ConnectionHandle,
        (marks, takes_lots): (Arc<Marks>, Arc<dyn TakesLots>),
        moment: fn() -> Moment,
    ) -> Arc<Self> {
        let state = quic.congestion_state(PathId::ZERO);
        let watch = state.and_then(|state| thalweg_quic::watch(state.clone_box()));
        Arc::new(Self {
            peer,
            remote,
            handle,
            marks,
            takes_lots,
            moment,
            is_marked: AtomicBool::new(false),
            is_settling: AtomicBool::new(false),
            driver: DriverSeat::default(),
            is_woken: AtomicBool::new(false),
            state: Mutex::new(State {
                quic,
                watch,
                owned: BTreeMap::new(),
                readers: BTreeMap::new(),
                writers: BTreeMap::new(),
                events: Events::new(),
                heard: (0, moment()),
            }),
            over: watch::Sender::new(None),
            gone: watch::Sender::new(false),
            arrival: Notify::new(),
            datagram: Notify::new(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic below is a bug of the QUIC library, and ends the loop.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the connection, and has the loop send what follows.
    pub(super) fn act<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        let done = with(&mut self.lock());
        self.mark();
        done
    }

    /// Has the loop settle this connection.
    pub(super) fn mark(&self) {
        let was_marked = self.is_marked.swap(true, Ordering::SeqCst);
        if !was_marked && !self.is_settling.load(Ordering::SeqCst) {
            self.marks.mark(self.handle);
        }
    }

    /// Records that the loop settles this connection now.
    pub(super) fn begin_settling(&self) {
        self.is_settling.store(true, Ordering::SeqCst);
        self.is_marked.store(false, Ordering::SeqCst);
    }

    /// Records that it has; returns whether the connection was marked meanwhile.
    pub(super) fn end_settling(&self) -> bool {
        self.is_settling.store(false, Ordering::SeqCst);
        self.is_marked.load(Ordering::SeqCst)
    }

    /// Returns whether the driver was woken since the last call.
    pub(super) fn take_woken(&self) -> bool {
        self.is_woken.swap(false, Ordering::SeqCst)
    }

    /// Gives the driver of the link's sender to the loop.
    pub(super) fn drive(self: &Arc<Self>, driver: Driver) {
        let waker = Arc::new(DriverWaker(Arc::downgrade(self)));
        self.driver.take(driver, Waker::from(waker));
        self.handle_woken();
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.borrow().is_some()
    }

    /// Closes the connection from this end, for this reason.
    pub(super) fn close(&self, code: CloseCode, reason: &str) {
        self.end(ConnectionError::LocallyClosed, |quic| {
            quic.close(
                (self.moment)(),
                code.varint(),
                Bytes::copy_from_slice(reason.as_bytes()),
            );
        });
        self.mark();
    }

    /// Records the end of the connection and wakes all that wait on it; only the first end counts.
    pub(super) fn end(&self, why: ConnectionError, act: impl FnOnce(&mut Connection)) {
        let mut state = self.lock();
        if self.is_over() {
            return;
        }
        act(&mut state.quic);
        self.over.send_replace(Some(why));
        for waiting in state.readers.values().chain(state.writers.values()) {
            waiting.notify_one();
        }
        state.events.wake();
        drop(state);
        self.arrival.notify_one();
        self.datagram.notify_one();
    }

    /// Takes what the library reports and notifies those concerned; returns why the connection has
    /// ended, if it has.
    pub(super) fn take_reports(&self, state: &mut State, at: Instant) -> Option<ConnectionError> {
        let mut end = None;
        while let Some(event) = state.quic.poll() {
            match event {
                Event::ConnectionLost { reason } => end = Some(reason),
                Event::Stream(QuicEvent::Opened { dir: Dir::Uni }) => self.arrival.notify_one(),
                Event::Stream(event) => state.handle_stream(&event, at),
                Event::DatagramReceived => self.datagram.notify_one(),
                Event::DatagramsUnblocked => state.events.wake(),
                _ => {}
            }
        }
        end
    }

    /// Returns how long something has been in flight without any acknowledgement.
    pub(super) fn unheard_for(&self, now: Moment) -> Duration {
        let mut state = self.lock();
        let reading = state.watch.as_ref().map(|watch| watch.reading());
        let heard = reading.map_or(0, |reading| reading.heard);
        let waits = reading.is_some_and(|reading| reading.in_flight > DataSize::ZERO);
        if !waits || heard != state.heard.0 {
            state.heard = (heard, now);
        }
        now.saturating_duration_since(state.heard.1).into()
    }
}

impl Driven for Shared {
    fn handle_woken(&self) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.mark();
    }
}

impl State {
    fn handle_stream(&mut self, event: &QuicEvent, at: Instant) {
        let (stream, event) = match *event {
            QuicEvent::Readable { id } => {
                if let Some(reader) = self.readers.get(&id) {
                    reader.notify_one();
                }
                return;
            }
            QuicEvent::Writable { id } => (id, StreamEvent::Writable),
            QuicEvent::Finished { id } => (id, StreamEvent::Acknowledged),
            QuicEvent::Stopped { id, error_code } => {
                let code = StreamCode::from_number(error_code.into_inner());
                (id, StreamEvent::Stopped(code))
            }
            // The sender tries to open a stream whenever it is driven.
            QuicEvent::Available { .. } => return self.events.wake(),
            QuicEvent::Opened { .. } => return,
        };
        if let Some(owned) = self.owned.get(&stream) {
            self.events.push((owned.owner, event, at));
        } else if let Some(writer) = self.writers.get(&stream) {
            writer.notify_one();
        }
    }
}

impl Events {
    fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            driver: Waker::noop().clone(),
            is_waiting: false,
            is_patient: false,
        }
    }

    fn push(&mut self, event: (Owner, StreamEvent, Instant)) {
        let can_wait = self.is_patient && event.1 == StreamEvent::Acknowledged;
        self.queue.push_back(event);
        if !can_wait {
            self.wake();
        }
    }

    /// Takes the events, in order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (Owner, StreamEvent, Instant)> + '_ {
        self.queue.drain(..)
    }

    /// Registers the driver for the next event; if `is_patient`, not for acknowledgements alone.
    pub(super) fn listen(&mut self, driver: &Waker, is_patient: bool) {
        self.driver.clone_from(driver);
        self.is_patient = is_patient;
        self.is_waiting = true;
    }

    fn wake(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            self.driver.wake_by_ref();
        }
    }
}
