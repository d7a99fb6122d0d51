//! What a path lets through, for the outbox above it.
//!
//! *The idea.* QUIC tells its congestion controller of every packet, and nobody else; so the controller tells this. Whoever
//! drives the outbox asks it for credit, says what it handed over, and is woken when there may be more.
//!
//! *What it does not do.* It knows one path. When another is used, another is to be asked.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use thalweg_core::congestion::Carried;
use thalweg_core::hop::narrow::Passage;
use thalweg_core::outbox::gate::{Gate, Path};
use thalweg_core::time::{Duration, Instant};
use thalweg_core::units::{Bitrate, DataSize};

use crate::congestion::Moment;

/// How long a shortest round trip counts, and that a path was found full while nothing more was to be sent.
const SPAN: Duration = Duration::from_secs(10);

/// The largest packet: what an Ethernet carries.
const PACKET_MAX: DataSize = DataSize::from_bytes(1_500);

/// Watches one path.
#[derive(Debug, Default)]
pub struct Watch {
    state: Mutex<State>,
    /// How many batches of acknowledgements have come.
    heard: AtomicU64,
    /// How many bytes may be in flight beyond the window: QUIC asks for every packet, so it is not behind the lock.
    beyond: AtomicU64,
    carries: Carries,
    /// What an earlier connection over the path has left.
    recalled: OnceLock<Carried>,
}

/// What the path carries, as its controller says: told with each batch, so it is not behind the lock. No round trip: nothing is known.
#[derive(Debug, Default)]
struct Carries {
    window_bytes: AtomicU64,
    rtt_nanos: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    gate: Gate,
    path: Path,
    packet: DataSize,
    has_been_full: bool,
    /// When the application last had something to send.
    busy: Instant,
    shortest: Shortest,
    latest: Duration,
    /// When the last acknowledgement came, or the first of what is in flight was sent if that was later.
    waiting_since: Option<Moment>,
    passage: Passage,
    waker: Option<Waker>,
}

/// The shortest round trip of late: of this span of time and of the one before.
#[derive(Clone, Copy, Debug)]
struct Shortest {
    before: Option<Duration>,
    present: Option<Duration>,
    since: Instant,
}

/// What one batch of acknowledgements says: the watch is told once, for it is behind a lock and packets are many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    bytes: DataSize,
    /// When the last of them was sent.
    sent: Option<Instant>,
    /// The smoothed round trip after the last of them.
    rtt: Duration,
}

/// What is known of a path at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What may be unacknowledged.
    pub window: DataSize,
    /// The smoothed round trip; zero if it was not measured.
    pub rtt: Duration,
    /// Half of the shortest round trip in the last ten to twenty seconds; zero if none was measured.
    pub transit: Duration,
    /// The round trip of the last packet that was acknowledged, with what its acknowledgement was held back; zero if there was none.
    pub latest: Duration,
    /// The estimate of the sendable rate, if there is one.
    pub sendable: Option<Bitrate>,
    /// What is in packets that are neither acknowledged nor lost.
    pub in_flight: DataSize,
    /// The largest packet that the path is known to bear, without the headers of UDP and IP.
    pub packet: DataSize,
    /// When the last acknowledgement came, or the first of what is in flight was sent if that was later.
    pub waiting_since: Option<Moment>,
    /// What was handed over and may not have left.
    pub unsent: DataSize,
    /// Whether the path has been found full, by loss or mark, since it was last idle for long or out: until then the window says
    /// little of it.
    pub has_been_full: bool,
    /// How many batches of acknowledgements have come.
    pub heard: u64,
    /// Whether packets of the least size that QUIC needs pass.
    pub passage: Passage,
}

impl Watch {
    /// Returns how many batches of acknowledgements have come.
    pub fn heard(&self) -> u64 {
        self.heard.load(Relaxed)
    }

    /// Lets one packet go, however much is in flight, until something is acknowledged.
    pub fn let_one_through(&self) {
        let mut state = self.lock();
        let beyond = state.gate.let_one_through(PACKET_MAX);
        self.beyond.store(beyond.as_bytes(), Relaxed);
    }

    /// Returns how much may be in flight beyond the window.
    pub(crate) fn beyond(&self) -> u64 {
        self.beyond.load(Relaxed)
    }

    /// Returns what is worth keeping of the path for the connection after this one; nothing where the controller is not our own.
    pub fn to_keep(&self) -> Option<Carried> {
        let rtt = Duration::from_nanos(self.carries.rtt_nanos.load(Relaxed));
        let window = DataSize::from_bytes(self.carries.window_bytes.load(Relaxed));
        (rtt > Duration::ZERO).then_some(Carried { window, rtt })
    }

    /// Takes in what an earlier connection over the path has left, for its controller; only the first such word counts.
    pub fn recall(&self, carried: Carried) {
        if self.recalled.set(carried).is_ok() {
            // What is kept before the controller has heard of it is that, and not what it begins with.
            self.handle_carried(carried);
        }
    }

    /// Returns what an earlier connection over the path has left.
    pub(crate) fn recalled(&self) -> Option<Carried> {
        self.recalled.get().copied()
    }

    /// Takes in what the path carries.
    pub(crate) fn handle_carried(&self, carried: Carried) {
        let Carries {
            window_bytes,
            rtt_nanos,
        } = &self.carries;
        // Who reads between the two has a window of the batch before or after.
        window_bytes.store(carried.window.as_bytes(), Relaxed);
        rtt_nanos.store(carried.rtt.as_nanos(), Relaxed);
    }

    /// Returns how much may be handed over now.
    pub fn credit(&self) -> DataSize {
        self.lock().gate.credit()
    }

    /// Takes in that so much has been handed over.
    pub fn handle_written(&self, bytes: usize) {
        let bytes = DataSize::from_bytes(bytes as u64);
        self.lock().gate.handle_written(bytes);
    }

    /// Returns whether there is so much credit that it is worth a wake-up.
    pub fn is_open(&self) -> bool {
        self.lock().gate.is_open()
    }

    /// Asks to be woken once when that is so; who has just been told that it is not finds out by asking again.
    pub fn register(&self, waker: &Waker) {
        let mut state = self.lock();
        match &mut state.waker {
            Some(present) if present.will_wake(waker) => {}
            slot => *slot = Some(waker.clone()),
        }
    }

    /// Returns what is known now.
    pub fn reading(&self) -> Reading {
        let state = self.lock();
        Reading {
            window: state.path.window,
            rtt: state.path.rtt,
            transit: state.shortest.half(),
            latest: state.latest,
            sendable: state.path.sendable_rate(),
            in_flight: state.gate.in_flight(),
            packet: state.packet,
            waiting_since: state.waiting_since,
            unsent: state.gate.unsent(),
            has_been_full: state.has_been_full,
            heard: self.heard(),
            passage: state.passage,
        }
    }

    pub(crate) fn handle_packet(&self, now: Moment, packet: DataSize) {
        let mut state = self.lock();
        if state.gate.in_flight() == DataSize::ZERO {
            state.waiting_since = Some(now);
        }
        state.gate.handle_packet(packet);
    }

    /// Takes in a batch of acknowledgements that came at this moment and is worked on at this time.
    pub(crate) fn handle_acks(&self, (now, at): (Moment, Instant), acked: Acked) {
        let Some(sent) = acked.sent else {
            return;
        };
        let mut state = self.lock();
        self.heard.fetch_add(1, Relaxed);
        self.beyond.store(0, Relaxed);
        state.gate.handle_acknowledged(acked.bytes);
        state.path.rtt = acked.rtt;
        state.latest = at.saturating_since(sent);
        let latest = state.latest;
        state.shortest.handle(at, latest);
        state.waiting_since = Some(now);
    }

    /// Takes in how large packets may be from now on.
    pub(crate) fn handle_packet_size(&self, packet: DataSize) {
        self.lock().packet = packet;
    }

    pub(crate) fn handle_lost(&self, packet: DataSize, passage: Passage) {
        let mut state = self.lock();
        state.gate.handle_lost(packet);
        state.passage = passage;
    }

    /// Takes in what is known of the path's room for full packets.
    pub(crate) fn handle_passage(&self, passage: Passage) {
        self.lock().passage = passage;
    }

    /// Takes in what is in flight at this time, and whether there was nothing more to send.
    ///
    /// If that is so for long, what the path was found to carry says nothing of it any more.
    pub(crate) fn handle_in_flight(&self, at: Instant, in_flight: DataSize, is_dry: bool) {
        let mut state = self.lock();
        if !is_dry {
            state.busy = at;
        } else if at.saturating_since(state.busy) >= SPAN {
            state.has_been_full = false;
        }
        state.gate.handle_in_flight(in_flight, is_dry);
    }

    /// Takes in that something was lost or marked; `is_outage` if nothing came for long: then how much the path carries is to be
    /// found anew.
    pub(crate) fn handle_congestion(&self, is_outage: bool) {
        self.lock().has_been_full = !is_outage;
    }

    /// Takes in what the controller says after whatever may have changed it.
    pub(crate) fn handle_window(&self, window: DataSize, rate: Bitrate) {
        let mut state = self.lock();
        state.path.window = window;
        state.path.rate = rate;
        let path = state.path;
        state.gate.handle_path(&path);
        let is_open = state.gate.is_open();
        let waker = state.waker.take_if(|_| is_open);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Acked {
    /// Takes in that a packet was acknowledged that was sent then.
    pub(crate) fn handle(&mut self, packet: DataSize, sent: Instant, rtt: Duration) {
        self.bytes += packet;
        self.sent = self.sent.max(Some(sent));
        self.rtt = rtt;
    }
}

impl Default for Shortest {
    fn default() -> Self {
        Self {
            before: None,
            present: None,
            since: Instant::ZERO,
        }
    }
}

impl Shortest {
    fn handle(&mut self, now: Instant, rtt: Duration) {
        if now.saturating_since(self.since) >= SPAN {
            (self.before, self.present) = (self.present, None);
            self.since = now;
        }
        self.present = Some(self.present.map_or(rtt, |present| present.min(rtt)));
    }

    fn half(&self) -> Duration {
        let shortest = self.before.into_iter().chain(self.present).min();
        shortest.map_or(Duration::ZERO, |rtt| {
            Duration::from_nanos(rtt.as_nanos() / 2)
        })
    }
}
