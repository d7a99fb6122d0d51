//! The state that a session's tasks share: the session behind its lock, and the tasks to wake.
//!
//! *The idea.* The session is changed inside [`Shared::act`], which then dispatches its events and
//! wakes the carrier that has something to send, all under the lock: waking never waits.
//!
//! *What it does not do.* It waits for nothing itself.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;
use thalweg_link::hop::sender::PathRate;
use thalweg_link::hop::{CloseCode, DownCause, StreamCode};
use thalweg_link::outbox::CHUNK_BYTES_MIN;
use thalweg_link::outbox::gate::WAKE;
use thalweg_link::tcp_mux::{
    CarrierNumber, Decoder, Event, Numbered, Session, SessionError, StreamNumber,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, watch};

use super::clear::ClearLoop;
use super::line::{ByteCounts, printable};
use super::queue::EventQueue;
use super::socket;
use super::traffic::Traffic;
use super::waker::CarrierWaker;
use crate::clock::Clock;
use crate::lot::TakesLots;
use crate::task;

/// Maximum interval between kernel queries while something is sent: window and rate change even if
/// nothing is queued.
const QUERY_INTERVAL: Duration = Duration::from_millis(200);

/// The state that a session's tasks share.
pub(super) struct Shared {
    pub(super) peer: NodeId,
    pub(super) clock: Clock,
    /// The loop that runs its carriers, if it is in the clear and there is one.
    clear: Option<Arc<ClearLoop>>,
    /// Notified when a carrier may be missing, and at the end.
    pub(super) standby_needed: Notify,
    pub(super) datagrams: Notify,
    pub(super) over: watch::Sender<Option<DownCause>>,
    /// Number of running carriers; those of a session that is over still send its last frame.
    pub(super) running: watch::Sender<usize>,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) session: Session,
    pub(super) carriers: Numbered<CarrierNumber, Slot>,
    /// Traffic of carriers that are gone.
    pub(super) past: Traffic,
    pub(super) readers: Numbered<StreamNumber, Arc<Notify>>,
    /// Streams of [`Writer`](super::Writer)s, which wait themselves.
    pub(super) writers: Numbered<StreamNumber, Arc<End>>,
    /// `None` once the session is over.
    arrivals: Option<UnboundedSender<(StreamNumber, Instant)>>,
    pub(super) events: EventQueue,
    /// Whether a caller was given too little credit and must be notified of more.
    pub(super) awaits_credit: bool,
    last_query: Option<KernelQuery>,
    next: u64,
    /// Whether a task of its own runs the session's timers, because there is no carrier.
    is_watched: bool,
}

/// The notification of a [`Writer`](super::Writer) and how its stream ended.
#[derive(Debug, Default)]
pub(super) struct End {
    pub(super) wake: Notify,
    /// `None`: the peer has all of it; a code: the peer stopped it.
    pub(super) how: OnceLock<Option<StreamCode>>,
}

/// The session's lock, for several changes at once; when it is dropped, events are dispatched and
/// the carrier is woken.
pub(super) struct Hold<'a> {
    shared: &'a Shared,
    state: MutexGuard<'a, State>,
    before: Pending,
}

/// The active carrier, and whether control frames and stream data are pending.
type Pending = (Option<CarrierNumber>, bool, bool);

/// The last query of the kernel.
#[derive(Clone, Copy)]
struct KernelQuery {
    /// The carrier that was queried.
    of: CarrierNumber,
    at: Instant,
}

/// A TCP connection of the session.
pub(super) struct Slot {
    waker: CarrierWaker,
    socket: Arc<dyn AsFd + Send + Sync>,
    pub(super) remote: Option<SocketAddr>,
    pub(super) counts: Arc<ByteCounts>,
    /// The kernel's last reading, and the bytes moved either way by then.
    known: Option<(socket::Reading, u64)>,
}

impl Shared {
    /// Returns the shared state, and the receiver of incoming streams.
    pub(super) fn new(
        session: Session,
        peer: NodeId,
        clock: Clock,
        clear: Option<Arc<ClearLoop>>,
    ) -> (Arc<Self>, UnboundedReceiver<(StreamNumber, Instant)>) {
        let (arrivals, arriving) = unbounded_channel();
        let shared = Self {
            peer,
            clock,
            clear,
            standby_needed: Notify::new(),
            datagrams: Notify::new(),
            over: watch::Sender::new(None),
            running: watch::Sender::new(0),
            state: Mutex::new(State {
                session,
                carriers: Numbered::new(),
                past: Traffic::default(),
                readers: Numbered::new(),
                writers: Numbered::new(),
                arrivals: Some(arrivals),
                events: EventQueue::new(),
                awaits_credit: false,
                last_query: None,
                next: 0,
                is_watched: false,
            }),
        };
        (Arc::new(shared), arriving)
    }

    /// Adds a connection after its greeting; returns whether the session uses it.
    pub(super) fn take_in(&self, number: CarrierNumber, slot: Slot, decoder: Decoder) -> bool {
        let now = self.clock.now();
        self.act(|state| {
            let is_needed = state.session.handle_carrier(number, decoder, now);
            if is_needed {
                state.next = state.next.max(number.0 + 1);
                state.carriers.insert(number, slot);
            }
            is_needed
        })
    }

    /// Returns the loop that runs this session's carriers, if one does.
    pub(super) fn clear(&self) -> Option<&ClearLoop> {
        self.clear.as_deref().filter(|clear| clear.is_running())
    }

    /// Returns what takes lots for that loop; it gives them back once it has ended.
    pub(super) fn takes_lots(&self) -> Option<&Arc<dyn TakesLots>> {
        self.clear.as_deref().map(ClearLoop::takes_lots)
    }

    /// Removes a TCP connection; if it was the last, starts a task that runs the session's timers.
    pub(super) fn lose(self: &Arc<Self>, number: CarrierNumber) {
        let needs_watching = self.act_as(number, |state, now| {
            state.lose(number, now);
            let is_alone = state.session.carriers() == 0 && !self.is_over();
            is_alone && !std::mem::replace(&mut state.is_watched, true)
        });
        if needs_watching {
            let shared = self.clone();
            let watching = shared.clone().watch(number);
            tokio::spawn(task::alone_or(watching, move || shared.fail_internally()));
        }
    }

    /// Runs the timers of a session without a carrier, until one joins or the session is over.
    ///
    /// If a carrier joins and leaves in between, this task notices at its next turn, so no second
    /// one is started.
    async fn watch(self: Arc<Self>, lost: CarrierNumber) {
        let mut over = self.over.subscribe();
        loop {
            let until = self.act_as(lost, |state, now| {
                state.is_watched = state.session.carriers() == 0;
                state.is_watched.then(|| {
                    state.check_timeouts(now);
                    state.session.poll_timeout(lost)
                })
            });
            let Some(until) = until.filter(|_| !self.is_over()) else {
                return;
            };
            tokio::select! {
                () = self.clock.sleep_until(until) => {}
                // The sender lives as long as the shared state.
                _ = over.wait_for(Option::is_some) => return,
            }
        }
    }

    /// Changes the session, then dispatches its events and wakes its carrier.
    pub(super) fn act<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.hold())
    }

    /// Locks the session for several changes.
    pub(super) fn hold(&self) -> Hold<'_> {
        let state = self.lock();
        Hold {
            before: state.wants(),
            shared: self,
            state,
        }
    }

    /// Like [`Shared::act`], for a carrier, which need not be woken for its own session.
    pub(super) fn act_as<T>(
        &self,
        number: CarrierNumber,
        act: impl FnOnce(&mut State, Instant) -> T,
    ) -> T {
        let now = self.clock.now();
        let mut state = self.lock();
        let before = state.wants();
        let result = act(&mut state, now);
        self.dispatch_events(&mut state, Some(now));
        if state.session.active() != Some(number) {
            state.wake_if_new(before);
        }
        if state.awaits_credit && state.session.credit(now).as_bytes() >= CHUNK_BYTES_MIN.into() {
            state.awaits_credit = false;
            state.events.push(Event::Room, now);
        }
        result
    }

    /// Ends the session because the peer broke the protocol.
    pub(super) fn fail(&self, error: SessionError) {
        tracing::debug!(peer = %self.peer.short(), %error, "tcp session broken by the peer");
        self.end(DownCause::Other(error.to_string()));
        self.act(|state| state.session.close(CloseCode::Protocol, error.to_string()));
    }

    /// Ends the session because the peer no longer has it; an earlier cause takes precedence.
    pub(super) fn end_with_peer(&self, code: CloseCode, reason: String) {
        self.end(DownCause::ByPeer {
            code,
            reason: reason.clone(),
        });
        self.act(|state| state.session.close(code, reason));
    }

    /// Ends the session because one of its tasks has panicked.
    pub(super) fn fail_internally(&self) {
        self.close(CloseCode::Fault, "internal error");
    }

    pub(super) fn close(&self, code: CloseCode, reason: &str) {
        self.end(DownCause::ByUs);
        self.act(|state| {
            state.session.close(code, reason.into());
            state.wake_all();
        });
    }

    /// Returns whether the session has ended, for any reason.
    pub(super) fn is_over(&self) -> bool {
        self.over.borrow().is_some()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // The session's code is the only code under this lock that can panic, and a panic there is
        // a bug.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the cause of the end; the first one counts.
    fn end(&self, cause: DownCause) {
        self.over.send_if_modified(|over| {
            let is_first = over.is_none();
            if is_first {
                *over = Some(cause);
            }
            is_first
        });
    }

    /// Dispatches the session's events; reads the clock only if there are any and `now` is `None`.
    fn dispatch_events(&self, state: &mut State, mut now: Option<Instant>) {
        while let Some(event) = state.session.poll_event() {
            let now = *now.get_or_insert_with(|| self.clock.now());
            match event {
                Event::Opened(stream) => {
                    state.readers.insert(stream, Arc::new(Notify::new()));
                    if let Some(arrivals) = &state.arrivals {
                        // The receiver is gone once the connection is dropped.
                        let _ = arrivals.send((stream, now));
                    }
                }
                Event::Readable(stream) => {
                    if let Some(wake) = state.readers.get(stream) {
                        wake.notify_one();
                    }
                }
                Event::Datagram => self.datagrams.notify_one(),
                Event::Room => {
                    state.wake_writers();
                    state.events.push(event, now);
                }
                Event::Writable(stream)
                | Event::Acknowledged(stream)
                | Event::Stopped(stream, _)
                    if state.writers.contains(stream) =>
                {
                    state.notify_writer(stream, &event);
                }
                Event::FailedOver { from, to } => {
                    tracing::info!(peer = %self.peer.short(), %from, %to, "tcp fail-over");
                    state.wake_all();
                    self.standby_needed.notify_one();
                    state.events.push(event, now);
                }
                Event::Closed { code, reason } => {
                    let reason = printable(&reason);
                    self.end(DownCause::ByPeer {
                        code,
                        reason: reason.clone(),
                    });
                    state.events.push(Event::Closed { code, reason }, now);
                }
                Event::Lost => {
                    self.end(DownCause::TimedOut);
                    state.events.push(Event::Lost, now);
                }
                event => state.events.push(event, now),
            }
        }
        if self.is_over() && state.arrivals.take().is_some() {
            state.events.close();
            for (_, wake) in state.readers.iter() {
                wake.notify_one();
            }
            state.wake_writers();
            self.datagrams.notify_waiters();
            self.standby_needed.notify_one();
            state.wake_all();
        }
    }
}

impl Deref for Hold<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Hold<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.shared.dispatch_events(&mut self.state, None);
        self.state.wake_if_new(self.before);
    }
}

impl State {
    /// Returns the number for the next carrier to dial.
    pub(super) fn number(&mut self) -> CarrierNumber {
        let number = CarrierNumber(self.next);
        self.next += 1;
        number
    }

    /// Returns how much may be written now; if it is less than a packet, [`Event::Room`] follows
    /// when there is more.
    pub(super) fn credit(&mut self, now: Instant) -> DataSize {
        self.refresh(now);
        let credit = self.session.credit(now);
        if credit.as_bytes() < CHUNK_BYTES_MIN.into() {
            self.awaits_credit = true;
            // Woken to ask the kernel for a notification of room.
            if let Some(slot) = self.active() {
                slot.waker.wake();
            }
        }
        credit
    }

    /// Returns the rate estimate of the active TCP connection.
    pub(super) fn path_rate(&self) -> PathRate {
        PathRate {
            sendable: self.session.sendable_rate(),
            transit: self.session.transit(),
            packet: DataSize::ZERO,
            has_been_full: self.session.has_been_full(),
        }
    }

    /// Queries the kernel about the active carrier, unless the last reading leaves room for a full
    /// quota of unsent bytes, and is either fresh or little used up.
    ///
    /// The pacer subtracts what was written since the reading, so a stale one allows too little,
    /// never too much. Querying at each step of each ADU cost a fifth of a relay's CPU time.
    pub(super) fn refresh(&mut self, now: Instant) {
        let Some(number) = self.session.active() else {
            return;
        };
        let is_enough = |last_query: KernelQuery| {
            let is_fresh = now < last_query.at + WAKE;
            is_fresh || (now < last_query.at + QUERY_INTERVAL && !self.session.is_used_up())
        };
        let last_query = self.last_query.filter(|last_query| last_query.of == number);
        let sliver = self.session.unsent_max();
        if last_query.is_some_and(is_enough)
            && sliver.is_none_or(|sliver| self.session.credit(now) >= sliver)
        {
            return;
        }
        self.query_kernel(number, now);
    }

    /// Queries the kernel about a carrier that may have stalled, and runs the session's timers.
    pub(super) fn check_timeouts(&mut self, now: Instant) {
        if self.session.wants_kernel(now)
            && let Some(number) = self.session.active()
        {
            self.query_kernel(number, now);
        }
        self.session.handle_timeout(now);
    }

    /// Queries the kernel about the active carrier.
    fn query_kernel(&mut self, number: CarrierNumber, now: Instant) {
        let path = self
            .active()
            .and_then(|slot| socket::path(&slot.socket).ok());
        if let Some(path) = path {
            self.session.handle_kernel(number, path, now);
            self.last_query = Some(KernelQuery {
                of: number,
                at: now,
            });
        }
    }

    pub(super) fn lose(&mut self, number: CarrierNumber, now: Instant) {
        if let Some(slot) = self.carriers.remove(number) {
            let known = socket::reading(&slot.socket).ok();
            slot.add_to(&mut self.past, known.as_ref());
        }
        self.session.handle_carrier_lost(number, now);
    }

    /// Returns whether the session or its user waits for credit.
    pub(super) fn wants_credit(&self) -> bool {
        self.awaits_credit || self.session.has_more()
    }

    fn wants(&self) -> Pending {
        let session = &self.session;
        (session.active(), session.has_word(), session.has_more())
    }

    /// Wakes the active carrier if it has something new to send.
    fn wake_if_new(&self, before: Pending) {
        let (active, has_word, has_more) = self.wants();
        let is_new = active != before.0 || (has_word && !before.1) || (has_more && !before.2);
        if let Some(slot) = self.active().filter(|_| is_new) {
            slot.waker.wake();
        }
    }

    pub(super) fn active(&self) -> Option<&Slot> {
        self.carriers.get(self.session.active()?)
    }

    fn wake_all(&self) {
        for (_, slot) in self.carriers.iter() {
            slot.waker.wake();
        }
    }

    pub(super) fn forget_reader(&mut self, stream: StreamNumber) {
        self.readers.remove(stream);
    }

    fn wake_writers(&self) {
        for (_, end) in self.writers.iter() {
            end.wake.notify_one();
        }
    }

    fn notify_writer(&mut self, stream: StreamNumber, event: &Event) {
        let Some(end) = self.writers.get(stream) else {
            return;
        };
        let ended = match event {
            Event::Acknowledged(_) => Some(None),
            Event::Stopped(_, code) => Some(Some(*code)),
            _ => None,
        };
        if let Some(how) = ended {
            // A stream ends once.
            let _ = end.how.set(how);
        }
        end.wake.notify_one();
        if ended.is_some() {
            self.writers.remove(stream);
        }
    }
}

impl Slot {
    pub(super) fn new(
        waker: CarrierWaker,
        socket: Arc<impl AsFd + Send + Sync + 'static>,
        remote: Option<SocketAddr>,
        counts: Arc<ByteCounts>,
    ) -> Self {
        Self {
            waker,
            socket,
            remote,
            counts,
            known: None,
        }
    }

    /// Returns the kernel's reading of the connection; for a standby that moved no bytes, the
    /// previous one.
    ///
    /// All links are sampled several times a second, and half of their connections are standbys.
    pub(super) fn reading(&mut self, is_active: bool) -> Option<socket::Reading> {
        let counts = self.counts.sent() + self.counts.received();
        if let Some((known, then)) = self.known
            && !is_active
            && then == counts
        {
            return Some(known);
        }
        let reading = socket::reading(&self.socket).ok();
        self.known = reading.map(|reading| (reading, counts));
        reading
    }

    /// Adds the connection's traffic, with the kernel's counts.
    pub(super) fn add_to(&self, traffic: &mut Traffic, known: Option<&socket::Reading>) {
        traffic.sent += DataSize::from_bytes(self.counts.sent());
        traffic.received += DataSize::from_bytes(self.counts.received());
        if let Some(known) = known {
            traffic.segments += known.segments;
            traffic.segments_lost += known.lost;
        }
    }
}
