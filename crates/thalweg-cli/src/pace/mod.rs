//! Computes when an access unit is due, so that a file is sent as if it were live.
//!
//! *The idea.* The first unit anchors media time to the clock; each later unit is due at its media
//! distance from the anchor, divided by the speed. After a jump of the media clock (an edit, a
//! concatenated stream) the anchor is set again, because waiting out the jump would freeze the
//! picture. An input may have several clocks, one per programme: each has its own anchor, and a
//! step from one clock to another is not a jump.
//!
//! ```text
//!   due = anchor + (decode − decode₀) / speed
//! ```
//!
//! *What it does not do.* It does not wait: it is given the time and returns the remaining wait.

use std::collections::BTreeMap;
use std::str::FromStr;

use thalweg_base::adu::MediaTime;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;

#[cfg(test)]
mod tests;

/// A step of the media clock beyond this is a jump rather than a pause. MPEG-TS allows 0.7 s
/// between timestamps (ISO/IEC 13818-1 §2.7.4), and a still picture may take a few times that.
pub const JUMP: Duration = Duration::from_secs(10);

/// How fast media time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// A multiple of real time.
    Times(f64),
    /// As fast as the node accepts it.
    Max,
}

/// The text is not a speed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a speed: write `max`, or a multiple of real time, such as 1 or 0.5")]
pub struct BadSpeed(String);

/// Computes when units are due.
#[derive(Clone, Debug)]
pub struct Pacer {
    speed: Speed,
    /// By media clock.
    anchors: BTreeMap<u16, Anchor>,
}

/// How a media clock maps to real time.
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

impl Speed {
    /// Returns the rate of a source of this rate that is played at this speed; at `max` its own, for
    /// nothing says how fast the node accepts it.
    pub fn rate(self, real_time: Bitrate) -> Bitrate {
        match self {
            Self::Times(times) => {
                let bps = real_time.as_bps() as f64 * times;
                // At least 1 bit/s: a stream without a rate has no plan.
                Bitrate::from_bps((bps as u64).max(1))
            }
            Self::Max => real_time,
        }
    }
}

impl Pacer {
    /// Makes a pacer without anchors.
    pub fn new(speed: Speed) -> Self {
        Self {
            speed,
            anchors: BTreeMap::new(),
        }
    }

    /// Returns how long a unit with this decoding time, on this media clock, still has to wait.
    ///
    /// A unit at time zero sets no anchor: tables that precede the first timestamp have time zero,
    /// and most streams begin a second later.
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
