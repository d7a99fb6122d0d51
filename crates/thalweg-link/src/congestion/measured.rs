//! What is measured of the path: its round trips and rates, and what follows from both.
//!
//! *The idea.* Whether a queue stands, whether it is long, and whether a line is slow are questions
//! of two measurements at once: a delay that is a queue at 10 Mbit/s is one packet at 200 kbit/s.
//! They are answered here, so that no phase has a measure of its own.
//!
//! *What it does not do.* It knows no window and no phase.
//!
//! *Sources.* docs/concepts/congestion.md.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::copa::DELTA;
use super::delay::Delay;
use super::estimate::{ROUNDS, Rates};
use super::ledger::Sample;
use super::serial::Serial;

/// Packet sizes in bytes: from the minimum of RFC 9000 §14 to what a UDP datagram carries.
const PACKET_BYTES: core::ops::RangeInclusive<u64> = 1_200..=65_527;

/// How long a receiver may delay the acknowledgement of a single packet (`max_ack_delay`): RFC 9000
/// §13.2.1.
const ACK_DELAY_MAX: Duration = Duration::from_millis(25);

/// The quiet limit's least base part: a shorter queueing delay always counts as an empty queue.
const EMPTY_MIN: Duration = Duration::from_millis(3);

/// A queue is long above this multiple of the quiet limit, or the base.
const LONG_FACTOR: u64 = 3;

/// A line is slow where one packet takes more than the round trip over this. The second is for the
/// greatest rate seen, which is a tenth or two above the line's.
const SLOW_PART: f64 = 4.0;
const SLOW_PART_MOST: f64 = 4.5;

/// What is measured of a path.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// The packet size, in bytes.
    packet: u64,
    delay: Delay,
    rates: Rates,
    serial: Serial,
    /// How long the last acknowledgement may have been delayed for a second packet: zero for a
    /// batch of several, `NEVER` for a single packet that left nothing in flight: its delay is
    /// then unknown.
    ack_delay: Duration,
}

impl Measured {
    /// Returns a new path with this packet size.
    pub(super) fn new(packet: DataSize) -> Self {
        Self {
            packet: packet_bytes(packet),
            delay: Delay::default(),
            rates: Rates::default(),
            serial: Serial::default(),
            ack_delay: Duration::ZERO,
        }
    }

    pub(super) fn handle_packet_size(&mut self, packet: DataSize) {
        self.packet = packet_bytes(packet);
    }

    /// Handles a batch of this many acknowledgements, after which this many bytes are in flight.
    pub(super) fn handle_batch(&mut self, acks: u32, in_flight: u64) {
        // A receiver acknowledges every second packet at once; a single one may have waited (RFC
        // 9000 §13.2.1).
        self.ack_delay = match acks {
            1 if in_flight == 0 => Duration::NEVER,
            1 => ACK_DELAY_MAX,
            _ => Duration::ZERO,
        };
    }

    /// Handles the sample of a batch, and how late packets arrived recently for reasons other than
    /// a queue; `was_full` if the window was ever full.
    pub(super) fn handle_sample(
        &mut self,
        now: Instant,
        sample: &Sample,
        late: Duration,
        was_full: bool,
    ) {
        self.delay.handle_sample(now, sample.rtt, sample.rtt_max);
        self.delay.handle_late(late);
        // Once the window was full, packets wait for each other and their round trips say nothing
        // of serialization.
        if !was_full {
            self.serial.handle_sample(sample.rtt_max, sample.size);
        }
        if let Some(rate) = sample.rate {
            self.rates.handle_sample(rate, sample.app_limited);
            self.serial.handle_rate(rate);
        }
    }

    /// Handles the end of a round trip.
    pub(super) fn handle_round(&mut self) {
        self.rates.handle_round();
        self.delay.handle_round();
    }

    /// Sets the base to what was measured without a queue of our own.
    pub(super) fn rebase(&mut self, base: Duration) {
        self.delay.rebase(base);
    }

    /// Returns the packet size, in bytes.
    pub(super) fn packet(&self) -> u64 {
        self.packet
    }

    pub(super) fn delay(&self) -> &Delay {
        &self.delay
    }

    /// Returns how long the last acknowledgement may have been delayed, in a drain at this greatest
    /// rate.
    pub(super) fn ack_delay_at(&self, rate_max: Bitrate) -> Duration {
        // By the greatest rate: a flow squeezed to two packets must not take a queue for ACK delay.
        if self.packet_exceeds(rate_max, SLOW_PART_MOST) {
            self.ack_delay.min(ACK_DELAY_MAX)
        } else {
            Duration::ZERO
        }
    }

    /// Returns the greatest rate of the last rounds, including the present one.
    pub(super) fn rate(&self) -> Bitrate {
        self.rates.over(ROUNDS)
    }

    /// Returns the same over fewer rounds.
    pub(super) fn rate_over(&self, rounds: u32) -> Bitrate {
        self.rates.over(rounds as usize)
    }

    /// Returns the rate of the last sample, over about one round trip: what the path carries now.
    pub(super) fn rate_latest(&self) -> Bitrate {
        self.rates.latest()
    }

    /// Returns the rate of a slow line as estimated before the window was full; zero if unknown.
    pub(super) fn rate_serial(&self) -> Bitrate {
        self.serial.rate().unwrap_or(Bitrate::ZERO)
    }

    /// Returns the bandwidth-delay product at a rate, in bytes: what the path carries without a queue.
    pub(super) fn bdp(&self, rate: Bitrate) -> f64 {
        (rate * self.delay.base()).as_bytes() as f64
    }

    /// Returns the same with Copa's queue: the window of a flow alone.
    pub(super) fn window_alone(&self, rate: Bitrate) -> f64 {
        self.bdp(rate) + self.packet as f64 / DELTA
    }

    /// Returns that window for a line that is known to be slow and was never full, in bytes.
    pub(super) fn known_window(&self) -> Option<f64> {
        Some(self.window_alone(self.serial.rate()?))
    }

    /// Returns the queueing delay up to which the queue counts as empty: E of docs/concepts/congestion.md.
    pub(super) fn quiet_limit(&self) -> Duration {
        self.limit_at(self.rate())
    }

    /// Returns the same at this rate. One packet's serialization delay is added, up to a quarter of
    /// the round trip: a flow that is squeezed must not take its rivals' queue for its own packet.
    pub(super) fn limit_at(&self, rate: Bitrate) -> Duration {
        let base = self.delay.base().as_nanos();
        let serial = match rate {
            Bitrate::ZERO => Duration::ZERO,
            rate => rate.time_for(DataSize::from_bytes(self.packet)),
        };
        let quarter = Duration::from_nanos(base / 4);
        Duration::from_nanos(base / 8).max(EMPTY_MIN) + serial.min(quarter)
    }

    /// Returns whether the queueing delay exceeds what jitter or a delayed acknowledgement explains.
    pub(super) fn is_queue_long(&self) -> bool {
        self.is_long_above(self.quiet_limit())
    }

    /// Returns the same where a delay up to `limit` is normal.
    pub(super) fn is_long_above(&self, limit: Duration) -> bool {
        let most = limit.as_nanos().saturating_mul(LONG_FACTOR);
        let queueing = self.delay.queueing().saturating_sub(self.ack_delay);
        queueing.as_nanos() >= most.max(self.delay.base().as_nanos())
    }

    /// Returns whether one packet takes more than a quarter of the round trip; true at no rate.
    pub(super) fn is_slow_at(&self, rate: Bitrate) -> bool {
        self.packet_exceeds(rate, SLOW_PART)
    }

    /// Returns whether one packet takes more than the round trip over `part`; true at no rate.
    fn packet_exceeds(&self, rate: Bitrate, part: f64) -> bool {
        if rate == Bitrate::ZERO {
            return true;
        }
        let serial = rate.time_for(DataSize::from_bytes(self.packet));
        serial.as_secs_f64() * part > self.delay.base().as_secs_f64()
    }

    /// Returns whether this round trip may be of a path with that base round trip, without a queue.
    pub(super) fn is_as_long(&self, base: Duration, rtt: Duration) -> bool {
        let usual = base + self.delay.slack() + self.ack_delay.min(ACK_DELAY_MAX);
        let limit = self.quiet_limit();
        // A shorter path is another path, too.
        rtt.saturating_sub(usual) <= limit && base.saturating_sub(rtt) <= limit
    }
}

fn packet_bytes(packet: DataSize) -> u64 {
    let bytes = packet.as_bytes();
    bytes.clamp(*PACKET_BYTES.start(), *PACKET_BYTES.end())
}
