//! When an access unit is due to leave, so that a file is sent as if it were live.
//!
//! *The idea.* The first unit anchors media time to the clock; every later one is due as long after the anchor as it
//! lies behind it in the medium, divided by the speed. Where the clock of a stream jumps (an edit, a stream cut
//! together) gets a new anchor, for waiting out the jump would stop the picture. An input may have several
//! clocks, one a programme: each has its own anchor, and a step from one to another is no jump.
//!
//! ```text
//!   due = anchor + (decode − decode₀) / speed
//! ```
//!
//! *What it does not do.* It does not wait: it is given the time and says how much longer.

use std::collections::BTreeMap;
use std::str::FromStr;

use thalweg_base::adu::MediaTime;
use thalweg_base::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// A step of the medium's clock beyond this is a jump, not a pause: MPEG-TS allows 0.7 s between timestamps
/// (ISO/IEC 13818-1 §2.7.4), and a still picture may take a few times that.
pub const JUMP: Duration = Duration::from_secs(10);

/// How fast media time passes, in clock time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// So many times real time.
    Times(f64),
    /// As fast as the stream is taken.
    Max,
}

/// The text is no speed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a rate: write `max`, or how many times real time, such as 1 or 0.5")]
pub struct BadSpeed(String);

/// Says when units are due.
#[derive(Clone, Debug)]
pub struct Pacer {
    speed: Speed,
    /// By the clock of the medium.
    anchors: BTreeMap<u16, Anchor>,
}

/// Where a clock of the medium stands.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    start: Instant,
    origin: MediaTime,
    last: MediaTime,
}

impl FromStr for Speed {
    type Err = BadSpeed;

    fn from_str(text: &str) -> Result<Self, BadSpeed> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let bad = || BadSpeed(text.chars().take(80).collect());
        let times: f64 = text.parse().map_err(|_| bad())?;
        if times.is_finite() && times > 0.0 {
            Ok(Self::Times(times))
        } else {
            Err(bad())
        }
    }
}

impl Pacer {
    /// Makes a pacer that nothing has passed yet.
    pub fn new(speed: Speed) -> Self {
        Self {
            speed,
            anchors: BTreeMap::new(),
        }
    }

    /// Returns how long a unit of this decoding time, by this clock of the medium, has still to wait.
    ///
    /// A unit at the very start of the medium's clock does not anchor it: that is where tables stand that come before
    /// the first time, and most streams begin a second later.
    pub fn wait(&mut self, now: Instant, clock: u16, decode: MediaTime) -> Duration {
        let Speed::Times(times) = self.speed else {
            return Duration::ZERO;
        };
        let anchor = self.anchors.get_mut(&clock);
        if anchor.is_none() && decode == MediaTime::default() {
            return Duration::ZERO;
        }
        match anchor {
            Some(anchor) if between(anchor.last, decode) <= JUMP && decode >= anchor.origin => {
                anchor.last = decode;
                let span = between(anchor.origin, decode);
                let due = anchor.start + Duration::from_secs_f64(span.as_secs_f64() / times);
                due.saturating_since(now)
            }
            _ => {
                let anchor = Anchor {
                    start: now,
                    origin: decode,
                    last: decode,
                };
                self.anchors.insert(clock, anchor);
                Duration::ZERO
            }
        }
    }
}

fn between(a: MediaTime, b: MediaTime) -> Duration {
    Duration::from_micros(a.as_micros().abs_diff(b.as_micros()))
}
