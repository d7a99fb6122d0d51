//! Why an ADU went no further: one list of causes for every crate that can drop one.
//!
//! *The idea.* Nothing is dropped silently. Whoever drops an ADU (a module, an outbox, a mailbox, a transport) names
//! one of these causes and counts it in a [`DropCounts`], so that the sums of a path can be compared and add up.
//!
//! *What it does not do.* It keeps no log of which ADU was dropped: that is the work of whoever counts.

use core::fmt;

use serde::{Deserialize, Serialize};

/// Why an ADU went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropCause {
    /// Its deadline had passed, or at its sink its place in the sequence.
    Expired,
    /// The plan asks for fewer layers than this one.
    Filtered,
    /// It depends on an ADU that was itself dropped.
    Dependant,
    /// Its producer or its subscriber no longer wants it.
    Cancelled,
    /// A bounded queue, pool or table was full.
    Overflow,
    /// The path it was on is gone and there is no other.
    PathLost,
    /// Its seal does not fit its header, its payload or any key that is held.
    Unauthentic,
    /// Its bytes do not mean anything.
    Malformed,
    /// An ADU with the same seal has been opened before, or so long ago that it cannot be told.
    Replay,
    /// It was sealed, or is to be sealed, under a key epoch that is not held here.
    NoKey,
    /// The sealer has used up its counter under the present key epoch.
    Exhausted,
    /// It was received before, on this path or another.
    Duplicate,
    /// It was readable where the plan lets only sealed payloads pass.
    Exposed,
    /// Nobody subscribes to its stream.
    NoSubscriber,
    /// A bounded queue was full, and it mattered least there.
    #[serde(rename = "pre-empted")]
    Preempted,
    /// It has more bytes than the path carries until its deadline.
    Oversized,
}

/// How many ADUs were dropped, by cause.
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

    /// Returns the position in [`DropCause::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name as metrics and JSON write it.
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

    /// Returns how many were dropped for this cause.
    pub const fn of(&self, cause: DropCause) -> u64 {
        self.0[cause.index()]
    }

    /// Returns how many were dropped for any cause.
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

    /// Takes away what was counted before; neither count may have shrunk since.
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
            "every cause stands at its index"
        );
        position += 1;
    }
};
