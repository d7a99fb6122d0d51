//! What a path carried, for the connection that comes after this one.
//!
//! *The idea.* A link that was out for long comes back as a new connection. Its controller knows
//! nothing of the path and starts with ten packets a round trip, while most of a video frame waits.
//! But the path is most likely the same. So the link's owner keeps what the old controller measured
//! and gives it to the new one, which uses it once a round trip shows that the path is as long as
//! before, and empty (`outage`).
//!
//! ```text
//! Controller::to_keep ─► Memory::keep … link lost, dialled again … Memory::recall ─► Controller::handle_kept
//! ```
//!
//! *What it does not do.* It knows no peers and no paths: the owner keeps one per path.
//!
//! *Sources.* draft-ietf-tsvwg-careful-resume §3 (what is saved, and that it ages).

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;

use super::estimate::ROUNDS;
use super::{Controller, Mode};

/// How long a memory holds: competing flows come and go in minutes.
const AGE_MAX: Duration = Duration::from_secs(600);

/// Most packets that a new connection restores: what a video of 1.5 Mbit/s has in flight on a line
/// of 300 ms. On a line that came back with 1 Mbit/s they are a queue of half a second at most,
/// once.
const RESUMED_PACKETS_MAX: u64 = 40;

/// What a path carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The window, as far as it was validated.
    pub window: DataSize,
    /// The base round trip.
    pub rtt: Duration,
}

/// What the path to one peer carried, kept across its connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    kept: Option<(Instant, Carried)>,
}

impl Memory {
    /// Stores what the path carries now.
    pub fn keep(&mut self, now: Instant, carried: Carried) {
        self.kept = Some((now, carried));
    }

    /// Returns what the path carried, if that is recent enough.
    pub fn recall(&self, now: Instant) -> Option<Carried> {
        let (at, carried) = self.kept?;
        (now.saturating_since(at) <= AGE_MAX).then_some(carried)
    }
}

impl Controller {
    /// Returns what the path carries, or carried before an outage that is not over; `None` before
    /// the first sample.
    ///
    /// In competition a part of the window lies in a queue that will be gone, so there the bytes
    /// delivered in a round trip count.
    pub fn to_keep(&self) -> Option<Carried> {
        if !self.delay.is_known() {
            return None;
        }
        let rtt = self.delay.base();
        if let Some(before) = self
            .before_outage
            .filter(|before| self.is_as_long(before, rtt))
        {
            return Some(before);
        }
        let validated_window = DataSize::from_bytes(self.validated_window() as u64);
        let window = match self.mode() {
            // Nothing has contradicted it yet: a link that is lost again and again while idle
            // forgets nothing.
            Mode::Start => self.window(),
            Mode::Quiet | Mode::Drain => validated_window,
            // The rest of the window lies in a queue that will be gone.
            Mode::Compete => validated_window.min(self.rates.over(ROUNDS) * rtt),
        };
        Some(Carried { window, rtt })
    }

    /// Handles what an earlier connection measured of possibly the same path; ignored once this one
    /// has left its start.
    pub fn handle_kept(&mut self, carried: Carried) {
        // Losses so far do not count: this connection was dialled while the line was out.
        if self.mode() == Mode::Start && self.before_outage.is_none() {
            let most = DataSize::from_bytes(RESUMED_PACKETS_MAX * self.packet);
            self.before_outage = Some(Carried {
                window: carried.window.min(most),
                ..carried
            });
            if self.delay.is_known() {
                self.resume(self.delay.base());
            }
        }
    }
}
