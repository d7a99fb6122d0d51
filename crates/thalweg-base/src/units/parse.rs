//! Text to units: `"2 Mbit/s"`, `"64 KiB"`, `"300 ms"`.
//!
//! *The idea.* A number, an optional space, and a mandatory unit: a bare number is rejected,
//! because that is how kilobits become kilobytes. The error shows the text and what would be
//! accepted.
//!
//! *Sources.* docs/reference/worlds.md; SI prefixes for rates, IEC prefixes for sizes.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Bitrate, DataSize};
use crate::time::Duration;

/// The text is not a number with a known unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}: write a number and a unit, such as `{example}` (units: {units})")]
pub struct ParseUnitError {
    text: String,
    what: &'static str,
    example: &'static str,
    units: &'static str,
}

/// A unit's name and its number of base units.
type Scale = (&'static str, f64);

const RATES: &[Scale] = &[
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
];
const SIZES: &[Scale] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];
const TIMES: &[Scale] = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 60e9),
    ("h", 3600e9),
];

/// Returns the value in base units, rounded to the nearest, or `None`.
fn scaled(text: &str, scales: &[Scale]) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))?;
    let (number, unit) = text.split_at(split);
    let (_, scale) = scales.iter().find(|(name, _)| *name == unit.trim_start())?;
    let number: f64 = number.replace('_', "").parse().ok()?;
    let value = number * scale + 0.5;
    (value.is_finite() && value < u64::MAX as f64).then_some(value as u64)
}

/// Reads a duration such as `300 ms`, `1.5 s`, `2 min`.
pub fn parse_duration(text: &str) -> Result<Duration, ParseUnitError> {
    scaled(text, TIMES)
        .map(Duration::from_nanos)
        .ok_or_else(|| ParseUnitError {
            text: text.to_string(),
            what: "a length of time",
            example: "300 ms",
            units: "ns, us, ms, s, min, h",
        })
}

impl FromStr for Bitrate {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        scaled(text, RATES)
            .map(Self::from_bps)
            .ok_or_else(|| ParseUnitError {
                text: text.to_string(),
                what: "a rate",
                example: "2 Mbit/s",
                units: "bit/s, kbit/s, Mbit/s, Gbit/s",
            })
    }
}

impl FromStr for DataSize {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        scaled(text, SIZES)
            .map(Self::from_bytes)
            .ok_or_else(|| ParseUnitError {
                text: text.to_string(),
                what: "an amount of data",
                example: "64 KiB",
                units: "B, kB, MB, GB, KiB, MiB, GiB",
            })
    }
}

/// Reads a unit from text; anything else, such as a bare number, is rejected with an example.
pub fn read_unit<'de, D: Deserializer<'de>, T>(
    from: D,
    expecting: &'static str,
    parse: fn(&str) -> Result<T, ParseUnitError>,
) -> Result<T, D::Error> {
    struct Text<T>(&'static str, fn(&str) -> Result<T, ParseUnitError>);

    impl<T> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
            self.1(text).map_err(E::custom)
        }
    }

    from.deserialize_str(Text(expecting, parse))
}

/// Prints a value in the largest unit that keeps it whole, so that it reads back the same.
struct Exact(u64, &'static [Scale]);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(_, scale): &&Scale| self.0 != 0 && self.0.is_multiple_of(*scale as u64);
        let best = self
            .1
            .iter()
            .filter(whole)
            .max_by_key(|(_, scale)| *scale as u64);
        let (name, scale) = best.unwrap_or(&self.1[0]);
        write!(f, "{} {name}", self.0 / *scale as u64)
    }
}

macro_rules! as_text {
    ($unit:ident, $scales:ident, $expecting:literal) => {
        impl Serialize for $unit {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&Exact(self.0, $scales))
            }
        }
        impl<'de> Deserialize<'de> for $unit {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                read_unit(deserializer, $expecting, str::parse)
            }
        }
    };
}

as_text!(Bitrate, RATES, "a rate in quotes, such as \"2 Mbit/s\"");
as_text!(
    DataSize,
    SIZES,
    "an amount of data in quotes, such as \"64 KiB\""
);
