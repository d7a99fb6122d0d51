//! Rights of a node, and times of day.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::time::Duration;
use crate::varint::VARINT_MAX;

/// A set of rights.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights(u8);

/// The text is not a right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a right: use publish, subscribe, relay, see-plaintext, invite, or several separated by commas"
)]
pub struct BadRight(String);

impl Rights {
    /// No right: the node may connect, and nothing more.
    pub const NONE: Self = Self(0);
    /// Announce streams.
    pub const PUBLISH: Self = Self(1);
    /// Receive streams.
    pub const SUBSCRIBE: Self = Self(2);
    /// Relay streams of other nodes.
    pub const RELAY: Self = Self(4);
    /// See the payload of confidential streams.
    pub const SEE_PLAINTEXT: Self = Self(8);
    /// Grant its own rights to others, except this one.
    pub const INVITE: Self = Self(16);
    /// The default rights of an invited node.
    pub const MEMBER: Self = Self(1 | 2 | 4);
    /// Every right.
    pub const ALL: Self = Self(31);

    const NAMES: [(Self, &'static str); 5] = [
        (Self::PUBLISH, "publish"),
        (Self::SUBSCRIBE, "subscribe"),
        (Self::RELAY, "relay"),
        (Self::SEE_PLAINTEXT, "see-plaintext"),
        (Self::INVITE, "invite"),
    ];

    /// Returns the set with these bits, if each bit is a right.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::ALL.0 == 0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// Returns the set as bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns whether the set contains all of `other`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the rights in the set and not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the union of the two sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the names of the rights.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let held = move |(right, _): &&(Self, _)| self.contains(*right);
        Self::NAMES.iter().filter(held).map(|(_, name)| *name)
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names().collect();
        if names.is_empty() {
            f.write_str("nothing")
        } else {
            f.write_str(&names.join(","))
        }
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rights({self})")
    }
}

impl FromStr for Rights {
    type Err = BadRight;

    fn from_str(text: &str) -> Result<Self, BadRight> {
        let one = |word: &str| {
            let known = Self::NAMES.iter().find(|(_, name)| *name == word);
            let bad = || BadRight(word.chars().take(80).collect());
            known.map(|(right, _)| *right).ok_or_else(bad)
        };
        text.split(',').try_fold(
            Self::NONE,
            |rights, word| Ok(rights.with(one(word.trim())?)),
        )
    }
}

/// A time of day: whole seconds since the start of 1970, by the clock of the node that states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(u64);

impl UnixTime {
    /// The start of 1970.
    pub const ZERO: Self = Self(0);
    /// Later than all others.
    pub const NEVER: Self = Self(VARINT_MAX);

    /// Returns the time this many seconds after the start of 1970.
    pub const fn from_seconds(seconds: u64) -> Self {
        if seconds < VARINT_MAX {
            Self(seconds)
        } else {
            Self::NEVER
        }
    }

    /// Returns the time this long after the start of 1970, rounded down.
    pub const fn since_1970(elapsed: Duration) -> Self {
        Self::from_seconds(elapsed.as_nanos() / 1_000_000_000)
    }

    /// Returns the seconds since the start of 1970.
    pub const fn seconds(self) -> u64 {
        self.0
    }

    /// Returns the time this much later, rounded up; `NEVER` stays.
    #[must_use]
    pub const fn after(self, time: Duration) -> Self {
        if time.is_never() {
            return Self::NEVER;
        }
        Self::from_seconds(
            self.0
                .saturating_add(time.as_nanos().div_ceil(1_000_000_000)),
        )
    }

    /// Returns the time this much earlier, at least the start of 1970.
    #[must_use]
    pub const fn before(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time.as_nanos() / 1_000_000_000))
    }
}
