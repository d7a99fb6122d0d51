//! How much may lie below the outbox.
//!
//! *The idea.* What has been handed to the transport can no longer be reordered. So only as much is handed over as may be
//! in flight, and a sliver beyond it that keeps the transport from running dry until it is asked again.
//!
//! ```text
//! handed over and not acknowledged  ≤  congestion window + sliver
//! sliver = rate · min(wake, RTT)       2 packets at least, one window at most
//! ```
//!
//! With *wake* how long it takes at most until room is noticed and filled. On a path of 150 kbit/s the sliver is the two
//! packets; at 1 Gbit/s it is 250 kB, which are 2 ms.
//!
//! *What it does not do.* It measures nothing: window, round trip and what is outstanding are the transport's. A transport
//! that says nothing of a window (its first packets are not acknowledged yet) is given [`WINDOW_UNKNOWN`].
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

/// Lets through what the transport can send soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    window: DataSize,
    sliver: DataSize,
    outstanding: DataSize,
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
            outstanding: DataSize::ZERO,
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
        self.outstanding += bytes;
    }

    /// Takes in that so much is acknowledged, or has been taken back by a reset.
    ///
    /// What was never handed over cannot be: it is counted, and opens nothing.
    pub fn handle_acknowledged(&mut self, bytes: DataSize) {
        self.false_acknowledged += bytes.saturating_sub(self.outstanding);
        self.outstanding = self.outstanding.saturating_sub(bytes);
    }

    /// Returns how much may be handed over and not acknowledged.
    pub fn limit(&self) -> DataSize {
        self.window + self.sliver
    }

    /// Returns how much may be handed over now.
    pub fn credit(&self) -> DataSize {
        self.limit().saturating_sub(self.outstanding)
    }

    /// Returns how much is handed over and not acknowledged.
    pub const fn outstanding(&self) -> DataSize {
        self.outstanding
    }

    /// Returns how much was said to be acknowledged that was never handed over.
    pub const fn false_acknowledged(&self) -> DataSize {
        self.false_acknowledged
    }
}
