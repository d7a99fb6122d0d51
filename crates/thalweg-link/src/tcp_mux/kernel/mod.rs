//! `PaceK`: hands over as much as the kernel can send now, and a sliver.
//!
//! *The idea.* The kernel knows its congestion window, the bytes in flight and the bytes it could
//! not send yet. This pacer hands over what fits the window, and beyond it only what keeps the
//! kernel busy until it is asked again.
//!
//! ```text
//! credit = (window − in flight) + sliver − unsent         0 while unsent ≥ sliver
//! sliver = rate · min(wake, RTT)                          two packets at least, one window at most
//! ```
//!
//! Bytes handed over are subtracted from the kernel's last answer, so that it need not be asked for
//! each ADU. Only a window that shrinks meanwhile is missed, and then no more than 64 KiB lie where
//! they cannot be overtaken.
//!
//! While bytes are unsent the window is not the limit (the peer's window or pacing is), so its rest
//! is not counted.
//!
//! *What it does not do.* It does not ask the kernel: the driver reads `TCP_INFO` and passes it in.
//!
//! *Sources.* PL-12; Linux `tcp_info`, `SIOCOUTQNSD` (its number is `tcpi_notsent_bytes`); Goel,
//! Krasic, Walpole, "Low-latency adaptive streaming over TCP", TOMCCAP 4(3), 2008.

#[cfg(test)]
mod tests;

use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};

use crate::outbox::CHUNK_BYTES_MIN;
use crate::outbox::gate::{SLIVER_MIN, WAKE};

/// This part of the credit is handed over before the kernel is asked again: a window that shrinks
/// by as much meanwhile leaves nothing unsent.
const REFRESH_PART: u64 = 4;

/// But at least ten packets of the smallest size, the kernel's restart window after a pause (RFC
/// 6928, RFC 9293 §3.8.2).
const REFRESH_MIN: DataSize = DataSize::from_bytes(10 * CHUNK_BYTES_MIN as u64);

/// And at most what a line of 100 Mbit/s takes in 5 ms: that much may lie where it cannot be
/// overtaken, should the kernel close its window altogether.
const REFRESH_MAX: DataSize = DataSize::from_bytes(64 << 10);

/// The kernel's state of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelPath {
    /// The congestion window.
    pub window: DataSize,
    /// Bytes sent and not acknowledged.
    pub in_flight: DataSize,
    /// Bytes handed over and not sent.
    pub unsent: DataSize,
    /// Bytes that the peer's kernel has acknowledged since the connection began.
    pub acknowledged: DataSize,
    /// The smoothed round trip; zero before the first sample.
    pub rtt: Duration,
    /// The minimum round trip of the last minutes; zero before the first sample.
    pub rtt_min: Duration,
    /// The latest delivery rate; zero before the first sample.
    pub delivery_rate: Bitrate,
    /// Consecutive retransmission timeouts of the oldest segment.
    pub timeouts: u32,
    /// Segments retransmitted since the connection began.
    pub segments_again: u64,
}

/// The pacer that goes by the kernel's state.
#[derive(Clone, Copy, Debug)]
pub struct PaceK {
    path: KernelPath,
    /// Credit as of the last kernel state, before anything was handed over.
    allowed: DataSize,
    /// How much may lie unsent in the kernel.
    sliver: DataSize,
    written: DataSize,
    has_been_full: bool,
}

impl Default for PaceK {
    fn default() -> Self {
        Self {
            path: KernelPath::default(),
            allowed: SLIVER_MIN,
            sliver: SLIVER_MIN,
            written: DataSize::ZERO,
            has_been_full: false,
        }
    }
}

impl PaceK {
    /// Handles the kernel's present state.
    pub fn handle_path(&mut self, path: KernelPath) {
        // Bytes wait, and the window is what they wait for.
        let is_full = path.unsent > DataSize::ZERO && path.in_flight >= path.window;
        let sliver = sliver(&path);
        *self = Self {
            path,
            allowed: allowed(&path, sliver),
            sliver,
            written: DataSize::ZERO,
            has_been_full: self.has_been_full || is_full,
        };
    }

    /// Handles that `bytes` were handed over since.
    pub fn handle_written(&mut self, bytes: DataSize) {
        self.written += bytes;
    }

    /// Returns how much may be handed over now; two packets before the kernel was first asked.
    ///
    /// Cost    one subtraction: it is called several times for each ADU
    pub fn credit(&self) -> DataSize {
        self.allowed.saturating_sub(self.written)
    }

    /// Returns how much may lie unsent in the kernel.
    pub const fn sliver(&self) -> DataSize {
        self.sliver
    }

    /// Returns whether so much credit is spent that the kernel is to be asked again.
    pub fn is_used_up(&self) -> bool {
        let part = DataSize::from_bytes(self.allowed.as_bytes() / REFRESH_PART);
        self.written >= part.clamp(REFRESH_MIN, REFRESH_MAX)
    }

    /// Returns the expected rate of the path: the delivery rate, else the window per round trip.
    pub fn rate(&self) -> Option<Bitrate> {
        rate(&self.path)
    }

    /// Returns whether the window was ever what limited the sender.
    pub const fn has_been_full(&self) -> bool {
        self.has_been_full
    }

    /// Returns the kernel's last state.
    pub const fn path(&self) -> &KernelPath {
        &self.path
    }
}

fn rate(path: &KernelPath) -> Option<Bitrate> {
    let rate = match path.delivery_rate {
        Bitrate::ZERO => path.window / path.rtt,
        rate => rate,
    };
    (rate != Bitrate::ZERO).then_some(rate)
}

fn sliver(path: &KernelPath) -> DataSize {
    let rate = rate(path).unwrap_or(Bitrate::ZERO);
    // On a path shorter than a wake-up the acknowledgement itself is the wake-up.
    let wake = match path.rtt {
        Duration::ZERO => WAKE,
        rtt => WAKE.min(rtt),
    };
    (rate * wake).min(path.window).max(SLIVER_MIN)
}

fn allowed(path: &KernelPath, sliver: DataSize) -> DataSize {
    // Something other than the window holds the kernel up, so its rest does not count.
    if path.unsent >= sliver {
        return DataSize::ZERO;
    }
    path.window.saturating_sub(path.in_flight) + sliver.saturating_sub(path.unsent)
}
