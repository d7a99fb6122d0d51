//! `PaceK`: as much as the kernel can send now, and a sliver.
//!
//! *The idea.* The kernel knows its congestion window, what is on its way and what it could not send yet. Handed over is
//! what fits the window, and beyond it only what keeps the kernel from running dry until it is asked again.
//!
//! ```text
//! credit = (window − in flight) + sliver − unsent         0 while unsent ≥ sliver
//! sliver = rate · min(wake, RTT)                          two packets at least, one window at most
//! ```
//!
//! What is handed over is counted off what the kernel said last, so that it need not be asked for each ADU: only a window that
//! shrinks meanwhile is missed, and then no more than 64 KiB lie where they cannot be overtaken.
//!
//! While something is unsent the window is not what holds it up (the peer's is, or the pace), so its rest is not counted.
//!
//! *What it does not do.* It asks nothing of the kernel: who drives it reads `TCP_INFO` and hands it in.
//!
//! *Sources.* PL-12; Linux `tcp_info`, `SIOCOUTQNSD` (its number is `tcpi_notsent_bytes`); Goel, Krasic, Walpole, "Low-latency
//! adaptive streaming over TCP", TOMCCAP 4(3), 2008.

#[cfg(test)]
mod tests;

use crate::outbox::CHUNK_BYTES_MIN;
use crate::outbox::gate::{SLIVER_MIN, WAKE};
use crate::time::Duration;
use crate::units::{Bitrate, DataSize};

/// Of what may go by the kernel's word, this part is handed over before it is asked again: a window that shrinks
/// meanwhile by as much leaves nothing unsent.
const UNASKED_PART: u64 = 4;

/// But ten packets of the least size at least, with which the kernel would begin anew after a pause (RFC 6928, RFC 9293
/// §3.8.2).
const UNASKED_MIN: DataSize = DataSize::from_bytes(10 * CHUNK_BYTES_MIN as u64);

/// And no more than a line of 100 Mbit/s takes in 5 ms: so much may lie where it cannot be overtaken, should the kernel
/// close its window altogether.
const UNASKED_MAX: DataSize = DataSize::from_bytes(64 << 10);

/// What the kernel says of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelPath {
    /// The congestion window.
    pub window: DataSize,
    /// Sent and not acknowledged.
    pub in_flight: DataSize,
    /// Handed over and not sent.
    pub unsent: DataSize,
    /// Acknowledged by the peer's kernel, since the connection began.
    pub acknowledged: DataSize,
    /// The smoothed round trip; zero before one was measured.
    pub rtt: Duration,
    /// The least round trip of the last minutes; zero before one was measured.
    pub rtt_min: Duration,
    /// The latest rate of delivery; zero before one was measured.
    pub delivery_rate: Bitrate,
    /// How often in a row the timer for the oldest segment has run out.
    pub timeouts: u32,
    /// Segments that were sent again, since the connection began.
    pub segments_again: u64,
}

/// The pacer that asks the kernel.
#[derive(Clone, Copy, Debug)]
pub struct PaceK {
    path: KernelPath,
    /// How much may be handed over on that, before anything was.
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
    /// Takes in what the kernel says now.
    pub fn handle_path(&mut self, path: KernelPath) {
        // Something waits, and it is the window that it waits for.
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

    /// Takes in that so much has been handed over since.
    pub fn handle_written(&mut self, bytes: DataSize) {
        self.written += bytes;
    }

    /// Returns how much may be handed over now; two packets while the kernel has said nothing.
    ///
    /// Cost    one subtraction: it is asked several times for each ADU
    pub fn credit(&self) -> DataSize {
        self.allowed.saturating_sub(self.written)
    }

    /// Returns how much may lie unsent in the kernel.
    pub const fn sliver(&self) -> DataSize {
        self.sliver
    }

    /// Returns whether so much has been handed over on what the kernel said that it is to be asked again.
    pub fn is_used_up(&self) -> bool {
        let part = DataSize::from_bytes(self.allowed.as_bytes() / UNASKED_PART);
        self.written >= part.clamp(UNASKED_MIN, UNASKED_MAX)
    }

    /// Returns the rate at which the path can be expected to send: what was delivered, else the window a round trip.
    pub fn rate(&self) -> Option<Bitrate> {
        rate(&self.path)
    }

    /// Returns whether the window has ever been what held something up.
    pub const fn has_been_full(&self) -> bool {
        self.has_been_full
    }

    /// Returns what the kernel said last.
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
    let wake = match path.rtt {
        Duration::ZERO => WAKE,
        rtt => WAKE.min(rtt),
    };
    (rate * wake).min(path.window).max(SLIVER_MIN)
}

fn allowed(path: &KernelPath, sliver: DataSize) -> DataSize {
    if path.unsent >= sliver {
        return DataSize::ZERO;
    }
    path.window.saturating_sub(path.in_flight) + sliver.saturating_sub(path.unsent)
}
