//! How much may lie below the outbox.
//!
//! *The idea.* What has been handed to the transport can no longer be reordered. So only as much is handed over as may be
//! in flight, and a sliver beyond it that keeps the transport from running dry until it is asked again.
//!
//! ```text
//! in flight + unsent  ≤  congestion window + sliver
//! sliver = rate · min(wake, RTT)       2 packets at least, one window at most
//! ```
//!
//! Room is noticed when it is half a sliver ([`Gate::is_open`]): the other half keeps the transport busy until it is filled,
//! and whoever fills it is woken for more than a packet.
//!
//! With *wake* how long it takes at most until room is noticed and filled. On a path of 150 kbit/s the sliver is the two
//! packets; at 1 Gbit/s it is 250 kB, which are 2 ms.
//!
//! What is in flight is known to the byte. What is unsent is not: a transport tells of packets, in which there are headers
//! and its own frames besides. So a packet is taken to have carried less than it can have, and less seems to have gone
//! than has; whenever the transport says that it ran dry, all is known to have gone. The error holds back a sliver at
//! most, never lets more through.
//!
//! *What it does not do.* It measures nothing: window, round trip and packets are the transport's. A transport that says
//! nothing of a window (its first packets are not acknowledged yet) is given [`WINDOW_UNKNOWN`].
//!
//! *Sources.* RFC 9002 §7; Linux `tcp_notsent_lowat`; spec PL-6.

use crate::time::Duration;
use crate::units::{Bitrate, DataSize};

/// How long room in the transport may go unnoticed: a task's wake-up on a busy machine is well below.
pub const WAKE: Duration = Duration::from_millis(2);

/// The window of a path of which nothing is known: the initial window of RFC 9002 §7.2.
pub const WINDOW_UNKNOWN: DataSize = DataSize::from_bytes(12_000);

/// The least sliver: two packets, so that one can be filled while the other is sent.
pub const SLIVER_MIN: DataSize = DataSize::from_bytes(2_400);

/// Of a packet, what is surely not payload: headers of packet and frame, and the seal.
const PACKET_OVERHEAD_BYTES: u64 = 40;

/// Of the rest, one part in so many may be the transport's own frames: acknowledgements of what comes the other way.
const FRAMES_PART: u64 = 16;

/// Lets through what the transport can send soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    window: DataSize,
    sliver: DataSize,
    in_flight: DataSize,
    /// What may be in flight beyond the window until something is acknowledged.
    beyond: DataSize,
    /// All that was ever handed over.
    written: u64,
    /// Of that, what has surely left in packets.
    left: u64,
    /// What had been handed over when the last packet left.
    written_at_packet: u64,
    false_acknowledged: DataSize,
}

/// What the transport says of its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// What may be unacknowledged; zero if that is not known.
    pub window: DataSize,
    /// The smoothed round trip; zero if it was not measured.
    pub rtt: Duration,
    /// The estimate of the sendable rate; zero if there is none, and then it is window over round trip.
    pub rate: Bitrate,
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
    /// Returns the rate at which the path can be expected to send, if anything is known of it.
    pub fn sendable_rate(&self) -> Option<Bitrate> {
        if self.rate != Bitrate::ZERO {
            return Some(self.rate);
        }
        let rate = self.window / self.rtt;
        (rate != Bitrate::ZERO).then_some(rate)
    }
}

impl Gate {
    /// Takes in what the transport says now.
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

    /// Takes in that so much has been handed over.
    pub fn handle_written(&mut self, bytes: DataSize) {
        self.written += bytes.as_bytes();
    }

    /// Takes in that a packet of this size has left.
    pub fn handle_packet(&mut self, packet: DataSize) {
        self.in_flight += packet;
        // What is not ours, such as a handshake, carries nothing that was handed over.
        self.left = (self.left + payload(packet)).min(self.written);
        self.written_at_packet = self.written;
    }

    /// Takes in that a packet of this size has arrived.
    ///
    /// One that never left cannot have: it is counted, and opens nothing.
    pub fn handle_acknowledged(&mut self, packet: DataSize) {
        self.beyond = DataSize::ZERO;
        self.false_acknowledged += packet.saturating_sub(self.in_flight);
        self.in_flight = self.in_flight.saturating_sub(packet);
    }

    /// Takes in that a packet of this size was lost: what it carried has to be sent again.
    pub fn handle_lost(&mut self, packet: DataSize) {
        self.in_flight = self.in_flight.saturating_sub(packet);
        self.left = self.left.saturating_sub(payload(packet));
    }

    /// Takes in what is in flight as the transport counts it, and whether it had nothing more to send.
    pub fn handle_in_flight(&mut self, in_flight: DataSize, is_dry: bool) {
        self.in_flight = in_flight;
        if is_dry {
            // What was handed over since the last packet may still wait for its turn.
            self.left = self.left.max(self.written_at_packet);
        }
    }

    /// Lets a packet of this size go, however much is in flight, until something is acknowledged; returns how much may be in
    /// flight beyond the window till then.
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

    /// Returns whether there is so much credit that it is worth a wake-up.
    pub fn is_open(&self) -> bool {
        self.credit().as_bytes() >= self.sliver.as_bytes() / 2
    }

    /// Returns how much is in packets that are neither acknowledged nor lost.
    pub const fn in_flight(&self) -> DataSize {
        self.in_flight
    }

    /// Returns how much may have been handed over and not have left: never less than there is.
    pub const fn unsent(&self) -> DataSize {
        DataSize::from_bytes(self.written - self.left)
    }

    /// Returns how much was said to be acknowledged that was not in flight.
    pub const fn false_acknowledged(&self) -> DataSize {
        self.false_acknowledged
    }
}

/// Returns how much of what was handed over a packet has surely carried.
fn payload(packet: DataSize) -> u64 {
    let rest = packet.as_bytes().saturating_sub(PACKET_OVERHEAD_BYTES);
    rest - rest / FRAMES_PART
}
