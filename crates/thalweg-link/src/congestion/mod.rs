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
mod memory;
mod order;
mod outage;
mod phase;
mod serial;
#[cfg(test)]
mod tests;

pub use self::algorithm::{Algorithm, UnknownAlgorithm};
use self::cubic::Cubic;
use self::delay::Delay;
use self::drain::Floors;
use self::estimate::{ROUNDS, Rates, Reported};
use self::ledger::SentPackets;
use self::losses::Losses;
pub use self::memory::{Carried, Memory};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use self::phase::Phase;
use self::serial::Serial;

/// Initial window, in packets: RFC 9002 §7.2.
const PACKETS_START: u64 = 10;

/// Minimum window, in packets: RFC 9002 §7.2.
const PACKETS_MIN: u64 = 2;

/// The largest window: 1 Gbit/s over half a second.
pub const WINDOW_MAX: DataSize = DataSize::from_kib(64 << 10);

/// Packet sizes in bytes: from the minimum of RFC 9000 §14 to what a UDP datagram carries.
const PACKET_BYTES: core::ops::RangeInclusive<u64> = 1_200..=65_527;

/// Largest pacing rate: above it timers are coarser than packets.
const PACING_MAX: Bitrate = Bitrate::from_kbps(400_000_000);

/// Base round trip up to which nothing is paced: QUIC sends such a window in one burst on a fast
/// line anyway.
const UNPACED: Duration = Duration::from_millis(2);

/// How long a receiver may delay the acknowledgement of a single packet (`max_ack_delay`): RFC 9000
/// §13.2.1.
const ACK_DELAY_MAX: Duration = Duration::from_millis(25);

/// One round trip in this many may be filled with probes.
const PROBE_ROUNDS: u64 = 4;

/// Rounds after an app-limited round in which the flow still counts as app-limited.
const APP_LIMITED_ROUNDS: u64 = 24;

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
    packet: u64,
    window: f64,
    phase: Phase,
    sent_packets: SentPackets,
    delay: Delay,
    serial: Serial,
    rates: Rates,
    reported: Reported,
    losses: Losses,
    floors: Floors,
    /// Drains out of `Quiet` in a row that found no competing flow.
    alone_drains: u32,
    /// The rate at which a slow line delivered when a drain found no competing flow; zero if
    /// unknown.
    rate_alone: Bitrate,
    /// The greatest recent rate when three or more drains in a row had found no competing flow;
    /// zero otherwise.
    rate_uncontended: Bitrate,
    /// Drains in a row that left `Compete` although other flows were still there.
    wrong_exits: u32,
    /// Drains in a row that took out too little to decide.
    unclear: u32,
    /// When `Compete` was last left, and the window then, in bytes.
    compete_exit: Option<(Instant, f64)>,
    rounds: u64,
    /// The last round in which the window limited the sender.
    cwnd_limited_round: Option<u64>,
    /// The last round in which the sender was app-limited.
    app_limited_round: Option<u64>,
    /// The round in which the start phase ended.
    started: u64,
    /// The largest window that sufficed (was not filled) since a queue was last seen, in bytes.
    ample_window: f64,
    /// The peak of bytes in flight, in this round and the one before.
    peaks: [u64; 2],
    /// Losses of packets sent up to then belong to a reduction that was already made.
    recovery: Option<Instant>,
    /// What the path carried before an outage, until a round trip shows whether it is still the
    /// same path.
    before_outage: Option<Carried>,
    /// Window and CUBIC state before the last reduction, in case its losses turn out to be
    /// spurious.
    undo: Option<(f64, Option<Cubic>)>,
    reported_mode: Mode,
    sendable_event: Option<Bitrate>,
    /// Packets acknowledged in this batch.
    batch: u32,
    /// How long the last acknowledgement may have been delayed for a second packet: zero for a
    /// batch of several, `NEVER` for a single packet that left nothing in flight: its delay is
    /// then unknown.
    ack_delay: Duration,
}

impl Controller {
    /// Returns the controller of a new path with this packet size.
    pub fn new(packet: DataSize) -> Self {
        let packet = packet_bytes(packet);
        Self {
            packet,
            window: (PACKETS_START * packet) as f64,
            phase: Phase::Start,
            sent_packets: SentPackets::default(),
            delay: Delay::default(),
            serial: Serial::default(),
            rates: Rates::default(),
            reported: Reported::default(),
            losses: Losses::default(),
            floors: Floors::default(),
            alone_drains: 0,
            rate_alone: Bitrate::ZERO,
            rate_uncontended: Bitrate::ZERO,
            wrong_exits: 0,
            unclear: 0,
            compete_exit: None,
            rounds: 0,
            cwnd_limited_round: None,
            app_limited_round: None,
            started: 0,
            ample_window: 0.0,
            peaks: [0; 2],
            recovery: None,
            before_outage: None,
            undo: None,
            reported_mode: Mode::Start,
            sendable_event: None,
            batch: 0,
            ack_delay: Duration::ZERO,
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
        self.peaks[0] = self.peaks[0].max(self.sent_packets.in_flight());
    }

    /// Handles that the sender is cwnd-limited: the window, and nothing else, keeps it from
    /// sending.
    pub fn handle_full(&mut self) {
        self.cwnd_limited_round = Some(self.rounds);
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
        // A receiver acknowledges every second packet at once; a single one may have waited (RFC
        // 9000 §13.2.1).
        self.ack_delay = match core::mem::take(&mut self.batch) {
            1 if self.sent_packets.in_flight() == 0 => Duration::NEVER,
            1 => ACK_DELAY_MAX,
            _ => Duration::ZERO,
        };
        if app_limited {
            self.sent_packets.handle_app_limited();
        }
        let Some(sample) = sample else {
            return;
        };
        self.delay.handle_sample(now, sample.rtt, sample.rtt_max);
        self.delay.handle_late(self.sent_packets.late());
        // Bytes in flight before this batch: the window's use is judged by those.
        let before = self
            .sent_packets
            .in_flight()
            .saturating_add(sample.acked.as_bytes());
        let least = (GAP_PACKETS * self.packet) as f64;
        // While draining, the small window leaves room by intent.
        let is_draining = self.mode() == Mode::Drain;
        if app_limited
            && !is_draining
            && self.window - before as f64 >= least.max(self.window * GAP_SHARE)
        {
            self.app_limited_round = Some(self.rounds);
        }
        // Once the window was full, packets wait for each other and their round trips say nothing
        // of serialization.
        if self.cwnd_limited_round.is_none() {
            self.serial.handle_sample(sample.rtt_max, sample.size);
        }
        if let Some(rate) = sample.rate {
            self.rates.handle_sample(rate, sample.app_limited);
            self.serial.handle_rate(rate);
        }
        self.advance(now, &sample);
        if sample.ends_round {
            self.rounds += 1;
            self.rates.handle_round();
            self.losses.handle_round();
            self.delay.handle_round();
            self.peaks = [self.sent_packets.in_flight(), self.peaks[0]];
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
        self.packet = packet_bytes(packet);
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
        let is_small = self.window < (OVERRUN_PACKETS * self.packet) as f64;
        if is_small && self.mode() == Mode::Quiet {
            DataSize::from_bytes(self.packet - 1)
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
        if !self.delay.is_known() {
            return None;
        }
        if self.delay.base() <= UNPACED {
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
        let least = DataSize::from_bytes(self.packet) / Duration::from_secs(1);
        Some(Bitrate::from_bps(rate as u64).clamp(least, PACING_MAX))
    }

    /// Returns the rate that the path is believed to carry for this flow: what an encoder may
    /// follow.
    ///
    /// The window per round trip, bounded by the measured delivery rate. A flow that was never
    /// cwnd-limited has no delivery rate of the path, only the first.
    pub fn sendable(&self) -> Bitrate {
        if !self.delay.is_known() {
            return Bitrate::ZERO;
        }
        let window = DataSize::from_bytes(self.window_after_drain() as u64) / self.delay.standing();
        match self.rates.over(ROUNDS) {
            rate if rate > Bitrate::ZERO && self.cwnd_limited_round.is_some() => window.min(rate),
            _ => window,
        }
    }

    /// Returns how much more may be sent now to learn what the path carries.
    ///
    /// The rest of the window, in one round trip of four; zero while the application fills the
    /// window itself, while a queue stands, or after a loss. Fill it with something useful:
    /// redundancy, ADUs of low importance.
    pub fn probe_size(&self) -> DataSize {
        let is_probing_round = self.rounds.is_multiple_of(PROBE_ROUNDS);
        let is_uncongested = matches!(self.phase, Phase::Start | Phase::Quiet(_))
            && self.delay.queueing() <= self.quiet_limit()
            && !self.losses.is_recent();
        if self.delay.is_known() && is_probing_round && is_uncongested {
            self.window() - DataSize::from_bytes(self.sent_packets.in_flight())
        } else {
            DataSize::ZERO
        }
    }

    /// Returns the standing queueing delay.
    pub fn queueing(&self) -> Duration {
        self.delay.queueing()
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

    fn set_window(&mut self, bytes: f64) {
        let least = (PACKETS_MIN * self.packet) as f64;
        // `max` first: it turns NaN into the minimum.
        self.window = bytes.max(least).min(WINDOW_MAX.as_bytes() as f64);
    }

    /// Returns whether the sender was cwnd-limited in this round or the last.
    fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited_round
            .is_some_and(|round| round.saturating_add(1) >= self.rounds)
    }

    /// Returns whether the sender was app-limited in the last rounds.
    fn is_app_limited(&self) -> bool {
        self.app_limited_round
            .is_some_and(|round| round.saturating_add(APP_LIMITED_ROUNDS) > self.rounds)
    }

    /// Returns the peak of bytes in flight over the last two rounds.
    fn peak_in_flight(&self) -> f64 {
        self.peaks[0].max(self.peaks[1]) as f64
    }
}

fn packet_bytes(packet: DataSize) -> u64 {
    let bytes = packet.as_bytes();
    bytes.clamp(*PACKET_BYTES.start(), *PACKET_BYTES.end())
}
