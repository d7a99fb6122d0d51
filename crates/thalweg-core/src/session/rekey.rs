//! When a stream takes another key, and which plans are of the one before.
//!
//! *The idea.* Every plan is sealed and opened with the key of its time, and a change of plans loses nothing: so a new key is
//! a new plan for every sink, by the same way if that is still the best. Plans of the key before go on until the new ones
//! are in force, and nothing new is grafted on them.
//!
//! *What it does not do.* It holds no key, and does not know who had it: [`crate::control`] does.

use super::{Output, RETRY, Session};
use crate::id::Epoch;
use crate::time::{Duration, Instant};

/// Between two keys of a stream: who is struck off meanwhile waits for the next, so that a hundred who go at once make two
/// changes of plans and not a hundred.
pub const REKEY_MIN: Duration = Duration::from_secs(5);

/// When a key is due, and since when the present one is used.
#[derive(Debug, Default)]
pub(super) struct Rekey {
    /// When the next is to be drawn, if it is.
    pub(super) due: Option<Instant>,
    /// Not before this.
    next: Instant,
    /// The first plan of the present key.
    pub(super) first: Epoch,
}

impl Session {
    /// Takes in that a node has the stream's key and may not have it any more: another is wanted.
    pub fn handle_exposed(&mut self, now: Instant) {
        self.due = None;
        let due = self.rekey.next.max(now);
        self.rekey.due.get_or_insert(due);
    }

    /// Takes in that the stream has another key; every sink is planned anew. Returns the first plan that is of it.
    pub fn handle_key(&mut self, now: Instant) -> Epoch {
        self.due = None;
        self.rekey.due = None;
        self.rekey.next = now + REKEY_MIN;
        self.rekey.first = Epoch(self.epoch_last + 1);
        self.want_plans(|_, _| true);
        self.rekey.first
    }

    /// Asks for a key that is due; one that cannot be drawn is asked for again.
    pub(super) fn time_rekey(&mut self, now: Instant) {
        if let Some(due) = self.rekey.due.as_mut().filter(|due| **due <= now) {
            *due = now + RETRY;
            self.outputs.push_back(Output::KeyWanted);
        }
    }
}
