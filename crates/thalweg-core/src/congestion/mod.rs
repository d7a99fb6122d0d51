//! Congestion control: how much may be on its way, how fast it leaves, and what rate an encoder may follow.
//!
//! *The idea.* Alone, a flow keeps a queue of two packets (`copa`). Among flows that fill the queue it would starve, so
//! it fills it as they do (`cubic`). Which of the two it is shows a look at the path with nothing of one's own in the
//! queue (`drain`): it is taken when the queue has not emptied for some round trips, and every ten seconds in competition.
//!
//! ```text
//!            queue seen               not emptied for 5 rounds             others are there
//!   Start ───────────────► Quiet ───────────────────────────────► Drain ─────────────────────► Compete
//!     ▲                      ▲                                    │   ▲                           │ │
//!     │ persistent           └──────────── nobody is there ───────┘   └──── every 10 s ───────────┘ │
//!     │ congestion           └──────────── the queue is empty ◄─────────────────────────────────────┘
//! ```
//!
//! Whoever sends less than he may neither gains nor loses: the window moves only in round trips in which it was full,
//! and rates that measure the application count only upwards (`estimate`). As long as the queue is seen empty now and then, a delay
//! is jitter to him (`phase`). Where packets overtake each other, jitter shows to everybody (`order`).
//!
//! *What it does not do.* It finds no losses, sends nothing and paces nothing: the transport does, by
//! [`Controller::window`] and [`Controller::pacing_rate`].
//!
//! *Sources.* docs/congestion.md; Copa (NSDI 2018), Nimbus (SIGCOMM 2022), RFC 9438, RFC 9002 §7, draft-ietf-ccwg-bbr.

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
use self::estimate::{ROUNDS, Rates, Told};
use self::ledger::Ledger;
use self::losses::Losses;
pub use self::memory::{Carried, Memory};
use self::phase::Phase;
use self::serial::Serial;
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};

/// Packets in the window at the start and at least: RFC 9002 §7.2.
const PACKETS_START: u64 = 10;

/// Packets in the window at the least.
const PACKETS_MIN: u64 = 2;

/// The largest window: 1 Gbit/s over half a second.
pub const WINDOW_MAX: DataSize = DataSize::from_kib(64 << 10);

/// Packets are this large: RFC 9000 §14, and what UDP carries.
const PACKET_BYTES: core::ops::RangeInclusive<u64> = 1_200..=65_527;

/// The fastest that is paced: beyond it timers are coarser than packets.
const PACING_MAX: Bitrate = Bitrate::from_kbps(400_000_000);

/// A base round trip up to which nothing is paced: as much as QUIC sends in one burst on a fast line.
const UNPACED: Duration = Duration::from_millis(2);

/// How long a peer waits for a second packet before it acknowledges one: RFC 9000 §13.2.1.
const ACK_WAIT_MAX: Duration = Duration::from_millis(25);

/// One round trip in so many may be filled with probes.
const PROBE_ROUNDS: u64 = 4;

/// Rounds for which an application that had nothing to send counts as one that sends little.
const ROUNDS_SHORT: u64 = 24;

/// What is left of the window then, at the least: who is asked late for more leaves a few packets' room without lacking any.
const GAP_PACKETS: u64 = 4;
const GAP_SHARE: f64 = 0.125;

/// A window of so many packets loses nothing worth a byte when it is rounded down to whole ones.
const BRIM_PACKETS: u64 = 8;

/// What a transport found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Packets were lost.
    Loss,
    /// All packets of a long time were lost.
    Persistent,
    /// Packets were marked (ECN).
    Mark,
}

/// What a controller is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It looks for the path's rate, doubling.
    Start,
    /// It keeps the queue short.
    Quiet,
    /// It looks who fills the queue.
    Drain,
    /// It shares a queue with those who fill it.
    Compete,
}

/// What a controller has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CongestionEvent {
    /// What can be sent has moved by an eighth or more.
    Sendable(Bitrate),
    /// The controller does something else now.
    Mode(Mode),
}

/// The congestion controller of one path.
#[derive(Clone, Debug)]
pub struct Controller {
    packet: u64,
    window: f64,
    phase: Phase,
    ledger: Ledger,
    delay: Delay,
    serial: Serial,
    rates: Rates,
    told: Told,
    losses: Losses,
    floors: Floors,
    /// Looks in a row that found nobody.
    alarms: u32,
    /// The rate at which a slow line delivered when a look had found nobody; zero if it has not.
    rate_alone: Bitrate,
    /// The greatest rate of late when the last look had found nobody, as those before it had; zero otherwise.
    rate_empty: Bitrate,
    /// Looks in a row that left competition wrongly.
    mistakes: u32,
    /// Looks in a row that took out too little to say anything.
    unclear: u32,
    /// When competition was left, and with which window.
    left: Option<(Instant, f64)>,
    rounds: u64,
    /// The last round in which the window was full.
    full_round: Option<u64>,
    /// The last round in which the application had nothing to send.
    short_round: Option<u64>,
    /// The round in which the start ended.
    started: u64,
    /// The greatest window that was not filled since a queue was last seen.
    enough: f64,
    /// The most that was in flight, in this round and the one before.
    used: [u64; 2],
    /// Losses of what was sent before belong to a reduction that was made.
    recovery: Option<Instant>,
    /// What the path carried before an outage, while it is not known whether it is the same.
    before: Option<Carried>,
    /// What a reduction took that may turn out to be unfounded.
    undo: Option<(f64, Option<Cubic>)>,
    told_mode: Mode,
    sendable_event: Option<Bitrate>,
    /// Packets acknowledged in this batch.
    batch: u32,
    /// How long the last acknowledgement may have waited for a second packet, if it was of one; where no other was in flight that
    /// is not asked.
    waited: Duration,
}

impl Controller {
    /// Returns the controller of a new path whose packets have this size.
    pub fn new(packet: DataSize) -> Self {
        let packet = packet_bytes(packet);
        Self {
            packet,
            window: (PACKETS_START * packet) as f64,
            phase: Phase::Start,
            ledger: Ledger::default(),
            delay: Delay::default(),
            serial: Serial::default(),
            rates: Rates::default(),
            told: Told::default(),
            losses: Losses::default(),
            floors: Floors::default(),
            alarms: 0,
            rate_alone: Bitrate::ZERO,
            rate_empty: Bitrate::ZERO,
            mistakes: 0,
            unclear: 0,
            left: None,
            rounds: 0,
            full_round: None,
            short_round: None,
            started: 0,
            enough: 0.0,
            used: [0; 2],
            recovery: None,
            before: None,
            undo: None,
            told_mode: Mode::Start,
            sendable_event: None,
            batch: 0,
            waited: Duration::ZERO,
        }
    }

    /// Takes in what time it is, where the moments of acknowledgements may be older: a transport that asks for the time before
    /// it reads tells that of what had not come yet.
    ///
    /// The round trip without a queue is the least ever seen, so one that seems too short would stand for good. It is reckoned
    /// up to the latest time that was told. Who never tells it has moments that are exact, as a simulation's are.
    pub fn handle_clock(&mut self, now: Instant) {
        self.ledger.handle_clock(now);
    }

    /// Takes in a packet that leaves and will be acknowledged.
    pub fn handle_sent(&mut self, now: Instant, number: u64, size: DataSize) {
        self.ledger.handle_sent(now, number, size);
        self.used[0] = self.used[0].max(self.ledger.in_flight());
    }

    /// Takes in that the window, and nothing else, keeps the transport from sending.
    pub fn handle_full(&mut self) {
        self.full_round = Some(self.rounds);
    }

    /// Takes in that a packet was acknowledged; [`Controller::handle_acks_end`] follows the last of a batch.
    pub fn handle_ack(&mut self, now: Instant, number: u64, sent: Instant, size: DataSize) {
        self.ledger.handle_ack(now, number, sent, size);
        self.batch += 1;
        self.losses.handle_ack();
    }

    /// Takes in the end of a batch of acknowledgements; `is_short` if the application has nothing to send.
    pub fn handle_acks_end(&mut self, now: Instant, in_flight: DataSize, is_short: bool) {
        self.ledger.handle_in_flight(in_flight);
        let sample = self.ledger.end_batch(now);
        self.waited = match core::mem::take(&mut self.batch) {
            1 if self.ledger.in_flight() == 0 => Duration::NEVER,
            1 => ACK_WAIT_MAX,
            _ => Duration::ZERO,
        };
        if is_short {
            self.ledger.handle_short();
        }
        let Some(sample) = sample else {
            return;
        };
        self.delay.handle_sample(now, sample.rtt, sample.rtt_most);
        self.delay.handle_late(self.ledger.late());
        let before = self
            .ledger
            .in_flight()
            .saturating_add(sample.acked.as_bytes());
        let least = (GAP_PACKETS * self.packet) as f64;
        // In a look it is the look that leaves room.
        let is_looking = self.mode() == Mode::Drain;
        if is_short
            && !is_looking
            && self.window - before as f64 >= least.max(self.window * GAP_SHARE)
        {
            self.short_round = Some(self.rounds);
        }
        if self.full_round.is_none() {
            self.serial.handle_sample(sample.rtt_most, sample.size);
        }
        if let Some(rate) = sample.rate {
            self.rates.handle_sample(rate, sample.is_short);
            self.serial.handle_rate(rate);
        }
        self.advance(now, &sample);
        if sample.ends_round {
            self.rounds += 1;
            self.rates.handle_round();
            self.losses.handle_round();
            self.delay.handle_round();
            self.used = [self.ledger.in_flight(), self.used[0]];
        }
        if let Some(rate) = self.told.handle_rate(self.sendable(), sample.ends_round) {
            self.sendable_event = Some(rate);
        }
    }

    /// Takes in that a packet was lost; [`Controller::handle_congestion`] follows the last of a batch.
    pub fn handle_lost(&mut self, number: u64, size: DataSize) {
        self.ledger.handle_lost(number, size);
        self.losses.handle_lost();
    }

    /// Takes in that packets were lost or marked, the last of which was sent at `sent`.
    pub fn handle_congestion(&mut self, now: Instant, sent: Instant, cause: Congestion) {
        let is_old = self.recovery.is_some_and(|since| sent <= since);
        if is_old && cause != Congestion::Persistent {
            return;
        }
        self.undo = (cause != Congestion::Mark).then(|| (self.window, self.phase.cubic()));
        self.yield_to(now, cause);
        if let Some(rate) = self.told.handle_rate(self.sendable(), false) {
            self.sendable_event = Some(rate);
        }
    }

    /// Takes in that the packets of the last loss had only been late.
    pub fn handle_spurious_loss(&mut self) {
        self.losses.forgive();
        self.ledger.handle_spurious();
        if let Some((window, cubic)) = self.undo.take() {
            self.set_window(self.window.max(window));
            if let (Some(cubic), Phase::Compete(compete)) = (cubic, &mut self.phase) {
                compete.restore(cubic);
                self.recovery = None;
            }
        }
    }

    /// Takes in that packets have another size.
    pub fn handle_packet_size(&mut self, packet: DataSize) {
        self.packet = packet_bytes(packet);
        self.set_window(self.window);
    }

    /// Returns how much may be on its way.
    pub fn window(&self) -> DataSize {
        DataSize::from_bytes(self.window as u64)
    }

    /// Returns how far a packet that begins within the window may reach beyond it.
    ///
    /// Where a window is a few packets, to begin only what fits whole leaves half a packet of it unused on average, and two
    /// acknowledged packets let go one. A look takes its measure in bytes, and so keeps to the window.
    pub fn brim(&self) -> DataSize {
        let is_small = self.window < (BRIM_PACKETS * self.packet) as f64;
        if is_small && self.mode() == Mode::Quiet {
            DataSize::from_bytes(self.packet - 1)
        } else {
            DataSize::ZERO
        }
    }

    /// Returns how fast it may leave; nothing where the transport's own pacing is as good: before a round trip was
    /// measured, and in competition, where who spreads his packets more evenly than the others meets the full queue more
    /// often than they do.
    ///
    /// As fast as it will on a short path: a window leaves within the round trip there, and the longer ones that a busy
    /// machine makes of it are no reason to give each packet a send of its own.
    pub fn pacing_rate(&self) -> Option<Bitrate> {
        if !self.delay.is_known() {
            return None;
        }
        if self.delay.base() <= UNPACED {
            return Some(PACING_MAX);
        }
        if self.mode() == Mode::Compete {
            return None;
        }
        let rate = self.window * 8.0 * self.pacing_gain() / self.pacing_time().as_secs_f64();
        let least = DataSize::from_bytes(self.packet) / Duration::from_secs(1);
        Some(Bitrate::from_bps(rate as u64).clamp(least, PACING_MAX))
    }

    /// Returns the rate that the path is believed to carry for this flow: what an encoder may follow.
    ///
    /// What the window lets through in a round trip, and no more than was delivered if that is known. A flow that never
    /// filled its window knows only the first.
    pub fn sendable(&self) -> Bitrate {
        if !self.delay.is_known() {
            return Bitrate::ZERO;
        }
        let window = DataSize::from_bytes(self.lasting_window() as u64) / self.delay.standing();
        match self.rates.over(ROUNDS) {
            rate if rate > Bitrate::ZERO && self.full_round.is_some() => window.min(rate),
            _ => window,
        }
    }

    /// Returns how much more may be sent now for the sake of knowing what the path carries.
    ///
    /// Nothing while the application fills the window itself, while a queue stands, or after a loss; otherwise the rest
    /// of the window, in one round trip of four. It is to be filled with what is of use: redundancy, ADUs of low importance.
    pub fn probe_size(&self) -> DataSize {
        let is_probing_round = self.rounds.is_multiple_of(PROBE_ROUNDS);
        let is_calm = matches!(self.phase, Phase::Start | Phase::Quiet(_))
            && self.delay.queueing() <= self.quiet_limit()
            && !self.losses.is_recent();
        if self.delay.is_known() && is_probing_round && is_calm {
            self.window() - DataSize::from_bytes(self.ledger.in_flight())
        } else {
            DataSize::ZERO
        }
    }

    /// Returns how long packets wait in queues, all the time.
    pub fn queueing(&self) -> Duration {
        self.delay.queueing()
    }

    /// Returns what it is doing.
    pub fn mode(&self) -> Mode {
        self.phase.mode()
    }

    /// Gives out what there is to say.
    pub fn poll_event(&mut self) -> Option<CongestionEvent> {
        if self.told_mode != self.mode() {
            self.told_mode = self.mode();
            return Some(CongestionEvent::Mode(self.told_mode));
        }
        self.sendable_event.take().map(CongestionEvent::Sendable)
    }

    fn set_window(&mut self, bytes: f64) {
        let least = (PACKETS_MIN * self.packet) as f64;
        // `max` first, so that what is no number becomes the least.
        self.window = bytes.max(least).min(WINDOW_MAX.as_bytes() as f64);
    }

    /// Returns whether the window was full in this round or the last.
    fn is_full(&self) -> bool {
        self.full_round
            .is_some_and(|round| round.saturating_add(1) >= self.rounds)
    }

    /// Returns whether the application had nothing to send at some time of the last rounds.
    fn is_short(&self) -> bool {
        self.short_round
            .is_some_and(|round| round.saturating_add(ROUNDS_SHORT) > self.rounds)
    }

    /// Returns the most that was in flight in a round trip.
    fn used(&self) -> f64 {
        self.used[0].max(self.used[1]) as f64
    }
}

fn packet_bytes(packet: DataSize) -> u64 {
    let bytes = packet.as_bytes();
    bytes.clamp(*PACKET_BYTES.start(), *PACKET_BYTES.end())
}
