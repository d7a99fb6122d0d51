//! The credit: how much may lie below the outbox.
//!
//! *The idea.* Bytes handed to the transport can no longer be reordered. So only as much is handed
//! over as may be in flight, and a sliver beyond it that keeps the transport busy until it is asked
//! again.
//!
//! ```text
//! in flight + unsent  ≤  congestion window + sliver
//! sliver = rate · min(wake, RTT)       2 packets at least, one window at most
//! ```
//!
//! *Wake* is the longest time until new room is noticed and filled. On a path of 150 kbit/s the
//! sliver is the two packets; at 1 Gbit/s it is 250 kB, which are 2 ms. Room is signalled when it
//! is half a sliver ([`Gate::is_open`]): the other half keeps the transport busy until it is
//! filled, and the sender is woken for more than a packet.
//!
//! Bytes in flight are known exactly. Unsent bytes are not: a transport reports packets, which also
//! contain headers and its own frames. So a packet is assumed to carry less than it may, and less
//! seems to have left than has. When the transport reports that it ran dry, everything handed over
//! before its last packet has left. The error holds back a sliver at most, and never lets more
//! through.
//!
//! *What it does not do.* It measures nothing: window, round trip and packets are the transport's.
//! While a transport reports no window (before the first acknowledgement), [`WINDOW_UNKNOWN`]
//! applies.
//!
//! *Sources.* RFC 9002 §7; Linux `tcp_notsent_lowat`; spec PL-6.

use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};

/// How long room in the transport may go unnoticed: a task's wake-up on a busy machine takes much less.
pub const WAKE: Duration = Duration::from_millis(2);

/// The window of an unknown path: the initial window of RFC 9002 §7.2.
pub const WINDOW_UNKNOWN: DataSize = DataSize::from_bytes(12_000);

/// The least sliver: two packets, so that one can be filled while the other is sent.
pub const SLIVER_MIN: DataSize = DataSize::from_bytes(2_400);

/// Bytes of a packet that are certainly not payload: headers of packet and frame, and the AEAD tag.
const PACKET_OVERHEAD_BYTES: u64 = 40;

/// One part in this many of the rest may be the transport's own frames: acknowledgements of the
/// opposite direction.
const FRAMES_PART: u64 = 16;

/// Lets through what the transport can send soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    window: DataSize,
    sliver: DataSize,
    in_flight: DataSize,
    /// Allowance beyond the window, until something is acknowledged.
    beyond: DataSize,
    /// All bytes ever handed over.
    written: u64,
    /// The part of those that has certainly left in packets.
    left: u64,
    /// Bytes handed over when the last packet left.
    written_at_packet: u64,
    false_acknowledged: DataSize,
}

/// The transport's report of its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The congestion window; zero if unknown.
    pub window: DataSize,
    /// The smoothed round trip; zero before the first sample.
    pub rtt: Duration,
    /// The estimated rate; zero if there is none, and then it is window over round trip.
    pub rate: Bitrate,
}

/// Packets that were sent together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    bytes: DataSize,
    /// What of that was certainly handed over.
    payload: u64,
}

impl Burst {
    /// Adds a packet of this size.
    pub fn add(&mut self, packet: DataSize) {
        self.bytes += packet;
        self.payload += payload(packet);
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            window: WINDOW_UNKNOWN,
            sliver: SLIVER_MIN,
            in_flight: DataSize::ZERO,
            beyond: DataSize::ZERO,
            written: 0,
            left: 0,
            written_at_packet: 0,
            false_acknowledged: DataSize::ZERO,
        }
    }
}

impl Path {
    /// Returns the expected rate of the path, if anything is known of it.
    pub fn sendable_rate(&self) -> Option<Bitrate> {
        if self.rate != Bitrate::ZERO {
            return Some(self.rate);
        }
        let rate = self.window / self.rtt;
        (rate != Bitrate::ZERO).then_some(rate)
    }
}

impl Gate {
    /// Handles the transport's present report.
    pub fn handle_path(&mut self, path: &Path) {
        self.window = match path.window {
            DataSize::ZERO => WINDOW_UNKNOWN,
            window => window,
        };
        let rate = path.sendable_rate().unwrap_or(Bitrate::ZERO);
        let wake = if path.rtt == Duration::ZERO {
            WAKE
        } else {
            WAKE.min(path.rtt)
        };
        self.sliver = (rate * wake).min(self.window).max(SLIVER_MIN);
    }

    /// Handles that `bytes` were handed over.
    pub fn handle_written(&mut self, bytes: DataSize) {
        self.written += bytes.as_bytes();
    }

    /// Handles that a packet of this size was sent.
    pub fn handle_packet(&mut self, packet: DataSize) {
        let mut burst = Burst::default();
        burst.add(packet);
        self.handle_burst(&burst);
    }

    /// Handles that packets were sent, and nothing was handed over meanwhile.
    pub fn handle_burst(&mut self, burst: &Burst) {
        self.in_flight += burst.bytes;
        // Packets of the transport's own, such as a handshake's, carry nothing that was handed over.
        self.left = (self.left + burst.payload).min(self.written);
        // Bytes handed over after this packet may be in the next one.
        self.written_at_packet = self.written;
    }

    /// Handles the acknowledgement of a packet of this size.
    ///
    /// One that was never sent is counted, and opens nothing.
    pub fn handle_acknowledged(&mut self, packet: DataSize) {
        self.beyond = DataSize::ZERO;
        // A peer that acknowledges what was never sent must not open the gate.
        self.false_acknowledged += packet.saturating_sub(self.in_flight);
        self.in_flight = self.in_flight.saturating_sub(packet);
    }

    /// Handles the loss of a packet of this size: its bytes are to be retransmitted.
    pub fn handle_lost(&mut self, packet: DataSize) {
        self.in_flight = self.in_flight.saturating_sub(packet);
        self.left = self.left.saturating_sub(payload(packet));
    }

    /// Handles the transport's count of bytes in flight, and whether it had nothing more to send.
    pub fn handle_in_flight(&mut self, in_flight: DataSize, is_dry: bool) {
        self.in_flight = in_flight;
        if is_dry {
            // Bytes handed over since the last packet may still wait for their turn.
            self.left = self.left.max(self.written_at_packet);
        }
    }

    /// Lets one packet of this size go, whatever is in flight, until something is acknowledged;
    /// returns the allowance beyond the window till then.
    pub fn let_one_through(&mut self, packet: DataSize) -> DataSize {
        let below = self.in_flight + self.unsent().saturating_sub(self.sliver);
        self.beyond = (below + packet).saturating_sub(self.window);
        self.beyond
    }

    /// Returns how much may be in flight or unsent.
    pub fn limit(&self) -> DataSize {
        self.window + self.sliver + self.beyond
    }

    /// Returns how much may be handed over now.
    pub fn credit(&self) -> DataSize {
        self.limit().saturating_sub(self.in_flight + self.unsent())
    }

    /// Returns whether the credit is worth a wake-up.
    pub fn is_open(&self) -> bool {
        self.credit().as_bytes() >= self.sliver.as_bytes() / 2
    }

    /// Returns the bytes in packets that are neither acknowledged nor lost.
    pub const fn in_flight(&self) -> DataSize {
        self.in_flight
    }

    /// Returns an upper bound of the bytes handed over and not sent.
    pub const fn unsent(&self) -> DataSize {
        DataSize::from_bytes(self.written - self.left)
    }

    /// Returns the bytes acknowledged that were not in flight.
    pub const fn false_acknowledged(&self) -> DataSize {
        self.false_acknowledged
    }
}

/// Returns how many bytes of what was handed over a packet has certainly carried.
fn payload(packet: DataSize) -> u64 {
    let rest = packet.as_bytes().saturating_sub(PACKET_OVERHEAD_BYTES);
    rest - rest / FRAMES_PART
}
