//! The state of a path, for the outbox above it.
//!
//! *The idea.* QUIC reports each packet to its congestion controller only, so the controller keeps
//! this state. The outbox's driver reads the credit from it, reports the bytes it handed over, and
//! is woken when there may be more credit.
//!
//! *What it does not do.* It covers one path. Another path has another watch.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_link::congestion::Carried;
use thalweg_link::hop::narrow::Passage;
use thalweg_link::outbox::gate::{Burst, Gate, Path};

/// noq's type for instants.
pub(crate) type Moment = std::time::Instant;

/// How long a shortest round trip counts, and how long an app-limited path is still considered
/// full.
const SPAN: Duration = Duration::from_secs(10);

/// The largest packet: Ethernet's MTU.
const PACKET_MAX: DataSize = DataSize::from_bytes(1_500);

/// The state of one path.
#[derive(Debug)]
pub struct Watch {
    state: Mutex<State>,
    /// How much may be handed over now. Outside the lock, since it is asked for before each chunk;
    /// written only under it, so that a task that has registered a waker reads what came before.
    credit_bytes: AtomicU64,
    /// Number of batches of acknowledgements.
    heard: AtomicU64,
    /// Bytes that may be in flight beyond the window. Outside the lock, since QUIC reads it for
    /// every packet.
    extra_bytes: AtomicU64,
    carries: Carries,
    /// What an earlier connection on the path recorded.
    recalled: OnceLock<Carried>,
}

/// What the path carries, by its controller. Outside the lock, since each batch updates it. Unknown
/// while the round trip is zero.
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
    /// When the last acknowledgement came or, if later, when the first packet in flight was sent.
    waiting_since: Option<Moment>,
    passage: Passage,
    waker: Option<Waker>,
}

/// The recent shortest round trip: the minimum of the present span and of the one before.
#[derive(Clone, Copy, Debug)]
struct Shortest {
    before: Option<Duration>,
    present: Option<Duration>,
    since: Instant,
}

/// The sum of one batch of acknowledgements. The watch is updated once per batch, since it has a
/// lock and packets are many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    bytes: DataSize,
    /// The latest send time among them.
    sent: Option<Instant>,
    /// The smoothed round-trip time after the last of them.
    rtt: Duration,
}

/// The packets that one turn of the connection has sent, for the same reason.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    burst: Burst,
    /// When the first of them was sent.
    at: Option<Moment>,
}

/// What is known after a batch of acknowledgements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    /// The batch's moment by noq, and the time at which it is processed.
    pub(crate) at: (Moment, Instant),
    pub(crate) acked: Acked,
    /// Bytes in packets that are neither acknowledged nor lost.
    pub(crate) in_flight: DataSize,
    /// The connection had nothing to send.
    pub(crate) is_app_limited: bool,
    pub(crate) allowed: Allowed,
}

/// The controller's window and rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    pub(crate) window: DataSize,
    pub(crate) rate: Bitrate,
}

/// A snapshot of a path's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The congestion window.
    pub window: DataSize,
    /// The smoothed round-trip time; zero if none was measured.
    pub rtt: Duration,
    /// Half of the shortest round-trip time of the last ten to twenty seconds; zero if none was
    /// measured.
    pub transit: Duration,
    /// The round-trip time of the last acknowledged packet, including the acknowledgement's delay;
    /// zero if there was none.
    pub latest: Duration,
    /// The estimated sendable rate, if known.
    pub sendable: Option<Bitrate>,
    /// Bytes in packets that are neither acknowledged nor lost.
    pub in_flight: DataSize,
    /// The largest packet that the path is known to carry, without UDP and IP headers.
    pub packet: DataSize,
    /// When the last acknowledgement came or, if later, when the first packet in flight was sent.
    pub waiting_since: Option<Moment>,
    /// Bytes handed over that may not have been sent yet.
    pub unsent: DataSize,
    /// Whether the path was found full, by a loss or an ECN mark, since it was last app-limited for
    /// long or in an outage; until then the window says little about the path.
    pub has_been_full: bool,
    /// Number of batches of acknowledgements.
    pub heard: u64,
    /// Whether packets of QUIC's minimum size pass.
    pub passage: Passage,
}

impl Watch {
    /// Returns the number of batches of acknowledgements.
    pub fn heard(&self) -> u64 {
        self.heard.load(Relaxed)
    }

    /// Allows one packet beyond the window, until something is acknowledged.
    pub fn let_one_through(&self) {
        self.change(|state| {
            let extra_bytes = state.gate.let_one_through(PACKET_MAX);
            self.extra_bytes.store(extra_bytes.as_bytes(), Relaxed);
        });
    }

    /// Returns how many bytes may be in flight beyond the window.
    pub(crate) fn extra_bytes(&self) -> u64 {
        self.extra_bytes.load(Relaxed)
    }

    /// Returns what to record of the path for a later connection; `None` if the controller is not
    /// Thalweg's own.
    pub fn to_keep(&self) -> Option<Carried> {
        let rtt = Duration::from_nanos(self.carries.rtt_nanos.load(Relaxed));
        let window = DataSize::from_bytes(self.carries.window_bytes.load(Relaxed));
        (rtt > Duration::ZERO).then_some(Carried { window, rtt })
    }

    /// Records what an earlier connection on the path recorded, for the controller; only the first
    /// call counts.
    pub fn recall(&self, carried: Carried) {
        if self.recalled.set(carried).is_ok() {
            // Until the controller has it, `to_keep` must return this rather than the initial
            // window.
            self.handle_carried(carried);
        }
    }

    /// Returns what an earlier connection on the path recorded.
    pub(crate) fn recalled(&self) -> Option<Carried> {
        self.recalled.get().copied()
    }

    /// Records what the path carries.
    pub(crate) fn handle_carried(&self, carried: Carried) {
        let Carries {
            window_bytes,
            rtt_nanos,
        } = &self.carries;
        // A reader between the two stores sees the window of the batch before or after.
        window_bytes.store(carried.window.as_bytes(), Relaxed);
        rtt_nanos.store(carried.rtt.as_nanos(), Relaxed);
    }

    /// Returns how much may be handed over now.
    pub fn credit(&self) -> DataSize {
        DataSize::from_bytes(self.credit_bytes.load(Relaxed))
    }

    /// Records bytes that were handed over.
    pub fn handle_written(&self, bytes: usize) {
        let bytes = DataSize::from_bytes(bytes as u64);
        self.change(|state| state.gate.handle_written(bytes));
    }

    /// Returns whether there is enough credit to be worth a wake-up.
    pub fn is_open(&self) -> bool {
        self.lock().gate.is_open()
    }

    /// Registers a waker to be woken once when that is so. Call [`Watch::is_open`] afterwards:
    /// credit that came before the registration wakes no task.
    pub fn register(&self, waker: &Waker) {
        let mut state = self.lock();
        match &mut state.waker {
            Some(present) if present.will_wake(waker) => {}
            slot => *slot = Some(waker.clone()),
        }
    }

    /// Returns a snapshot of the state.
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

    /// Records packets that were sent.
    pub(crate) fn handle_sent(&self, sent: Sent) {
        self.change(|state| {
            if state.gate.in_flight() == DataSize::ZERO {
                state.waiting_since = sent.at;
            }
            state.gate.handle_burst(&sent.burst);
        });
    }

    /// Records a batch of acknowledgements and what follows from it; wakes the driver if there is
    /// enough credit.
    pub(crate) fn handle_settled(&self, settled: Settled) {
        let waker = self.change(|state| {
            let (_, at) = settled.at;
            if state.handle_acks(settled.at, settled.acked) {
                self.heard.fetch_add(1, Relaxed);
                self.extra_bytes.store(0, Relaxed);
            }
            state.handle_in_flight(at, settled.in_flight, settled.is_app_limited);
            state.handle_allowed(settled.allowed)
        });
        wake(waker);
    }

    /// Records the path's present packet size.
    pub(crate) fn handle_packet_size(&self, packet: DataSize) {
        self.lock().packet = packet;
    }

    pub(crate) fn handle_lost(&self, packet: DataSize, passage: Passage) {
        self.change(|state| {
            state.gate.handle_lost(packet);
            state.passage = passage;
        });
    }

    /// Records whether full packets pass.
    pub(crate) fn handle_passage(&self, passage: Passage) {
        self.lock().passage = passage;
    }

    /// Records a loss or an ECN mark, and what the controller allows after it. `is_outage`: nothing
    /// arrived for long, so the path's capacity must be found again.
    pub(crate) fn handle_congestion(&self, is_outage: bool, allowed: Allowed) {
        let waker = self.change(|state| {
            state.has_been_full = !is_outage;
            state.handle_allowed(allowed)
        });
        wake(waker);
    }

    /// Records what the controller allows after any other change.
    pub(crate) fn handle_allowed(&self, allowed: Allowed) {
        wake(self.change(|state| state.handle_allowed(allowed)));
    }

    /// Changes what the credit depends on.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        let credit = state.gate.credit().as_bytes();
        self.credit_bytes.store(credit, Relaxed);
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes a driver, outside the lock.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Default for Watch {
    fn default() -> Self {
        let state = State::default();
        Self {
            credit_bytes: AtomicU64::new(state.gate.credit().as_bytes()),
            state: Mutex::new(state),
            heard: AtomicU64::default(),
            extra_bytes: AtomicU64::default(),
            carries: Carries::default(),
            recalled: OnceLock::default(),
        }
    }
}

impl State {
    /// Handles a batch of acknowledgements; returns whether there were any.
    fn handle_acks(&mut self, (now, at): (Moment, Instant), acked: Acked) -> bool {
        let Some(sent) = acked.sent else {
            return false;
        };
        self.gate.handle_acknowledged(acked.bytes);
        self.path.rtt = acked.rtt;
        self.latest = at.saturating_since(sent);
        self.shortest.handle(at, self.latest);
        self.waiting_since = Some(now);
        true
    }

    /// Handles the bytes in flight at this time, and whether the sender is app-limited.
    ///
    /// If it has been app-limited for long, an earlier finding that the path was full no longer
    /// counts.
    fn handle_in_flight(&mut self, at: Instant, in_flight: DataSize, is_app_limited: bool) {
        if !is_app_limited {
            self.busy = at;
        } else if at.saturating_since(self.busy) >= SPAN {
            self.has_been_full = false;
        }
        self.gate.handle_in_flight(in_flight, is_app_limited);
    }

    /// Handles the controller's window and rate; returns the waker if there is enough credit.
    fn handle_allowed(&mut self, allowed: Allowed) -> Option<Waker> {
        self.path.window = allowed.window;
        self.path.rate = allowed.rate;
        self.gate.handle_path(&self.path);
        let is_open = self.gate.is_open();
        self.waker.take_if(|_| is_open)
    }
}

impl Sent {
    /// Adds a packet.
    pub(crate) fn handle(&mut self, now: Moment, packet: DataSize) {
        self.at.get_or_insert(now);
        self.burst.add(packet);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.at.is_none()
    }
}

impl Acked {
    /// Adds an acknowledged packet that was sent at `sent`.
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
