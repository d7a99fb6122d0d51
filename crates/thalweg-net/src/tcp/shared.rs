//! What the tasks of a session share: the session behind its lock, and whom to wake for what.
//!
//! *The idea.* Whoever changes the session does so in [`Shared::act`]: what it tells then is passed on, and who has something
//! to send is woken, with the lock still held; waking waits for nobody.
//!
//! *What it does not do.* It waits for nothing itself.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_core::hop::sender::PathRate;
use thalweg_core::hop::{CloseCode, DownCause};
use thalweg_core::id::NodeId;
use thalweg_core::outbox::CHUNK_BYTES_MIN;
use thalweg_core::outbox::gate::WAKE;
use thalweg_core::pace::{
    CarrierNumber, Decoder, Event, Numbered, Session, SessionError, StreamNumber,
};
use thalweg_core::time::{Duration, Instant};
use thalweg_core::units::DataSize;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, watch};

use super::events::Told;
use super::line::{Line, Moved, printable};
use super::stream::End;
use super::traffic::Traffic;
use super::{carrier, socket};
use crate::clock::Clock;
use crate::task;

/// How often the kernel is asked at least while something is sent, for its window and its rate change also where nothing waits.
const ASK_INTERVAL: Duration = Duration::from_millis(200);

/// What the tasks of a session share.
pub(super) struct Shared {
    pub(super) peer: NodeId,
    pub(super) clock: Clock,
    /// Woken when a carrier may be missing, and at the end.
    pub(super) keeper: Notify,
    pub(super) datagrams: Notify,
    pub(super) over: watch::Sender<Option<DownCause>>,
    /// Tasks of TCP connections that have not ended: those of a session that is over say its last word.
    pub(super) running: watch::Sender<usize>,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) session: Session,
    pub(super) carriers: Numbered<CarrierNumber, Slot>,
    /// What went over those that are gone.
    pub(super) past: Traffic,
    pub(super) readers: Numbered<StreamNumber, Arc<Notify>>,
    /// Streams that are written by someone who waits for them himself.
    pub(super) writers: Numbered<StreamNumber, Arc<End>>,
    /// None once the session is over.
    arrivals: Option<UnboundedSender<(StreamNumber, Instant)>>,
    pub(super) told: Told,
    /// Whether somebody was told that there is no credit, and is to be told when there is some.
    pub(super) awaits_credit: bool,
    asked: Option<Asked>,
    next: u64,
    /// Whether a task judges the session because no carrier does.
    is_watched: bool,
}

/// The session's lock, for as many things as are to be done at once: what came of them is told at its end, and who has
/// something to send then is woken.
pub(super) struct Hold<'a> {
    shared: &'a Shared,
    state: MutexGuard<'a, State>,
    before: Wants,
}

/// Who carries, and whether there is something that needs no credit, and something that does.
type Wants = (Option<CarrierNumber>, bool, bool);

/// What was asked of the kernel.
#[derive(Clone, Copy)]
struct Asked {
    /// The carrier.
    of: CarrierNumber,
    at: Instant,
}

/// A TCP connection, as the session's tasks know it.
pub(super) struct Slot {
    pub(super) call: Arc<carrier::Call>,
    pub(super) socket: Arc<TcpStream>,
    pub(super) remote: Option<SocketAddr>,
    pub(super) moved: Arc<Moved>,
    /// What the kernel said last, and how much had gone either way by then.
    known: Option<(socket::Reading, u64)>,
}

impl Shared {
    /// Returns what is shared, and the streams that arrive.
    pub(super) fn new(
        session: Session,
        peer: NodeId,
        clock: Clock,
    ) -> (Arc<Self>, UnboundedReceiver<(StreamNumber, Instant)>) {
        let (arrivals, arriving) = unbounded_channel();
        let shared = Self {
            peer,
            clock,
            keeper: Notify::new(),
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
                told: Told::new(),
                awaits_credit: false,
                asked: None,
                next: 0,
                is_watched: false,
            }),
        };
        (Arc::new(shared), arriving)
    }

    /// Adds a connection over which both ends have greeted, and runs it; returns whether it is of use.
    pub(super) fn join(
        self: &Arc<Self>,
        number: CarrierNumber,
        line: Line,
        decoder: Decoder,
    ) -> bool {
        let slot = Slot {
            call: Arc::default(),
            socket: line.socket().clone(),
            // Of a socket that has just been reset nobody knows it any more.
            remote: line.socket().peer_addr().ok(),
            moved: line.moved().clone(),
            known: None,
        };
        let call = slot.call.clone();
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
            self.running.send_modify(|running| *running += 1);
            let shared = self.clone();
            tokio::spawn(async move {
                let running = carrier::run(shared.clone(), number, line, call);
                task::alone_or(running, || shared.fail_here()).await;
                shared.running.send_modify(|running| *running -= 1);
            });
        }
        is_of_use
    }

    /// Takes in that a TCP connection is gone; if it was the last, sees to it that the session is judged all the same.
    pub(super) fn lose(self: &Arc<Self>, number: CarrierNumber) {
        let is_to_be_watched = self.act_as(number, |state, now| {
            state.lose(number, now);
            let is_alone = state.session.carriers() == 0 && !self.is_over();
            is_alone && !std::mem::replace(&mut state.is_watched, true)
        });
        if is_to_be_watched {
            let shared = self.clone();
            let watching = shared.clone().watch(number);
            tokio::spawn(task::alone_or(watching, move || shared.fail_here()));
        }
    }

    /// Judges a session that has no carrier, whose task would do so: until one joins, or the session is over.
    ///
    /// One that has joined and gone meanwhile is no reason for a second such task: this one sees when it wakes.
    async fn watch(self: Arc<Self>, lost: CarrierNumber) {
        let mut over = self.over.subscribe();
        loop {
            let until = self.act_as(lost, |state, now| {
                state.is_watched = state.session.carriers() == 0;
                state.is_watched.then(|| {
                    state.judge(now);
                    state.session.poll_timeout(lost)
                })
            });
            let Some(until) = until.filter(|_| !self.is_over()) else {
                return;
            };
            tokio::select! {
                () = self.clock.sleep_until(until) => {}
                // The sender lives as long as what is shared does.
                _ = over.wait_for(Option::is_some) => return,
            }
        }
    }

    /// Does something with the session, tells what came of it, and wakes who has something to send.
    pub(super) fn act<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.hold())
    }

    /// Begins to do several things with the session.
    pub(super) fn hold(&self) -> Hold<'_> {
        let state = self.lock();
        Hold {
            before: state.wants(),
            shared: self,
            state,
        }
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
        self.tell(&mut state, Some(now));
        if state.session.active() != Some(number) {
            state.wake_for(before);
        }
        if state.awaits_credit && state.session.credit(now).as_bytes() >= CHUNK_BYTES_MIN.into() {
            state.awaits_credit = false;
            state.told.say(Event::Room, now);
        }
        result
    }

    /// Ends the session because the peer broke the protocol.
    pub(super) fn fail(&self, error: SessionError) {
        tracing::debug!(peer = %self.peer.short(), %error, "tcp session broken by the peer");
        self.end(DownCause::Other(error.to_string()));
        self.act(|state| state.session.close(CloseCode::Protocol, error.to_string()));
    }

    /// Ends the session because the peer has none such any more; the first cause that was known is the one that is told.
    pub(super) fn end_with_peer(&self, code: CloseCode, reason: String) {
        self.end(DownCause::ByPeer {
            code,
            reason: reason.clone(),
        });
        self.act(|state| state.session.close(code, reason));
    }

    /// Ends the session because a task of it has panicked.
    pub(super) fn fail_here(&self) {
        self.close(CloseCode::Fault, "this node has failed at this session");
    }

    pub(super) fn close(&self, code: CloseCode, reason: &str) {
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

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
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

    /// Passes on what has happened; the clock is asked if something has, and it was not before.
    fn tell(&self, state: &mut State, mut now: Option<Instant>) {
        while let Some(event) = state.session.poll_event() {
            let now = *now.get_or_insert_with(|| self.clock.now());
            match event {
                Event::Opened(stream) => {
                    state.readers.insert(stream, Arc::new(Notify::new()));
                    if let Some(arrivals) = &state.arrivals {
                        // Who no longer accepts streams has dropped the connection.
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
                    state.told.say(event, now);
                }
                Event::Writable(stream)
                | Event::Acknowledged(stream)
                | Event::Stopped(stream, _)
                    if state.writers.contains(stream) =>
                {
                    state.tell_writer(stream, &event);
                }
                Event::FailedOver { from, to } => {
                    tracing::info!(peer = %self.peer.short(), %from, %to, "tcp fail-over");
                    state.wake_all();
                    self.keeper.notify_one();
                    state.told.say(event, now);
                }
                Event::Closed { code, reason } => {
                    let reason = printable(&reason);
                    self.end(DownCause::ByPeer {
                        code,
                        reason: reason.clone(),
                    });
                    state.told.say(Event::Closed { code, reason }, now);
                }
                Event::Lost => {
                    self.end(DownCause::TimedOut);
                    state.told.say(Event::Lost, now);
                }
                event => state.told.say(event, now),
            }
        }
        if self.is_over() && state.arrivals.take().is_some() {
            state.told.close();
            for (_, wake) in state.readers.iter() {
                wake.notify_one();
            }
            state.wake_writers();
            self.datagrams.notify_waiters();
            self.keeper.notify_one();
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
        self.shared.tell(&mut self.state, None);
        self.state.wake_for(self.before);
    }
}

impl State {
    /// Returns the number of the next carrier to be dialled.
    pub(super) fn number(&mut self) -> CarrierNumber {
        let number = CarrierNumber(self.next);
        self.next += 1;
        number
    }

    /// Returns how much may be written now; if that is less than a packet, room is told of when it is more.
    pub(super) fn credit(&mut self, now: Instant) -> DataSize {
        self.refresh(now);
        let credit = self.session.credit(now);
        if credit.as_bytes() < CHUNK_BYTES_MIN.into() {
            self.awaits_credit = true;
            // The carrier asks the kernel to say when there is room.
            if let Some(slot) = self.active() {
                slot.call.call();
            }
        }
        credit
    }

    /// Returns what is known of the rate of the TCP connection in use.
    pub(super) fn path_rate(&self) -> PathRate {
        PathRate {
            sendable: self.session.sendable_rate(),
            transit: self.session.transit(),
            packet: DataSize::ZERO,
            has_been_full: self.session.has_been_full(),
        }
    }

    /// Asks the kernel about the active carrier, unless what it said leaves room for a sliver, and is fresh or has let little
    /// through.
    ///
    /// The pacer counts down what is handed over since, so what is not asked anew lets through less than there is room for,
    /// never more. To ask for each step of each ADU was a fifth of what a relay computed.
    pub(super) fn refresh(&mut self, now: Instant) {
        let Some(number) = self.session.active() else {
            return;
        };
        let is_enough = |asked: Asked| {
            let is_fresh = now < asked.at + WAKE;
            is_fresh || (now < asked.at + ASK_INTERVAL && !self.session.is_used_up())
        };
        let asked = self.asked.filter(|asked| asked.of == number);
        let sliver = self.session.unsent_max();
        if asked.is_some_and(is_enough)
            && sliver.is_none_or(|sliver| self.session.credit(now) >= sliver)
        {
            return;
        }
        self.ask(number, now);
    }

    /// Asks the kernel about a carrier that seems to have stalled, and has the session judge it.
    pub(super) fn judge(&mut self, now: Instant) {
        if self.session.wants_kernel(now)
            && let Some(number) = self.session.active()
        {
            self.ask(number, now);
        }
        self.session.handle_timeout(now);
    }

    /// Asks the kernel about the active carrier.
    fn ask(&mut self, number: CarrierNumber, now: Instant) {
        let path = self
            .active()
            .and_then(|slot| socket::path(&slot.socket).ok());
        if let Some(path) = path {
            self.session.handle_kernel(number, path, now);
            self.asked = Some(Asked {
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

    /// Returns whether somebody waits for credit, in the session or above it.
    pub(super) fn wants_credit(&self) -> bool {
        self.awaits_credit || self.session.has_more()
    }

    fn wants(&self) -> Wants {
        let session = &self.session;
        (session.active(), session.has_word(), session.has_more())
    }

    /// Wakes the active carrier if it has something to send that it had not before; otherwise it knows.
    fn wake_for(&self, before: Wants) {
        let (active, has_word, has_more) = self.wants();
        let is_news = active != before.0 || (has_word && !before.1) || (has_more && !before.2);
        if let Some(slot) = self.active().filter(|_| is_news) {
            slot.call.call();
        }
    }

    pub(super) fn active(&self) -> Option<&Slot> {
        self.carriers.get(self.session.active()?)
    }

    fn wake_all(&self) {
        for (_, slot) in self.carriers.iter() {
            slot.call.call();
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

    fn tell_writer(&mut self, stream: StreamNumber, event: &Event) {
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
    /// Returns what the kernel says of the connection; what it said before, if nothing has gone over one that stands by.
    ///
    /// All links are read some times a second, and half of their connections stand by.
    pub(super) fn reading(&mut self, is_active: bool) -> Option<socket::Reading> {
        let moved = self.moved.sent() + self.moved.received();
        if let Some((known, then)) = self.known
            && !is_active
            && then == moved
        {
            return Some(known);
        }
        let reading = socket::reading(&self.socket).ok();
        self.known = reading.map(|reading| (reading, moved));
        reading
    }

    /// Adds what went over the connection, with what the kernel says of it.
    pub(super) fn add_to(&self, traffic: &mut Traffic, known: Option<&socket::Reading>) {
        traffic.sent += DataSize::from_bytes(self.moved.sent());
        traffic.received += DataSize::from_bytes(self.moved.received());
        if let Some(known) = known {
            traffic.segments += known.segments;
            traffic.segments_lost += known.lost;
        }
    }
}
