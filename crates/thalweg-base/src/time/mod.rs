//! Time as a value: nanoseconds since the node started.
//!
//! *The idea.* An [`Instant`] is a number from the driver, so it can be printed, replayed and
//! compared across runs, and no code can read the current time by itself. [`Instant::NEVER`] stands
//! for "no deadline" and sorts last.
//!
//! *What it does not do.* It reads no clock, and it does not relate the clocks of two nodes: a
//! deadline crosses a hop as a remaining budget (docs/reference/protocol.md §3).
//!
//! *Sources.* s2n-quic-core `time/timestamp.rs`; `TigerBeetle` `time_units.zig`.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

mod due;
mod rough;
#[cfg(test)]
mod tests;

pub use due::Due;
pub use rough::Rough;

/// A point in time, in nanoseconds since the node started.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Instant(u64);

/// A length of time in nanoseconds; [`Duration::NEVER`] is longer than any other.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Duration(u64);

impl Instant {
    /// The start of the node.
    pub const ZERO: Self = Self(0);
    /// After every other instant; stands for "no deadline".
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the instant this many nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns whether this is [`Instant::NEVER`].
    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }

    /// Returns the time from `earlier` to `self`, zero if `earlier` is not earlier.
    ///
    /// The time to [`Instant::NEVER`] is [`Duration::NEVER`].
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        if self.is_never() {
            Duration::NEVER
        } else {
            Duration(self.0.saturating_sub(earlier.0))
        }
    }
}

impl Duration {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// Longer than any other duration; the budget of an ADU without a deadline.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns a duration of this many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns a duration of this many microseconds, saturating.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Returns a duration of this many milliseconds, saturating.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns a duration of this many seconds, saturating.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Returns the nearest duration to a number of seconds; negative and NaN become zero, infinity `NEVER`.
    pub fn from_secs_f64(secs: f64) -> Self {
        // `as` saturates at both ends and maps NaN to zero.
        Self((secs * 1e9) as u64)
    }

    /// Returns the whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns the whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Returns the seconds as a float.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the milliseconds as a float.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns whether this is [`Duration::NEVER`].
    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }

    /// Returns the difference, at least zero; `NEVER` less anything finite stays `NEVER`.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        if self.is_never() && !other.is_never() {
            self
        } else {
            Self(self.0.saturating_sub(other.0))
        }
    }
}

impl From<Duration> for core::time::Duration {
    fn from(duration: Duration) -> Self {
        Self::from_nanos(duration.0)
    }
}

impl From<core::time::Duration> for Duration {
    /// Saturates at [`Duration::NEVER`].
    fn from(duration: core::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates: a distant deadline becomes [`Instant::NEVER`].
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration.0))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// Saturates at [`Instant::ZERO`]; `NEVER` stays `NEVER`.
    fn sub(self, duration: Duration) -> Self {
        if self.is_never() {
            self
        } else {
            Self(self.0.saturating_sub(duration.0))
        }
    }
}

impl Add for Duration {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for Instant {
    /// Prints seconds with nine digits, `1.204000000s`, or `never`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_never() {
            return f.write_str("never");
        }
        write!(
            f,
            "{}.{:09}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

impl fmt::Display for Duration {
    /// Prints in the unit with one to three digits before the point: `300 ms`, `1.5 s`, `42 µs`, or `never`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, per_unit) = match self.0 {
            u64::MAX => return f.write_str("never"),
            0 => return f.write_str("0 s"),
            1..1_000 => ("ns", 1),
            1_000..1_000_000 => ("µs", 1_000),
            1_000_000..1_000_000_000 => ("ms", 1_000_000),
            _ => ("s", 1_000_000_000),
        };
        write!(f, "{} {unit}", self.0 as f64 / f64::from(per_unit))
    }
}
