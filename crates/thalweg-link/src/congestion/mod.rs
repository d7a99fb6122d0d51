//! Congestion control: how much may be in flight, how fast it is paced, and what rate an encoder
//! may follow.
//!
//! *The idea.* Alone on a path, a flow keeps a queue of two packets (`copa`). Among flows that fill
//! the queue that flow would starve, so there it fills the queue too (`cubic`). To decide which
//! case holds, it drains its own packets from the queue and measures what delay remains (`drain`):
//! when the queue has not emptied for some round trips, and every ten seconds while it competes.
//!
//! ```text
//!            queue seen               not emptied for 5 rounds          competing flows found
//!   Start ───────────────► Quiet ───────────────────────────────► Drain ─────────────────────► Compete
//!     ▲                      ▲                                    │   ▲                           │ │
//!     │ persistent           └────────── no competing flow ───────┘   └──── every 10 s ───────────┘ │
//!     │ congestion           └──────────── the queue is empty ◄─────────────────────────────────────┘
//! ```
//!
//! An app-limited flow keeps its window: the window moves only in round trips in which it limited
//! the sender, and rate samples of an app-limited flow only raise the estimate (`estimate`). While
//! such a flow sees the queue empty now and then, it treats delay as jitter (`phase`). Where
//! packets overtake each other, every flow can measure the jitter (`order`).
//!
//! The controller joins the owners of what it knows: the path (`measured`), what limited the sender
//! (`rounds`), what the drains found (`rivals`), an outage to come back from (`outage`), and the
//! losses. Only the phase and its window are its own.
//!
//! *What it does not do.* It detects no losses, sends nothing and paces nothing: the transport
//! does, by [`Controller::window`] and [`Controller::pacing_rate`].
//!
//! *Sources.* docs/concepts/congestion.md; Copa (NSDI 2018), Nimbus (SIGCOMM 2022), RFC 9438, RFC 9002 §7,
//! draft-ietf-ccwg-bbr.

mod algorithm;
mod copa;
mod cubic;
mod delay;
mod drain;
mod estimate;
mod ledger;
mod losses;
mod measured;
mod memory;
mod order;
mod outage;
mod phase;
mod rivals;
mod rounds;
mod serial;
#[cfg(test)]
mod tests;

pub use self::algorithm::{Algorithm, UnknownAlgorithm};
use self::cubic::Cubic;
use self::estimate::Reported;
use self::ledger::SentPackets;
use self::losses::Losses;
use self::measured::Measured;
pub use self::memory::{Carried, Memory};
use self::outage::Outage;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use self::phase::Phase;
use self::rivals::Rivals;
use self::rounds::Rounds;

/// Initial window, in packets: RFC 9002 §7.2.
const PACKETS_START: u64 = 10;

/// Minimum window, in packets: RFC 9002 §7.2.
const PACKETS_MIN: u64 = 2;

/// The largest window: 1 Gbit/s over half a second.
pub const WINDOW_MAX: DataSize = DataSize::from_kib(64 << 10);

/// Largest pacing rate: above it timers are coarser than packets.
const PACING_MAX: Bitrate = Bitrate::from_kbps(400_000_000);

/// Base round trip up to which nothing is paced: QUIC sends such a window in one burst on a fast
/// line anyway.
const UNPACED: Duration = Duration::from_millis(2);

/// Minimum unused window for a round to count as app-limited: packets, and a share of the window. A
/// sender that is woken late may leave a few packets unused without being app-limited.
const GAP_PACKETS: u64 = 4;
const GAP_SHARE: f64 = 0.125;

/// From this window on, in packets, rounding down to whole packets costs too little to matter.
const OVERRUN_PACKETS: u64 = 8;

/// Congestion that the transport detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Packets were lost.
    Loss,
    /// Persistent congestion: all packets over a long time were lost (RFC 9002 §7.6).
    Persistent,
    /// Packets were marked (ECN).
    Mark,
}

/// The phase of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Finds the path's rate by doubling the window.
    Start,
    /// Keeps the queue short.
    Quiet,
    /// Drains its own packets from the queue, to learn whether other flows fill it.
    Drain,
    /// Shares the queue with flows that fill it.
    Compete,
}

/// What a controller reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CongestionEvent {
    /// The sendable rate has moved by an eighth or more.
    Sendable(Bitrate),
    /// The controller has entered another phase.
    Mode(Mode),
}

/// The congestion controller of one path.
#[derive(Clone, Debug)]
pub struct Controller {
    window: f64,
    phase: Phase,
    sent_packets: SentPackets,
    path: Measured,
    rounds: Rounds,
    losses: Losses,
    rivals: Rivals,
    outage: Outage,
    /// The largest window that sufficed (was not filled) since a queue was last seen, in bytes.
    ample_window: f64,
    /// Losses of packets sent up to then belong to a reduction that was already made.
    recovery: Option<Instant>,
    /// Window and CUBIC state before the last reduction, in case its losses turn out to be
    /// spurious.
    undo: Option<(f64, Option<Cubic>)>,
    reported: Reported,
    reported_mode: Mode,
    sendable_event: Option<Bitrate>,
    /// Packets acknowledged in this batch.
    batch: u32,
}

impl Controller {
    /// Returns the controller of a new path with this packet size.
    pub fn new(packet: DataSize) -> Self {
        let path = Measured::new(packet);
        Self {
            window: (PACKETS_START * path.packet()) as f64,
            phase: Phase::Start,
            sent_packets: SentPackets::default(),
            path,
            rounds: Rounds::default(),
            losses: Losses::default(),
            rivals: Rivals::default(),
            outage: Outage::default(),
            ample_window: 0.0,
            recovery: None,
            undo: None,
            reported: Reported::default(),
            reported_mode: Mode::Start,
            sendable_event: None,
            batch: 0,
        }
    }

    /// Handles the current time. The moments given with acknowledgements may be older: a transport
    /// that takes the time before it reads its socket stamps packets with a time before they
    /// arrived.
    ///
    /// The base round trip is the minimum ever seen, so one sample that is too short would stand
    /// for good. It is therefore measured up to the latest time given here. A driver that never
    /// calls this must have exact moments, as a simulation does.
    pub fn handle_clock(&mut self, now: Instant) {
        self.sent_packets.handle_clock(now);
    }

    /// Handles an ack-eliciting packet that was sent.
    pub fn handle_sent(&mut self, now: Instant, number: u64, size: DataSize) {
        self.sent_packets.handle_sent(now, number, size);
        self.rounds.handle_in_flight(self.sent_packets.in_flight());
    }

    /// Handles that the sender is cwnd-limited: the window, and nothing else, keeps it from
    /// sending.
    pub fn handle_full(&mut self) {
        self.rounds.handle_full();
    }

    /// Handles the acknowledgement of one packet; [`Controller::handle_acks_end`] follows the last
    /// of a batch.
    pub fn handle_ack(&mut self, now: Instant, number: u64, sent: Instant, size: DataSize) {
        self.sent_packets.handle_ack(now, number, sent, size);
        self.batch += 1;
        self.losses.handle_ack();
    }

    /// Handles the end of a batch of acknowledgements; `app_limited` if the application has nothing to
    /// send.
    pub fn handle_acks_end(&mut self, now: Instant, in_flight: DataSize, app_limited: bool) {
        self.sent_packets.handle_in_flight(in_flight);
        let sample = self.sent_packets.end_batch(now);
        let acks = core::mem::take(&mut self.batch);
        self.path.handle_batch(acks, self.sent_packets.in_flight());
        if app_limited {
            self.sent_packets.handle_app_limited();
        }
        let Some(sample) = sample else {
            return;
        };
        let (late, was_full) = (self.sent_packets.late(), self.rounds.was_full());
        self.path.handle_sample(now, &sample, late, was_full);
        // Bytes in flight before this batch: the window's use is judged by those.
        let before = self
            .sent_packets
            .in_flight()
            .saturating_add(sample.acked.as_bytes());
        let least = (GAP_PACKETS * self.path.packet()) as f64;
        // While draining, the small window leaves room by intent.
        let is_draining = self.mode() == Mode::Drain;
        if app_limited
            && !is_draining
            && self.window - before as f64 >= least.max(self.window * GAP_SHARE)
        {
            self.rounds.handle_app_limited();
        }
        self.advance(now, &sample);
        if sample.ends_round {
            self.rounds.handle_round(self.sent_packets.in_flight());
            self.path.handle_round();
            self.losses.handle_round();
        }
        if let Some(rate) = self
            .reported
            .handle_rate(self.sendable(), sample.ends_round)
        {
            self.sendable_event = Some(rate);
        }
    }

    /// Handles the loss of one packet; [`Controller::handle_congestion`] follows the last of a
    /// batch.
    pub fn handle_lost(&mut self, number: u64, size: DataSize) {
        self.sent_packets.handle_lost(number, size);
        self.losses.handle_lost();
    }

    /// Handles losses or marks; the last packet concerned was sent at `sent`.
    pub fn handle_congestion(&mut self, now: Instant, sent: Instant, cause: Congestion) {
        let is_old = self.recovery.is_some_and(|since| sent <= since);
        // One reduction per round trip (RFC 9002 §7.3.2): these packets were sent before the last one.
        if is_old && cause != Congestion::Persistent {
            return;
        }
        // A mark is never spurious.
        self.undo = (cause != Congestion::Mark).then(|| (self.window, self.phase.cubic()));
        self.reduce_window(now, cause);
        if let Some(rate) = self.reported.handle_rate(self.sendable(), false) {
            self.sendable_event = Some(rate);
        }
    }

    /// Handles that the packets of the last loss arrived late after all.
    pub fn handle_spurious_loss(&mut self) {
        self.losses.forgive();
        self.sent_packets.handle_spurious();
        if let Some((window, cubic)) = self.undo.take() {
            self.set_window(self.window.max(window));
            if let (Some(cubic), Phase::Compete(compete)) = (cubic, &mut self.phase) {
                compete.restore(cubic);
                // The restored state has answered no loss, so the next one counts at once.
                self.recovery = None;
            }
        }
    }

    /// Handles a change of the packet size.
    pub fn handle_packet_size(&mut self, packet: DataSize) {
        self.path.handle_packet_size(packet);
        self.set_window(self.window);
    }

    /// Returns the congestion window.
    pub fn window(&self) -> DataSize {
        DataSize::from_bytes(self.window as u64)
    }

    /// Returns how far a packet that starts within the window may reach beyond it.
    ///
    /// A transport that starts only packets that fit whole leaves half a packet of a small window
    /// unused on average, and then sends one packet for two acknowledged ones. A drain counts in
    /// bytes, so it keeps to the window.
    pub fn brim(&self) -> DataSize {
        let is_small = self.window < (OVERRUN_PACKETS * self.path.packet()) as f64;
        if is_small && self.mode() == Mode::Quiet {
            DataSize::from_bytes(self.path.packet() - 1)
        } else {
            DataSize::ZERO
        }
    }

    /// Returns the pacing rate, or `None` where the transport's own pacing serves as well: before
    /// the first round trip sample, and in `Compete`.
    ///
    /// Units   bit/s, at least one packet a second
    /// Source  docs/concepts/congestion.md "Short paths"
    pub fn pacing_rate(&self) -> Option<Bitrate> {
        if !self.path.delay().is_known() {
            return None;
        }
        if self.path.delay().base() <= UNPACED {
            // A window leaves within such a short round trip. Longer samples come from busy
            // machines, and are no reason to send each packet by itself.
            return Some(PACING_MAX);
        }
        if self.mode() == Mode::Compete {
            // A flow that spreads its packets more evenly than its rivals finds the queue full more
            // often than they do.
            return None;
        }
        let rate = self.window * 8.0 * self.pacing_gain() / self.pacing_time().as_secs_f64();
        let least = DataSize::from_bytes(self.path.packet()) / Duration::from_secs(1);
        Some(Bitrate::from_bps(rate as u64).clamp(least, PACING_MAX))
    }

    /// Returns the rate that the path is believed to carry for this flow: what an encoder may
    /// follow.
    ///
    /// The window per round trip, bounded by the measured delivery rate. A flow that was never
    /// cwnd-limited has no delivery rate of the path, only the first.
    pub fn sendable(&self) -> Bitrate {
        if !self.path.delay().is_known() {
            return Bitrate::ZERO;
        }
        let window =
            DataSize::from_bytes(self.window_after_drain() as u64) / self.path.delay().standing();
        match self.path.rate() {
            rate if rate > Bitrate::ZERO && self.rounds.was_full() => window.min(rate),
            _ => window,
        }
    }

    /// Returns how much more may be sent now to learn what the path carries.
    ///
    /// The rest of the window, in one round trip of four; zero while the application fills the
    /// window itself, while a queue stands, or after a loss. Fill it with something useful:
    /// redundancy, ADUs of low importance.
    pub fn probe_size(&self) -> DataSize {
        let is_uncongested = matches!(self.phase, Phase::Start | Phase::Quiet(_))
            && self.path.delay().queueing() <= self.path.quiet_limit()
            && !self.losses.is_recent();
        if self.path.delay().is_known() && self.rounds.is_for_probes() && is_uncongested {
            self.window() - DataSize::from_bytes(self.sent_packets.in_flight())
        } else {
            DataSize::ZERO
        }
    }

    /// Returns the standing queueing delay.
    pub fn queueing(&self) -> Duration {
        self.path.delay().queueing()
    }

    /// Returns the current phase.
    pub fn mode(&self) -> Mode {
        self.phase.mode()
    }

    /// Returns the next event, if there is one.
    pub fn poll_event(&mut self) -> Option<CongestionEvent> {
        if self.reported_mode != self.mode() {
            self.reported_mode = self.mode();
            return Some(CongestionEvent::Mode(self.reported_mode));
        }
        self.sendable_event.take().map(CongestionEvent::Sendable)
    }

    /// Returns what the path carries, or carried before an outage that is not over; `None` before
    /// the first sample.
    ///
    /// In competition a part of the window lies in a queue that will be gone, so there the bytes
    /// delivered in a round trip count.
    pub fn to_keep(&self) -> Option<Carried> {
        if !self.path.delay().is_known() {
            return None;
        }
        let rtt = self.path.delay().base();
        if let Some(before) = self.outage.remembered(rtt, &self.path) {
            return Some(before);
        }
        let validated_window = DataSize::from_bytes(self.validated_window() as u64);
        let window = match self.mode() {
            // Nothing has contradicted it yet: a link that is lost again and again while idle
            // forgets nothing.
            Mode::Start => self.window(),
            Mode::Quiet | Mode::Drain => validated_window,
            // The rest of the window lies in a queue that will be gone.
            Mode::Compete => validated_window.min(self.path.rate() * rtt),
        };
        Some(Carried { window, rtt })
    }

    /// Handles what an earlier connection measured of possibly the same path; ignored once this one
    /// has left its start.
    pub fn handle_kept(&mut self, carried: Carried) {
        // Losses so far do not count: this connection was dialled while the line was out.
        if self.mode() == Mode::Start && self.outage.recall(carried, &self.path) {
            // The base may be known already, and show that the path is as long as before.
            if self.path.delay().is_known() {
                self.resume(self.path.delay().base());
            }
        }
    }

    fn set_window(&mut self, bytes: f64) {
        let least = (PACKETS_MIN * self.path.packet()) as f64;
        // `max` first: it turns NaN into the minimum.
        self.window = bytes.max(least).min(WINDOW_MAX.as_bytes() as f64);
    }
}
