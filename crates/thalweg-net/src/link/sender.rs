//! What drives a link's sender.
//!
//! *The idea.* The machine and its connection lie behind one lock. Whoever has an ADU puts it in and pumps on the spot, so
//! that a small one is in the transport's hands before the call returns; one task a link does the rest: it is woken for credit while
//! something waits for it, for the end of a stream, for a deadline. To put in an ADU wakes it only if no alarm is set as
//! early as that deadline. Outcomes are told when the lock is open again.
//!
//! Whoever pumps first takes in what has happened to streams. So while nobody waits for an outcome, an acknowledgement over TCP
//! wakes nobody: it is found when the next ADU is put in, or at the next look. A relay that gives a viewer thirty pictures a
//! second has thirty such occasions, and would otherwise be woken for each word besides.
//!
//! *What it does not do.* It orders nothing: [`thalweg_core::hop::sender`] does.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Context;

use bytes::Bytes;
use thalweg_core::adu::Header;
use thalweg_core::hop::OrderedId;
use thalweg_core::hop::sender::{Arrived, Pause, Sender, Ticket, Transport as _};
use thalweg_core::hop::steady::Steady;
use thalweg_core::outbox::Settings;
use thalweg_core::outbox::census::OutboxReading;
use thalweg_core::time::{Duration, Instant};
use thalweg_core::units::{Bitrate, DataSize};
use thalweg_quic::Reading;
use tokio::sync::{Notify, oneshot, watch};

use super::Link;
use super::connection::Fresh;
use super::memory::PeerMemory;
use super::news::{Item, News, Posted, Reply, To};
use super::outcome::{Outcome, SendOptions};
use super::wire::Wire;
use crate::alarm::Alarm;

/// How often it is looked at least, while something is sent, whether the rate has moved.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(20);

/// The sending half of a link.
pub(crate) struct Outgoing {
    state: Mutex<State>,
    /// Told when something has ended.
    changed: Notify,
    /// What the path can send, for who follows it.
    sendable: watch::Sender<Option<Bitrate>>,
}

struct State {
    sender: Sender<u64, Posted>,
    wire: Wire,
    memory: PeerMemory,
    news: News,
    steady: Steady,
    /// Whether anybody follows the rate, as of the last look.
    is_followed: bool,
    /// When the rate was last looked at.
    followed: Instant,
    /// When the driver's alarm goes off.
    alarm: Instant,
    /// Whether the connection is gone, so that nothing more can be put in.
    is_lost: bool,
}

impl Outgoing {
    pub(super) fn new(now: Instant, connection: Fresh, memory: PeerMemory) -> Self {
        let settings = Settings {
            seed: RandomState::new().hash_one(now.as_nanos()),
            ..Settings::default()
        };
        Self {
            state: Mutex::new(State {
                sender: Sender::new(settings),
                wire: Wire::new(now, connection, &memory),
                memory,
                news: News::default(),
                steady: Steady::default(),
                is_followed: false,
                followed: Instant::ZERO,
                alarm: Instant::NEVER,
                is_lost: false,
            }),
            changed: Notify::new(),
            sendable: watch::Sender::new(None),
        }
    }

    /// Returns how many ADUs have no outcome.
    pub(super) fn len(&self) -> usize {
        self.lock().sender.len()
    }

    /// Returns what is known of the path that is taken; nothing over TCP.
    pub(super) fn reading(&self) -> Option<Reading> {
        self.lock().wire.reading()
    }

    /// Returns the estimate of what the path can send.
    pub(super) fn sendable_rate(&self, now: Instant) -> Option<Bitrate> {
        self.lock().wire.hold(now).path_rate().sendable
    }

    /// Returns how much the path would take now.
    pub(super) fn credit(&self, now: Instant) -> DataSize {
        self.lock().wire.hold(now).credit()
    }

    /// Returns how many bytes wait.
    pub(super) fn waiting(&self) -> DataSize {
        let state = self.lock();
        let outbox = state.sender.outbox();
        // Mostly nothing does, and to count it goes through all that is in flight.
        match outbox.queued() {
            DataSize::ZERO => DataSize::ZERO,
            _ => outbox.census().waiting.bytes,
        }
    }

    /// Gives out how many bytes were given up since this was last asked for want of the path.
    pub(super) fn take_crowded_out(&self) -> DataSize {
        self.lock().sender.take_crowded_out()
    }

    /// Returns what waits, how long ADUs took lately, and what was given up.
    pub(super) fn outbox(&self, now: Instant) -> OutboxReading {
        let mut state = self.lock();
        let rate = state.wire.hold(now).path_rate().sendable;
        let outbox = state.sender.outbox();
        let names: BTreeMap<_, _> = state.sender.flows().collect();
        OutboxReading::new(
            &outbox.census(),
            rate,
            state.news.latency(now),
            *outbox.drops(),
            |flow| names.get(&flow).map(|id| (id.stream, id.epoch)),
        )
    }

    /// Lets one packet go, however much is in flight, until something is acknowledged.
    pub(super) fn let_one_through(&self, now: Instant) {
        self.lock().wire.hold(now).let_one_through();
    }

    /// Looks which path is taken and what it can send, and forgets flows that are over.
    pub(super) fn look(&self, now: Instant) {
        let mut state = self.lock();
        let State {
            sender,
            wire,
            memory,
            ..
        } = &mut *state;
        wire.look(now, memory);
        sender.sweep(now, &mut wire.hold(now));
        state.is_followed = self.sendable.receiver_count() > 0;
        self.follow(now, &mut state);
        // Whatever went wrong with a wake-up, what waits does not wait for ever.
        if state.sender.outbox().is_waiting() {
            state.wire.wake_driver();
        }
    }

    /// Returns what is told when the rate has moved.
    pub(super) fn sendable(&self, now: Instant) -> watch::Receiver<Option<Bitrate>> {
        let mut state = self.lock();
        let followed = self.sendable.subscribe();
        if !state.is_followed {
            // What was told before is of another time.
            state.is_followed = true;
            (state.steady, state.followed) = (Steady::default(), Instant::ZERO);
            self.follow(now, &mut state);
        }
        followed
    }

    /// Tells who follows the rate if it has moved.
    fn follow(&self, now: Instant, state: &mut State) {
        let is_due = state.is_followed && now.saturating_since(state.followed) >= FOLLOW_INTERVAL;
        if state.is_lost || !is_due {
            return;
        }
        state.followed = now;
        let rate = state.wire.hold(now).path_rate().sendable;
        if state.steady.handle_rate(now, rate) {
            self.sendable.send_replace(state.steady.told());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic below is a bug of the machine's; what it leaves is whole, for each step of it is.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes in what has happened to streams, and lets the machine hand over what can go.
    fn pump(&mut self, now: Instant) {
        loop {
            let mut wire = self.wire.hold(now);
            self.news.take_in(now, &mut self.sender, &mut wire);
            let pause = self.sender.pump(now, &mut wire);
            // What waits for a stream may wait for an acknowledgement.
            wire.listen(self.news.can_wait() && pause == Pause::Idle);
            drop(wire);
            match pause {
                Pause::Idle => return,
                // It says itself when it takes more; of datagrams it does not, but then it has sent some.
                Pause::Blocked => {
                    self.wire.register();
                    return;
                }
                // What came between the last look and the asking wakes nobody.
                Pause::Credit => {
                    if !self.wire.register() {
                        return;
                    }
                }
            }
        }
    }
}

impl Link {
    /// Puts an ADU in; returns its name unless it has ended already.
    pub(super) fn push(
        &self,
        now: Instant,
        header: Header,
        payload: Arrived,
        options: SendOptions,
        reply: Reply,
    ) -> Option<Ticket> {
        let mut state = self.0.outgoing.lock();
        if state.is_lost {
            drop(state);
            let outcome = Outcome::LinkLost;
            self.tell(reply, &header, outcome);
            return None;
        }
        state.news.handle_sent(&reply);
        let ticket = state
            .sender
            .push(now, header, payload, options, (now, reply));
        self.pump_and_tell(now, state);
        self.given();
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
            state.news.handle_finishing(id, done);
            state.sender.finish_ordered(id);
            self.pump_and_tell(now, state);
        }
        ended.await.unwrap_or(Outcome::LinkLost)
    }

    /// Ends every sequence and waits until every ADU has its outcome.
    pub(super) async fn settle(&self) {
        let _settling = Settling::begin(&self.0.outgoing);
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

    /// Takes in what has happened to streams, for which nobody may have been woken, and tells what became of ADUs.
    pub fn catch_up(&self) {
        let mut guard = self.0.outgoing.lock();
        let state = &mut *guard;
        if !state.sender.is_empty() {
            let now = self.now();
            let mut wire = state.wire.hold(now);
            state.news.take_in(now, &mut state.sender, &mut wire);
            drop(wire);
            self.tell_all(now, guard);
        }
    }

    fn pump_and_tell(&self, now: Instant, mut state: MutexGuard<'_, State>) {
        state.pump(now);
        self.0.outgoing.follow(now, &mut state);
        if state.sender.poll_timeout() < state.alarm {
            state.wire.wake_driver();
        }
        self.tell_all(now, state);
    }

    /// Tells what has happened, with the lock open: who is told may send.
    fn tell_all(&self, now: Instant, mut state: MutexGuard<'_, State>) {
        let State { news, sender, .. } = &mut *state;
        news.take(sender, now);
        let items = news.give();
        drop(state);
        if items.is_empty() {
            return;
        }
        for item in items {
            match item {
                Item::Adu(reply, header, outcome) => self.tell(reply, &header, outcome),
                Item::Sequence(callers, outcome) => {
                    for caller in callers {
                        // A caller who waits no more has no use for it.
                        let _ = caller.send(outcome);
                    }
                }
            }
        }
        self.0.outgoing.changed.notify_waiters();
    }

    fn tell(&self, reply: Reply, header: &Header, outcome: Outcome) {
        self.0.counters.count(outcome);
        tracing::trace!(
            peer = %self.0.peer.short(),
            stream = %header.stream,
            sequence = header.sequence.0,
            outcome = outcome.name(),
            "adu"
        );
        drop(reply.room);
        match reply.to {
            To::Receiver => self.0.context.receiver.outcome(self, header, outcome),
            To::Caller(caller) => {
                let _ = caller.send(outcome);
            }
        }
    }
}

/// That somebody waits until every ADU has its outcome, as long as this lives.
struct Settling<'a>(&'a Outgoing);

impl<'a> Settling<'a> {
    fn begin(outgoing: &'a Outgoing) -> Self {
        outgoing.lock().news.handle_settling(true);
        Self(outgoing)
    }
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.0.lock().news.handle_settling(false);
    }
}

/// Drives a link's sender until its connection has ended.
pub(super) async fn drive(link: Link) {
    let mut driver = Driver {
        alarm: Alarm::new(link.0.context.clock),
    };
    {
        let closed = link.0.connection.closed();
        tokio::pin!(closed);
        poll_fn(|context| {
            link.0.counters.wakes.add_one();
            // First what was told before the end: those that the peer has are acknowledged.
            driver.run(&link, context);
            closed.as_mut().poll(context).map(|_| ())
        })
        .await;
    }
    link.end();
    let mut state = link.0.outgoing.lock();
    state.is_lost = true;
    state.sender.lose();
    link.0.outgoing.sendable.send_replace(None);
    link.tell_all(link.now(), state);
}

/// The task of a link.
struct Driver {
    alarm: Alarm,
}

impl Driver {
    /// Does what there is to do, and waits for more.
    fn run(&mut self, link: &Link, context: &mut Context<'_>) {
        loop {
            let has_gone_off = self.alarm.has_gone_off(context);
            let mut guard = link.0.outgoing.lock();
            let state = &mut *guard;
            state.wire.set_driver(context.waker());
            if has_gone_off {
                state.alarm = Instant::NEVER;
            }
            for owner in state.wire.take_unread() {
                state.sender.handle_writable(owner);
            }
            let now = link.now();
            state.pump(now);
            link.0.outgoing.follow(now, state);
            let timeout = state.sender.poll_timeout();
            let is_earlier = timeout < state.alarm;
            state.alarm = state.alarm.min(timeout);
            link.tell_all(now, guard);
            if !is_earlier {
                return;
            }
            // It is asked in the next round, or it would wake nobody.
            self.alarm.set(timeout);
        }
    }
}
