//! The driver of a link's sender.
//!
//! *The idea.* The sender (a sans-IO machine) and its connection share one lock. A caller that
//! pushes an ADU also pumps the sender, so that the transport has a small ADU before the call
//! returns. One task per link does the rest: it is woken for credit while ADUs are queued, for the
//! end of a stream, and for a deadline. Pushing an ADU wakes that task only if the ADU's deadline
//! is earlier than its alarm. Outcomes are reported after the lock is released.
//!
//! Every pump first collects stream events. So while no outcome is awaited, an acknowledgement over
//! TCP wakes no task: the next push or sample finds it. A relay that sends a viewer thirty pictures
//! a second has thirty such occasions, and would otherwise also be woken per acknowledgement.
//!
//! *What it does not do.* It schedules nothing: [`thalweg_link::hop::sender`] does.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Context;

use bytes::Bytes;
use thalweg_base::adu::Header;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_link::hop::OrderedId;
use thalweg_link::hop::sender::{Arrived, Pause, Sender, Ticket, Transport as _};
use thalweg_link::hop::steady::Steady;
use thalweg_link::outbox::Settings;
use thalweg_link::outbox::census::OutboxReading;
use thalweg_quic::Reading;
use tokio::sync::{Notify, oneshot, watch};

use super::Link;
use super::batch;
use super::connection::NewConnection;
use super::handed::{Handed, HandedAdu};
use super::memory::PeerMemory;
use super::news::{Item, Reply, Reports, SentAt, To};
use super::outcome::{Outcome, SendOptions};
use super::wire::Wire;
use crate::alarm::Alarm;

/// Minimum interval between checks whether the sendable rate has moved.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(20);

/// The sending half of a link.
pub(crate) struct Outgoing {
    state: Mutex<State>,
    /// What was handed over, and goes before anything that is sent later.
    handed: Handed,
    /// Notified when ADUs or sequences have ended.
    changed: Notify,
    /// The path's sendable rate, for its watchers.
    sendable: watch::Sender<Option<Bitrate>>,
}

struct State {
    sender: Sender<u64, SentAt>,
    wire: Wire,
    memory: PeerMemory,
    reports: Reports,
    steady: Steady,
    /// Whether the rate has watchers, as of the last sample.
    is_followed: bool,
    /// When the rate was last checked.
    followed: Instant,
    /// When the driver's alarm goes off.
    alarm: Instant,
    /// Whether the connection is gone, so that pushes are refused.
    is_lost: bool,
}

impl Outgoing {
    pub(super) fn new(now: Instant, connection: NewConnection, memory: PeerMemory) -> Self {
        let settings = Settings {
            seed: RandomState::new().hash_one(now.as_nanos()),
            ..Settings::default()
        };
        Self {
            state: Mutex::new(State {
                sender: Sender::new(settings),
                wire: Wire::new(now, connection, &memory),
                memory,
                reports: Reports::default(),
                steady: Steady::default(),
                is_followed: false,
                followed: Instant::ZERO,
                alarm: Instant::NEVER,
                is_lost: false,
            }),
            handed: Handed::default(),
            changed: Notify::new(),
            sendable: watch::Sender::new(None),
        }
    }

    /// Returns the number of ADUs without an outcome.
    pub(super) fn len(&self) -> usize {
        let state = self.lock();
        // Under the lock, as it is taken: so each counts once.
        state.sender.len() + self.handed.len()
    }

    /// Returns the controller's reading of the path in use; `None` over TCP.
    pub(super) fn reading(&self) -> Option<Reading> {
        self.lock().wire.reading()
    }

    /// Returns the estimated rate of the path.
    pub(super) fn sendable_rate(&self, now: Instant) -> Option<Bitrate> {
        self.lock().wire.hold(now).path_rate().sendable
    }

    /// Returns how much the path would accept now.
    pub(super) fn credit(&self, now: Instant) -> DataSize {
        self.lock().wire.hold(now).credit()
    }

    /// Returns the number of queued bytes.
    pub(super) fn waiting(&self) -> DataSize {
        let state = self.lock();
        let outbox = state.sender.outbox();
        // Mostly zero; the census would iterate over everything in flight.
        match outbox.queued() {
            DataSize::ZERO => DataSize::ZERO,
            _ => outbox.census().waiting.bytes,
        }
    }

    /// Returns the bytes dropped since the last call because the path was too slow, and resets the
    /// count.
    pub(super) fn take_crowded_out(&self) -> DataSize {
        self.lock().sender.take_crowded_out()
    }

    /// Returns the queue, the recent latencies and the drops.
    pub(super) fn outbox(&self, now: Instant) -> OutboxReading {
        let mut state = self.lock();
        let rate = state.wire.hold(now).path_rate().sendable;
        let outbox = state.sender.outbox();
        let names: BTreeMap<_, _> = state.sender.flows().collect();
        OutboxReading::new(
            &outbox.census(),
            rate,
            state.reports.latency(now),
            *outbox.drops(),
            |flow| names.get(&flow).map(|id| (id.stream, id.epoch)),
        )
    }

    /// Allows one packet beyond the congestion window, until something is acknowledged.
    pub(super) fn let_one_through(&self, now: Instant) {
        self.lock().wire.hold(now).let_one_through();
    }

    /// Checks which path is in use and its rate, and removes flows that are over.
    pub(super) fn handle_tick(&self, now: Instant) {
        let mut state = self.lock();
        let State {
            sender,
            wire,
            memory,
            ..
        } = &mut *state;
        wire.check_path(now, memory);
        sender.sweep(now, &mut wire.hold(now));
        state.is_followed = self.sendable.receiver_count() > 0;
        self.follow(now, &mut state);
        // A safety net: whatever became of a wake-up, queued ADUs do not wait for ever.
        if state.sender.outbox().is_waiting() {
            state.wire.wake_driver();
        }
    }

    /// Returns a watch on the sendable rate.
    pub(super) fn sendable(&self, now: Instant) -> watch::Receiver<Option<Bitrate>> {
        let mut state = self.lock();
        let followed = self.sendable.subscribe();
        if !state.is_followed {
            // An earlier value is out of date.
            state.is_followed = true;
            (state.steady, state.followed) = (Steady::default(), Instant::ZERO);
            self.follow(now, &mut state);
        }
        followed
    }

    /// Updates the watched rate if it has moved.
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
        // A panic below is a bug of the sender's; its state is whole after each of its steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives the sender what was handed over; returns whether there was any.
    fn push_handed(&mut self, now: Instant, handed: &Handed) -> bool {
        let adus = handed.take();
        let is_any = !adus.is_empty();
        for adu in adus {
            let HandedAdu {
                at,
                header,
                payload,
                options,
                reply,
            } = adu;
            if self.is_lost {
                self.reports.handle_lost(reply, header);
            } else {
                self.reports.handle_sent(&reply);
                self.sender.push(now, header, payload, options, (at, reply));
            }
        }
        is_any
    }

    /// Collects stream events, then lets the sender hand over what the transport accepts.
    fn pump(&mut self, now: Instant) {
        loop {
            let mut wire = self.wire.hold(now);
            self.reports.handle_events(now, &mut self.sender, &mut wire);
            let pause = self.sender.pump(now, &mut wire);
            // An ADU that waits for a stream may wait for an acknowledgement, so patience needs an
            // idle sender.
            wire.listen(self.reports.can_wait() && pause == Pause::Idle);
            drop(wire);
            match pause {
                Pause::Idle => return,
                // The transport wakes the driver itself. For datagrams it does not, but some were
                // sent, and their acknowledgements give credit.
                Pause::Blocked => {
                    self.wire.register();
                    return;
                }
                // Credit that came between the check and the registration wakes no task, so pump
                // again.
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
    /// Pushes an ADU; returns its ticket unless it has already ended.
    pub(super) fn push(
        &self,
        now: Instant,
        header: Header,
        payload: Arrived,
        options: SendOptions,
        reply: Reply,
    ) -> Option<Ticket> {
        let mut state = self.0.outgoing.lock();
        state.push_handed(now, &self.0.outgoing.handed);
        if state.is_lost {
            state.reports.handle_lost(reply, header);
            self.report_all(now, state);
            return None;
        }
        state.reports.handle_sent(&reply);
        let ticket = state
            .sender
            .push(now, header, payload, options, (now, reply));
        self.pump_and_report(now, state);
        self.notify_given();
        ticket
    }

    /// Pushes more of a payload; returns whether its ADU is still being sent.
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
        self.pump_and_report(now, state);
        is_wanted
    }

    /// Gives up an ADU.
    pub(super) fn give_up(&self, ticket: Ticket, outcome: Outcome) {
        let now = self.now();
        let mut state = self.0.outgoing.lock();
        state.sender.cancel(ticket, outcome);
        self.pump_and_report(now, state);
    }

    /// Ends a sequence and waits until the peer has all of it.
    pub(super) async fn end_ordered(&self, id: OrderedId) -> Outcome {
        let (done, ended) = oneshot::channel();
        {
            let now = self.now();
            let mut state = self.0.outgoing.lock();
            if state.is_lost {
                return Outcome::LinkLost;
            }
            state.reports.handle_finishing(id, done);
            state.push_handed(now, &self.0.outgoing.handed);
            state.sender.finish_ordered(id);
            self.pump_and_report(now, state);
        }
        ended.await.unwrap_or(Outcome::LinkLost)
    }

    /// Ends every sequence and waits until every ADU has its outcome.
    pub(super) async fn settle(&self) {
        let _settling = Settling::begin(&self.0.outgoing);
        {
            let now = self.now();
            let mut state = self.0.outgoing.lock();
            state.push_handed(now, &self.0.outgoing.handed);
            state.sender.finish_all_ordered();
            self.pump_and_report(now, state);
        }
        loop {
            let changed = self.0.outgoing.changed.notified();
            tokio::pin!(changed);
            // Registered before the check, so that an end between the two is not missed.
            changed.as_mut().enable();
            if self.0.outgoing.lock().sender.is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// Collects stream events for which no task may have been woken, and reports the outcomes.
    pub fn catch_up(&self) {
        let mut guard = self.0.outgoing.lock();
        let state = &mut *guard;
        if !state.sender.is_empty() {
            let now = self.now();
            let mut wire = state.wire.hold(now);
            state
                .reports
                .handle_events(now, &mut state.sender, &mut wire);
            drop(wire);
            self.report_all(now, guard);
        }
    }

    fn pump_and_report(&self, now: Instant, mut state: MutexGuard<'_, State>) {
        state.pump(now);
        self.0.outgoing.follow(now, &mut state);
        if state.sender.poll_timeout() < state.alarm {
            state.wire.wake_driver();
        }
        self.report_all(now, state);
    }

    /// Releases the lock, then reports: a receiver of a report may send.
    fn report_all(&self, now: Instant, mut state: MutexGuard<'_, State>) {
        let State {
            reports, sender, ..
        } = &mut *state;
        reports.take(sender, now);
        let items = reports.take_items();
        drop(state);
        if items.is_empty() {
            return;
        }
        let is_one = items.len() == 1;
        let report = || {
            for item in items {
                match item {
                    Item::Adu(reply, header, outcome) => self.report(reply, header, outcome),
                    Item::Sequence(callers, outcome) => {
                        for caller in callers {
                            // A caller that stopped waiting needs no report.
                            let _ = caller.send(outcome);
                        }
                    }
                }
            }
        };
        if is_one {
            report();
        } else {
            batch::gather(report);
        }
        self.0.outgoing.changed.notify_waiters();
    }

    fn report(&self, reply: Reply, header: Header, outcome: Outcome) {
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
            To::Receiver(token) => batch::report(self, header, token, outcome),
            To::Caller(caller) => {
                let _ = caller.send(outcome);
            }
        }
    }
}

/// Leaves an ADU to a visit of the link's loop ([`carry_handed`]), or to the next that sends.
pub(super) fn hand(link: &Link, adu: HandedAdu) {
    link.0.outgoing.handed.push(adu);
    link.notify_given();
}

/// Sends what was handed over.
pub(super) fn carry_handed(link: &Link) {
    let now = link.now();
    let mut state = link.0.outgoing.lock();
    if state.push_handed(now, &link.0.outgoing.handed) {
        link.pump_and_report(now, state);
    }
}

/// Marks that a caller waits until every ADU has its outcome.
struct Settling<'a>(&'a Outgoing);

impl<'a> Settling<'a> {
    fn begin(outgoing: &'a Outgoing) -> Self {
        outgoing.lock().reports.handle_settling(true);
        Self(outgoing)
    }
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.0.lock().reports.handle_settling(false);
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
            // Events before the end come first: ADUs that the peer has are acknowledged.
            driver.run(&link, context);
            closed.as_mut().poll(context).map(|_| ())
        })
        .await;
    }
    link.end();
    let now = link.now();
    let mut state = link.0.outgoing.lock();
    state.is_lost = true;
    state.push_handed(now, &link.0.outgoing.handed);
    state.sender.lose();
    link.0.outgoing.sendable.send_replace(None);
    link.report_all(now, state);
}

/// The task of a link.
struct Driver {
    alarm: Alarm,
}

impl Driver {
    /// Does what is due and registers for the next event.
    fn run(&mut self, link: &Link, context: &mut Context<'_>) {
        loop {
            let has_fired = self.alarm.has_fired(context);
            let mut guard = link.0.outgoing.lock();
            let state = &mut *guard;
            state.wire.set_driver(context.waker());
            if has_fired {
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
            link.report_all(now, guard);
            if !is_earlier {
                return;
            }
            // The next round polls the alarm, which registers its waker.
            self.alarm.set(timeout);
        }
    }
}
