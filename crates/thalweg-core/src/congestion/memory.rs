//! What a path carried, for the connection that comes after this one.
//!
//! *The idea.* A link that was out for long comes back as a new connection, with a controller that knows nothing of the path: ten
//! packets a round trip, and most of a picture waits. But the path is most likely the one that there was. So who has the link keeps what
//! its controller says that the path carried, and tells it to the next, which believes it once a round trip shows that the path is as
//! long as it was, and empty (`outage`).
//!
//! ```text
//! Controller::to_keep ─► Memory::keep … the link is gone, and made anew … Memory::recall ─► Controller::handle_kept
//! ```
//!
//! *What it does not do.* It knows no peers and no paths: who keeps several has several.
//!
//! *Sources.* draft-ietf-tsvwg-careful-resume §3 (what is saved, and that it ages).

use super::estimate::ROUNDS;
use super::{Controller, Mode};
use crate::time::{Duration, Instant};
use crate::units::DataSize;

/// How long it holds what a path carried: whom one shares a path with comes and goes in minutes.
const HOLDS: Duration = Duration::from_secs(600);

/// A new connection takes no more packets for granted: what a video of 1.5 Mbit/s has on its way on a line of 300 ms. On a line that has
/// come back with 1 Mbit/s they are a queue of half a second at most, once.
const PACKETS_KEPT: u64 = 40;

/// What a path carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The window, as far as it was tried.
    pub window: DataSize,
    /// The round trip without a queue.
    pub rtt: Duration,
}

/// What the path to one peer carried, over its connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    kept: Option<(Instant, Carried)>,
}

impl Memory {
    /// Keeps what the path carries now.
    pub fn keep(&mut self, now: Instant, carried: Carried) {
        self.kept = Some((now, carried));
    }

    /// Returns what it carried, if that is not too long ago.
    pub fn recall(&self, now: Instant) -> Option<Carried> {
        let (at, carried) = self.kept?;
        (now.saturating_since(at) <= HOLDS).then_some(carried)
    }
}

impl Controller {
    /// Returns what the path carries, or carried before an outage that is not over; nothing before a round trip was measured.
    ///
    /// In competition a part of the window lies in a queue that will not be there: what was delivered in a round trip is what counts.
    pub fn to_keep(&self) -> Option<Carried> {
        if !self.delay.is_known() {
            return None;
        }
        let rtt = self.delay.base();
        if let Some(before) = self.before.filter(|before| self.is_as_long(before, rtt)) {
            return Some(before);
        }
        let tried = DataSize::from_bytes(self.tried() as u64);
        let window = match self.mode() {
            // It has met nothing yet that says otherwise, so a link that is lost again and again while it is idle forgets nothing.
            Mode::Start => self.window(),
            Mode::Quiet | Mode::Drain => tried,
            Mode::Compete => tried.min(self.rates.over(ROUNDS) * rtt),
        };
        Some(Carried { window, rtt })
    }

    /// Takes in what an earlier connection found of what may be the same path; one that has found something by itself needs it not.
    pub fn handle_kept(&mut self, carried: Carried) {
        // What was lost before does not count: it was dialled while the line was out.
        if self.mode() == Mode::Start && self.before.is_none() {
            let most = DataSize::from_bytes(PACKETS_KEPT * self.packet);
            self.before = Some(Carried {
                window: carried.window.min(most),
                ..carried
            });
            if self.delay.is_known() {
                self.resume(self.delay.base());
            }
        }
    }
}
