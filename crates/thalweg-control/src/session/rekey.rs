//! When a stream takes another key, and which plans use the former one.
//!
//! *The idea.* Every plan seals with the key of its time, and a switch of plans loses nothing. So a
//! new key means a new plan for every sink, on the same path if that is still the best. Plans with
//! the former key go on until the new ones are in force, and nothing new is grafted on them.
//!
//! *What it does not do.* It holds no key, and does not know which nodes had it: [`crate::control`] does.

use thalweg_base::id::Epoch;
use thalweg_base::time::{Duration, Instant};

use super::RETRY;

/// Minimum interval between two keys of a stream. Revocations in between wait for the next, so that
/// a hundred at once cause two rounds of plans instead of a hundred.
pub const REKEY_MIN: Duration = Duration::from_secs(5);

/// When the next key is due, and which plans use the present one.
#[derive(Debug, Default)]
pub(super) struct Rekey {
    /// When the next key is to be drawn, if it is.
    due: Option<Instant>,
    /// The earliest time of the next key.
    next: Instant,
    /// The first plan with the present key.
    first: Epoch,
}

impl Rekey {
    /// Handles the exposure of the key to a node without the right to it.
    pub(super) fn handle_exposed(&mut self, now: Instant) {
        let due = self.next.max(now);
        self.due.get_or_insert(due);
    }

    /// Handles a new key, which all plans from this one on use.
    pub(super) fn handle_key(&mut self, first: Epoch, now: Instant) {
        *self = Self {
            due: None,
            next: now + REKEY_MIN,
            first,
        };
    }

    /// Handles the end of the stream: no key is drawn any more.
    pub(super) fn handle_close(&mut self) {
        self.due = None;
    }

    /// Returns whether to request a key now; it is due again after [`RETRY`] if it could not be drawn.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        let due = self.due.as_mut().filter(|due| **due <= now);
        due.map(|due| *due = now + RETRY).is_some()
    }

    /// Returns when the next key is to be drawn, if it is.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the first plan with the present key.
    pub(super) fn first(&self) -> Epoch {
        self.first
    }
}
