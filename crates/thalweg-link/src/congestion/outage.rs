//! The return of a path after an outage: restores the window it carried before.
//!
//! *The idea.* When nothing arrives for long, QUIC declares persistent congestion, which leaves a
//! window of two packets (RFC 9002 §7.6). That is right where other flows have filled the path. But
//! a line that was cut carries what it did before once it is back, and growing the window again
//! would take four or five round trips. So the window is remembered. If a packet sent afterwards
//! takes the base round trip of before, it is the same path, and empty: the window is restored as
//! far as it was validated, half of it at least. It leaves paced, and slow start's exits still
//! apply.
//!
//! The same holds for what an earlier connection over the path has left (`memory`).
//!
//! *What it does not do.* It restores nothing on a path that became longer or shorter, or on which
//! a queue stands.
//!
//! *Sources.* draft-ietf-tsvwg-careful-resume (confirm the round trip first; send no more than was
//! measured).

use thalweg_base::time::Duration;
use thalweg_base::units::DataSize;

use super::measured::Measured;
use super::memory::Carried;

/// Most packets that a new connection restores: what a video of 1.5 Mbit/s has in flight on a line
/// of 300 ms. On a line that came back with 1 Mbit/s they are a queue of half a second at most,
/// once.
const RESUMED_PACKETS_MAX: u64 = 40;

/// What the path carried before an outage, or for an earlier connection, until a round trip shows
/// whether it is still the same path.
#[derive(Clone, Debug, Default)]
pub(super) struct Outage {
    before: Option<Carried>,
}

impl Outage {
    /// Handles persistent congestion on a path with this validated window, in bytes.
    pub(super) fn begin(&mut self, window: f64, path: &Measured) {
        let before = self.before.map_or(DataSize::ZERO, |before| before.window);
        // The larger of both: repeated timeouts within one outage must not shrink the memory.
        self.before = Some(Carried {
            window: DataSize::from_bytes(window as u64).max(before),
            rtt: path.delay().base(),
        });
    }

    /// Handles what an earlier connection measured; ignored if there was an outage since. Returns
    /// whether it is remembered.
    pub(super) fn recall(&mut self, carried: Carried, path: &Measured) -> bool {
        if self.before.is_some() {
            return false;
        }
        let most = DataSize::from_bytes(RESUMED_PACKETS_MAX * path.packet());
        self.before = Some(Carried {
            window: carried.window.min(most),
            ..carried
        });
        true
    }

    /// Handles a window that this connection has found itself.
    pub(super) fn forget(&mut self) {
        self.before = None;
    }

    /// Returns the remembered window in bytes, once, if this round trip shows the same path without
    /// a queue.
    pub(super) fn resume(&mut self, rtt: Duration, path: &Measured) -> Option<f64> {
        let before = self.remembered(rtt, path)?;
        self.before = None;
        Some(before.window.as_bytes() as f64)
    }

    /// Returns what is remembered, if this round trip may be that of the remembered path.
    pub(super) fn remembered(&self, rtt: Duration, path: &Measured) -> Option<Carried> {
        self.before
            .filter(|before| path.is_as_long(before.rtt, rtt))
    }
}
