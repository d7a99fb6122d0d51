//! When a stream takes another key, and which plans use the former one.
//!
//! *The idea.* Every plan seals with the key of its time, and a switch of plans loses nothing. So a
//! new key means a new plan for every sink, on the same path if that is still the best. Plans with
//! the former key go on until the new ones are in force, and nothing new is grafted on them.
//!
//! *What it does not do.* It holds no key, and does not know which nodes had it: [`crate::control`] does.

use thalweg_base::id::Epoch;
use thalweg_base::time::{Duration, Instant};

use super::{Output, RETRY, Session};

/// Minimum interval between two keys of a stream. Revocations in between wait for the next, so that
/// a hundred at once cause two rounds of plans instead of a hundred.
pub const REKEY_MIN: Duration = Duration::from_secs(5);

/// When the next key is due, and which plans use the present one.
#[derive(Debug, Default)]
pub(super) struct Rekey {
    /// When the next key is to be drawn, if it is.
    pub(super) due: Option<Instant>,
    /// The earliest time of the next key.
    next: Instant,
    /// The first plan with the present key.
    pub(super) first: Epoch,
}

impl Session {
    /// Handles the exposure of the key to a node without the right to it: another is requested.
    pub fn handle_exposed(&mut self, now: Instant) {
        self.due = None;
        let due = self.rekey.next.max(now);
        self.rekey.due.get_or_insert(due);
    }

    /// Handles a new key: every sink is replanned. Returns the first plan that uses it.
    pub fn handle_key(&mut self, now: Instant) -> Epoch {
        self.due = None;
        self.rekey.due = None;
        self.rekey.next = now + REKEY_MIN;
        self.rekey.first = Epoch(self.epoch_last + 1);
        self.request_plans(|_, _| true);
        self.rekey.first
    }

    /// Requests a key that is due, and again after [`RETRY`] if it could not be drawn.
    pub(super) fn handle_rekey_timeout(&mut self, now: Instant) {
        if let Some(due) = self.rekey.due.as_mut().filter(|due| **due <= now) {
            *due = now + RETRY;
            self.outputs.push_back(Output::KeyWanted);
        }
    }
}
