//! What drives a link's sender.
//!
//! *The idea.* The machine and its connection lie behind one lock. Whoever has an ADU puts it in and pumps on the spot, so
//! that a small one is in QUIC's hands before the call returns; one task a link does the rest: it is woken for credit, for
//! the end of a stream, for a deadline. Outcomes are told when the lock is open again.
//!
//! *What it does not do.* It orders nothing: [`thalweg_core::hop::sender`] does.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, Stream as _};
use iroh::endpoint::Connection;
use thalweg_core::adu::Header;
use thalweg_core::histogram::Recent;
use thalweg_core::hop::OrderedId;
use thalweg_core::hop::sender::{Arrived, Event, Owner, Sender, Ticket, Transport as _};
use thalweg_core::outbox::Settings;
use thalweg_core::outbox::census::OutboxReading;
use thalweg_core::time::Instant;
use thalweg_quic::Reading;
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};

use super::Link;
use super::outcome::{Outcome, SendOptions};
use super::quic::{Ended, Ending, Quic};
use crate::clock::Clock;

/// The sending half of a link.
pub(crate) struct Outgoing {
    state: Mutex<State>,
    /// Told when something has ended.
    changed: Notify,
}

struct State {
    sender: Sender<u32, Posted>,
    quic: Quic,
    /// From an ADU's sending to its acknowledgement.
    latency: Recent,
    finishing: HashMap<OrderedId, Vec<oneshot::Sender<Outcome>>>,
    /// When the driver wakes up by itself.
    armed: Instant,
    /// Whether the connection is gone, so that nothing more can be put in.
    is_lost: bool,
}

/// When an ADU was sent, and who is told what became of it.
type Posted = (Instant, Reply);

/// Who is told what became of an ADU.
pub(super) struct Reply {
    pub(super) to: To,
    /// What it has of the room for those that would wait rather than be dropped.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

pub(super) enum To {
    /// The link's [`Receiver`](super::Receiver).
    Receiver,
    /// Whoever waits for it.
    Caller(oneshot::Sender<Outcome>),
}

impl Outgoing {
    pub(super) fn new(connection: Connection, seed: u64) -> Self {
        let settings = Settings {
            seed,
            ..Settings::default()
        };
        Self {
            state: Mutex::new(State {
                sender: Sender::new(settings),
                quic: Quic::new(connection),
                latency: Recent::default(),
                finishing: HashMap::new(),
                armed: Instant::NEVER,
                is_lost: false,
            }),
            changed: Notify::new(),
        }
    }

    /// Returns how many ADUs have no outcome.
    pub(super) fn len(&self) -> usize {
        self.lock().sender.len()
    }

    /// Returns what is known of the path.
    pub(super) fn reading(&self) -> Option<Reading> {
        self.lock().quic.reading()
    }

    /// Returns what waits, how long ADUs took lately, and what was given up.
    pub(super) fn outbox(&self, now: Instant) -> OutboxReading {
        let state = self.lock();
        let outbox = state.sender.outbox();
        let names: BTreeMap<_, _> = state.sender.flows().collect();
        OutboxReading::new(
            &outbox.census(),
            state.quic.reading().and_then(|reading| reading.sendable),
            state.latency.percentiles(now),
            *outbox.drops(),
            |flow| names.get(&flow).map(|id| (id.stream, id.epoch)),
        )
    }

    /// Looks which path is taken, and forgets flows that are over.
    pub(super) fn look(&self, now: Instant) {
        let mut state = self.lock();
        state.quic.look();
        state.sender.sweep(now);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic below is a bug of the machine's; what it leaves is whole, for each step of it is.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Lets the machine hand over what can go.
    fn pump(&mut self, now: Instant) {
        loop {
            self.sender.pump(now, &mut self.quic);
            if self.sender.outbox().is_empty() {
                return;
            }
            // Credit that came between the last look and the asking wakes nobody.
            let before = self.quic.credit();
            self.quic.register();
            if self.quic.credit() <= before {
                return;
            }
        }
    }

    /// Wakes the driver if it would sleep past the next deadline.
    fn arm(&mut self) {
        if self.sender.poll_timeout() < self.armed {
            self.quic.waker.wake_by_ref();
        }
    }

    fn events(&mut self) -> Vec<Event<Posted>> {
        std::iter::from_fn(|| self.sender.poll_event()).collect()
    }
}

impl Link {
    /// Puts an ADU in; returns its name unless it has ended already.
    pub(super) fn push(
        &self,
        header: Header,
        payload: Arrived,
        options: SendOptions,
        reply: Reply,
    ) -> Option<Ticket> {
        let now = self.now();
        let mut state = self.0.outgoing.lock();
        if state.is_lost {
            drop(state);
            let outcome = Outcome::LinkLost;
            self.tell(Event::Outcome {
                data: (now, reply),
                header,
                outcome,
            });
            return None;
        }
        let ticket = state
            .sender
            .push(now, header, payload, options, (now, reply));
        self.pump_and_tell(now, state);
        ticket
    }

    /// Takes more of a payload; returns whether its ADU is still being sent.
    pub(super) fn push_chunks(
        &self,
        ticket: Ticket,
        chunks: impl IntoIterator<Item = Bytes>,
    ) -> bool {
        let now = self.now();
        let mut state = self.0.outgoing.lock();
        let mut is_wanted = true;
        for chunk in chunks {
            is_wanted = state.sender.push_chunk(ticket, chunk);
        }
        self.pump_and_tell(now, state);
        is_wanted
    }

    /// Gives an ADU up.
    pub(super) fn give_up(&self, ticket: Ticket, outcome: Outcome) {
        let now = self.now();
        let mut state = self.0.outgoing.lock();
        state.sender.cancel(ticket, outcome);
        self.pump_and_tell(now, state);
    }

    /// Ends a sequence and waits until the peer has it.
    pub(super) async fn end_ordered(&self, id: OrderedId) -> Outcome {
        let (done, ended) = oneshot::channel();
        {
            let now = self.now();
            let mut state = self.0.outgoing.lock();
            if state.is_lost {
                return Outcome::LinkLost;
            }
            state.finishing.entry(id).or_default().push(done);
            state.sender.finish_ordered(id);
            self.pump_and_tell(now, state);
        }
        ended.await.unwrap_or(Outcome::LinkLost)
    }

    /// Ends every sequence and waits until every ADU has its outcome.
    pub(super) async fn settle(&self) {
        {
            let now = self.now();
            let mut state = self.0.outgoing.lock();
            state.sender.finish_all_ordered();
            self.pump_and_tell(now, state);
        }
        loop {
            let changed = self.0.outgoing.changed.notified();
            tokio::pin!(changed);
            // Listening before looking: what ends between the two is not missed.
            changed.as_mut().enable();
            if self.0.outgoing.lock().sender.is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn pump_and_tell(&self, now: Instant, mut state: MutexGuard<'_, State>) {
        state.pump(now);
        state.arm();
        self.tell_all(state);
    }

    /// Tells what has happened, with the lock open: who is told may send.
    fn tell_all(&self, mut state: MutexGuard<'_, State>) {
        let events = state.events();
        let now = self.now();
        for event in &events {
            if let Event::Outcome { data, outcome, .. } = event
                && *outcome == Outcome::Acknowledged
            {
                state.latency.record(now, now.saturating_since(data.0));
            }
        }
        let mut ended = |event: &Event<Posted>| match event {
            Event::OrderedEnded { id, .. } => state.finishing.remove(id),
            Event::Outcome { .. } => None,
        };
        if events.is_empty() {
            return;
        }
        let waiting: Vec<_> = events.iter().map(&mut ended).collect();
        drop(state);
        for (event, waiting) in events.into_iter().zip(waiting) {
            if let Event::OrderedEnded { outcome, .. } = event {
                for caller in waiting.into_iter().flatten() {
                    // A caller who waits no more has no use for it.
                    let _ = caller.send(outcome);
                }
            } else {
                self.tell(event);
            }
        }
        self.0.outgoing.changed.notify_waiters();
    }

    fn tell(&self, event: Event<Posted>) {
        let Event::Outcome {
            data: (_, data),
            header,
            outcome,
        } = event
        else {
            return;
        };
        self.0.counters.count(outcome);
        tracing::trace!(
            peer = %self.0.peer.short(),
            stream = %header.stream,
            sequence = header.sequence.0,
            outcome = outcome.name(),
            "adu"
        );
        drop(data.room);
        match data.to {
            To::Receiver => self.0.context.receiver.outcome(self, &header, outcome),
            To::Caller(caller) => {
                let _ = caller.send(outcome);
            }
        }
    }
}

/// Drives a link's sender until its connection has ended.
pub(super) async fn drive(link: Link) {
    let mut driver = Driver {
        endings: FuturesUnordered::new(),
        alarm: None,
        clock: link.0.context.clock,
    };
    {
        let closed = link.0.connection.closed();
        tokio::pin!(closed);
        poll_fn(|context| {
            if closed.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            driver.run(&link, context);
            Poll::Pending
        })
        .await;
    }
    link.end();
    let mut state = link.0.outgoing.lock();
    state.is_lost = true;
    state.sender.lose();
    link.tell_all(state);
}

/// What the task of a link waits for.
struct Driver {
    endings: FuturesUnordered<Ending>,
    alarm: Option<(Instant, Alarm)>,
    clock: Clock,
}

type Alarm = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Driver {
    /// Does what there is to do, and waits for more.
    fn run(&mut self, link: &Link, context: &mut Context<'_>) {
        let mut ended = Vec::new();
        loop {
            self.poll_endings(&mut ended, context);
            let now = link.now();
            let mut guard = link.0.outgoing.lock();
            let state = &mut *guard;
            if !state.quic.waker.will_wake(context.waker()) {
                state.quic.waker = context.waker().clone();
            }
            for (owner, how) in ended.drain(..) {
                match how {
                    Ended::Acknowledged => {
                        state.sender.handle_acknowledged(owner, &mut state.quic);
                    }
                    Ended::Stopped(code) => {
                        state.sender.handle_stopped(owner, code, &mut state.quic);
                    }
                    Ended::Lost => {}
                }
            }
            for owner in std::mem::take(&mut state.quic.unread) {
                state.sender.handle_writable(owner);
            }
            state.pump(now);
            let timeout = state.sender.poll_timeout();
            let is_new = self.take_endings(state);
            state.armed = timeout;
            link.tell_all(guard);
            let is_due = self.arm(timeout, context);
            // What was just taken in has to be asked once, or it wakes nobody.
            if !is_new && !is_due {
                return;
            }
        }
    }

    fn take_endings(&mut self, state: &mut State) -> bool {
        let is_new = !state.quic.endings.is_empty();
        self.endings.extend(state.quic.endings.drain(..));
        is_new
    }

    fn poll_endings(&mut self, ended: &mut Vec<(Owner, Ended)>, context: &mut Context<'_>) {
        while let Poll::Ready(Some(end)) = Pin::new(&mut self.endings).poll_next(context) {
            ended.push(end);
        }
    }

    /// Sets the alarm; returns whether it is due already.
    fn arm(&mut self, timeout: Instant, context: &mut Context<'_>) -> bool {
        if timeout.is_never() {
            self.alarm = None;
            return false;
        }
        let is_set = self.alarm.as_ref().is_some_and(|(at, _)| *at == timeout);
        if !is_set {
            let clock = self.clock;
            let alarm: Alarm = Box::pin(async move { clock.sleep_until(timeout).await });
            self.alarm = Some((timeout, alarm));
        }
        let alarm = self.alarm.as_mut().map(|(_, alarm)| alarm);
        alarm.is_some_and(|alarm| alarm.as_mut().poll(context).is_ready())
    }
}
