//! Why an ADU was dropped: one list of causes for every crate that can drop one.
//!
//! *The idea.* No drop is silent. Each place that drops ADUs (a module, an outbox, a mailbox, a
//! transport) names one of these causes and counts it in a [`DropCounts`], so that the sums along a
//! path add up.
//!
//! *What it does not do.* It does not log which ADU was dropped.

use core::fmt;

use serde::{Deserialize, Serialize};

/// Why an ADU was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropCause {
    /// Its deadline had passed or, at its sink, its place in the sequence had been given up.
    Expired,
    /// The plan asks for fewer layers.
    Filtered,
    /// It depends on a dropped ADU.
    Dependant,
    /// Its producer or its subscriber no longer wants it.
    Cancelled,
    /// A bounded queue, pool or table was full.
    Overflow,
    /// Its path is gone and there is no other.
    PathLost,
    /// Its seal fails verification against its header, payload and every held key.
    Unauthentic,
    /// Its bytes cannot be decoded.
    Malformed,
    /// An ADU with the same seal was opened before, or the seal is too old to tell.
    Replay,
    /// Its key epoch is not held here.
    NoKey,
    /// The sealer has used up its counter in the current key epoch.
    Exhausted,
    /// It was received before, on this path or another.
    Duplicate,
    /// It was plaintext where the plan requires sealed payloads.
    Exposed,
    /// Its stream has no subscriber.
    NoSubscriber,
    /// A bounded queue was full, and it was the least important there.
    #[serde(rename = "pre-empted")]
    Preempted,
    /// It has more bytes than the path can carry until its deadline.
    Oversized,
}

/// Number of dropped ADUs, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts([u64; DropCause::ALL.len()]);

impl DropCause {
    /// Every cause, in the order of [`DropCause::index`].
    pub const ALL: [Self; 16] = [
        Self::Expired,
        Self::Filtered,
        Self::Dependant,
        Self::Cancelled,
        Self::Overflow,
        Self::PathLost,
        Self::Unauthentic,
        Self::Malformed,
        Self::Replay,
        Self::NoKey,
        Self::Exhausted,
        Self::Duplicate,
        Self::Exposed,
        Self::NoSubscriber,
        Self::Preempted,
        Self::Oversized,
    ];

    /// Returns the index in [`DropCause::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name used in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Filtered => "filtered",
            Self::Dependant => "dependant",
            Self::Cancelled => "cancelled",
            Self::Overflow => "overflow",
            Self::PathLost => "path-lost",
            Self::Unauthentic => "unauthentic",
            Self::Malformed => "malformed",
            Self::Replay => "replay",
            Self::NoKey => "no-key",
            Self::Exhausted => "exhausted",
            Self::Duplicate => "duplicate",
            Self::Exposed => "exposed",
            Self::NoSubscriber => "no-subscriber",
            Self::Preempted => "pre-empted",
            Self::Oversized => "oversized",
        }
    }
}

impl fmt::Display for DropCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl DropCounts {
    /// No drops.
    pub const ZERO: Self = Self([0; DropCause::ALL.len()]);

    /// Counts one drop.
    pub const fn add(&mut self, cause: DropCause) {
        self.0[cause.index()] += 1;
    }

    /// Returns the number of drops for this cause.
    pub const fn of(&self, cause: DropCause) -> u64 {
        self.0[cause.index()]
    }

    /// Returns the number of drops for all causes.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the causes that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropCause, u64)> + '_ {
        DropCause::ALL
            .into_iter()
            .map(|cause| (cause, self.of(cause)))
            .filter(|(_, count)| *count > 0)
    }

    /// Subtracts an earlier reading; no count may have shrunk since.
    pub fn subtract(&mut self, before: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(before.0) {
            *mine -= theirs;
        }
    }

    /// Adds the counts of another place.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

const _: () = {
    let mut position = 0;
    while position < DropCause::ALL.len() {
        assert!(
            DropCause::ALL[position].index() == position,
            "causes are ordered by index"
        );
        position += 1;
    }
};
