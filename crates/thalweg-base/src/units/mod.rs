//! Units that multiply: `Bitrate * Duration = DataSize`.
//!
//! *The idea.* A number with a unit is a type, so that a rate is never added to a size and kilobits
//! are never mistaken for kilobytes. Sizes are whole bytes and rates whole bits per second.
//! Arithmetic saturates, because these values come from configurations and peers.
//!
//! *What it does not do.* It measures nothing, and it keeps no fractions of a bit.
//!
//! *Sources.* str0m `crates/proto/src/bandwidth.rs`.

mod parse;
#[cfg(test)]
mod tests;

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub};

use serde::{Deserialize, Serialize};

use crate::time::Duration;

pub use parse::read_unit;
pub use parse::{ParseUnitError, parse_duration};

/// A rate in whole bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bitrate(u64);

/// An amount of data in whole bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataSize(u64);

/// A share between 0 and 1, such as a loss probability.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Ratio(f64);

/// The given number is not between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{0} is not between 0 and 1")]
pub struct RatioOutOfRange(pub f64);

impl Bitrate {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Returns a rate of this many bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// Returns a rate of this many kilobits (1,000 bit) per second, saturating.
    pub const fn from_kbps(kbps: u64) -> Self {
        Self(kbps.saturating_mul(1_000))
    }

    /// Returns bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Returns megabits (1,000,000 bit) per second.
    pub fn as_mbps_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the time that `size` takes at this rate, rounded up; `NEVER` at rate zero.
    pub fn time_for(self, size: DataSize) -> Duration {
        if size.0 == 0 {
            return Duration::ZERO;
        }
        if self.0 == 0 {
            return Duration::NEVER;
        }
        let nanos = (u128::from(size.0) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl DataSize {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Returns an amount of this many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns an amount of this many KiB (1,024 bytes), saturating.
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib.saturating_mul(1024))
    }

    /// Returns the bytes.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }

    /// Returns the difference, at least zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// The number is never NaN, so every ratio equals itself.
impl Eq for Ratio {}

impl Ratio {
    /// None of it.
    pub const ZERO: Self = Self(0.0);
    /// All of it.
    pub const ONE: Self = Self(1.0);

    /// Returns the ratio if the number lies in 0..=1 (so not NaN).
    pub fn new(value: f64) -> Result<Self, RatioOutOfRange> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(RatioOutOfRange(value))
        }
    }

    /// Returns the ratio as a float in 0..=1.
    pub const fn as_f64(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Ratio {
    type Error = RatioOutOfRange;

    fn try_from(value: f64) -> Result<Self, RatioOutOfRange> {
        Self::new(value)
    }
}

impl From<Ratio> for f64 {
    fn from(ratio: Ratio) -> Self {
        ratio.0
    }
}

impl Mul<Duration> for Bitrate {
    type Output = DataSize;

    /// Rounds down to whole bytes.
    fn mul(self, duration: Duration) -> DataSize {
        let bits = u128::from(self.0) * u128::from(duration.as_nanos()) / 1_000_000_000;
        DataSize(u64::try_from(bits / 8).unwrap_or(u64::MAX))
    }
}

impl Div<Duration> for DataSize {
    type Output = Bitrate;

    /// The mean rate over a time, rounded down; zero over no time.
    fn div(self, duration: Duration) -> Bitrate {
        let nanos = u128::from(duration.as_nanos());
        let bits = u128::from(self.0) * 8 * 1_000_000_000;
        Bitrate(
            bits.checked_div(nanos)
                .map_or(0, |bps| u64::try_from(bps).unwrap_or(u64::MAX)),
        )
    }
}

macro_rules! additive {
    ($unit:ident) => {
        impl Add for $unit {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }
        impl AddAssign for $unit {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl Sub for $unit {
            type Output = Self;
            /// Saturates at zero.
            fn sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }
        impl core::iter::Sum for $unit {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                all.fold(Self(0), Add::add)
            }
        }
    };
}

additive!(Bitrate);
additive!(DataSize);

/// Picks the largest of `units` that divides into at least one, and prints with at most three decimals.
fn scaled(f: &mut fmt::Formatter<'_>, value: u64, units: &[(u64, &str)]) -> fmt::Result {
    let (size, name) = units
        .iter()
        .copied()
        .find(|(size, _)| value >= *size)
        .unwrap_or(units[units.len() - 1]);
    let (value, size) = (u128::from(value), u128::from(size));
    // The output must parse again, so the maximum is not rounded up beyond the largest value.
    let most = u128::from(u64::MAX) * 1_000 / size;
    let thousandths = ((value * 1_000 + size / 2) / size).min(most);
    let (whole, part) = (thousandths / 1_000, thousandths % 1_000);
    match part {
        0 => write!(f, "{whole} {name}"),
        _ if part % 100 == 0 => write!(f, "{whole}.{} {name}", part / 100),
        _ if part % 10 == 0 => write!(f, "{whole}.{:02} {name}", part / 10),
        _ => write!(f, "{whole}.{part:03} {name}"),
    }
}

impl fmt::Display for Bitrate {
    /// Prints as the world file writes it: `150 kbit/s`, `2 Mbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(
            f,
            self.0,
            &[
                (1_000_000_000, "Gbit/s"),
                (1_000_000, "Mbit/s"),
                (1_000, "kbit/s"),
                (1, "bit/s"),
            ],
        )
    }
}

impl fmt::Display for DataSize {
    /// Prints as the world file writes it: `64 KiB`, `900 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(
            f,
            self.0,
            &[
                (1 << 30, "GiB"),
                (1 << 20, "MiB"),
                (1 << 10, "KiB"),
                (1, "B"),
            ],
        )
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
