//! How a stream ended, what follows, and the producers that are asked for it.

use alloc::vec::Vec;

use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::time::Instant;

/// How a stream ended, as its last ADU says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// Its producer ended it: the stream is complete.
    Finished,
    /// Its producer went away: the next of its name is awaited.
    CutOff,
}

/// What follows the end of a stream, for a reader that has reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequel {
    /// The stream of another producer, which is known or awaited.
    GoesOn,
    /// Nothing.
    Over,
    /// A producer that was silent is being asked;
    /// [`Output::Sequel`](crate::control::Output::Sequel) reports the outcome.
    Unsure,
}

/// Producers that were silent and are now asked to serve.
#[derive(Debug)]
pub(super) struct Probe {
    /// The stream that ended, and how.
    pub(super) ended: StreamId,
    pub(super) cause: EndCause,
    pub(super) asked: Vec<(NodeId, StreamId)>,
    /// When to ask again.
    pub(super) ask_at: Instant,
    /// When to stop waiting.
    pub(super) until: Instant,
}

impl Probe {
    /// Returns when to act.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.ask_at.min(self.until)
    }
}
