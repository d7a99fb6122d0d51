//! Durations rounded for people.

use core::fmt;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Seconds, printed in the two largest units: `12 s`, `3 min 20 s`, `5 h 3 min`, `2 d 4 h`; the
/// rest is truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rough(pub u64);

impl fmt::Display for Rough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0;
        let (unit, name, below, name_below) = match seconds {
            0..MINUTE => return write!(f, "{seconds} s"),
            MINUTE..HOUR => (MINUTE, "min", 1, "s"),
            HOUR..DAY => (HOUR, "h", MINUTE, "min"),
            _ => (DAY, "d", HOUR, "h"),
        };
        write!(f, "{} {name}", seconds / unit)?;
        match seconds % unit / below {
            0 => Ok(()),
            left => write!(f, " {left} {name_below}"),
        }
    }
}
