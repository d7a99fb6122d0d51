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

/// How long a memory holds: competing flows come and go in minutes.
const AGE_MAX: Duration = Duration::from_secs(600);

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
