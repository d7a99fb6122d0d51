//! The sender's state of one receiver.

use alloc::string::String;

use thalweg_base::time::Instant;

use super::SILENCE;
use crate::message::State;

/// How a transfer ended for a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has everything, in its place and on the disk.
    Whole,
    /// It accepts nothing more, for this reason.
    Refused(String),
}

/// A receiver's phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// It was not heard yet.
    #[default]
    Unknown,
    /// It wants the manifest.
    Manifest,
    /// It wants blocks.
    Blocks,
}

/// One receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct Target {
    pub(super) phase: Phase,
    /// One more than the largest sequence of the current stream that it has received.
    pub(super) next: u64,
    pub(super) bytes: u64,
    pub(super) heard: Option<Instant>,
    pub(super) outcome: Option<Outcome>,
    /// It was not heard for [`SILENCE`].
    is_silent: bool,
}

impl Outcome {
    /// Returns the outcome in a receiver's final state.
    pub(super) fn of(state: &State) -> Option<Self> {
        match state {
            State::Whole => Some(Self::Whole),
            State::Refused(reason) => Some(Self::Refused(reason.clone())),
            State::Manifest { .. } | State::Blocks { .. } => None,
        }
    }
}

impl Target {
    /// Takes in that the stream restarts.
    pub(super) fn restart(&mut self) {
        self.next = 0;
        self.phase = Phase::Unknown;
    }

    pub(super) fn update_silence(&mut self, now: Instant) {
        let is_heard = |heard: Instant| now.saturating_since(heard) < SILENCE;
        self.is_silent = !self.heard.is_some_and(is_heard);
    }

    /// Returns whether parcels in flight are kept for it.
    pub(super) fn holds_parcels(&self) -> bool {
        self.outcome.is_none() && !self.is_silent && self.next > 0
    }
}
