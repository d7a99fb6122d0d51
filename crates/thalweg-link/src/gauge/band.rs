//! An announced value, and the band around it within which no change is announced.
//!
//! *The idea.* A change is announced when the value has been outside the band for as long as that
//! side requires. After a fall the last value is announced; after a rise the minimum over the
//! second half of the hold time, so an unsteady rise counts for its steady part, and a slow one for
//! where it led.
//!
//! A smoothed value arrives slowly: announced half-way, its final value may lie within the new
//! band. Where that matters, the final value is announced once more ([`Settling`]).
//!
//! *What it does not do.* It does not know what the value means, or whether more is better.

use thalweg_base::time::{Duration, Instant};

/// An announced value and the state of its band.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    announced: f64,
    /// Since when the value is below the band.
    below: Option<Instant>,
    above: Option<Above>,
}

/// A value above the band.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Above {
    since: Instant,
    /// The minimum over this half of the hold time.
    least: f64,
    is_second_half: bool,
}

/// Finds the final value of a change that was announced while it went on: within a twentieth of the
/// band for the hold time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settling {
    held: Option<Held>,
}

/// The minimum and maximum of the value since `since`.
#[derive(Clone, Copy, Debug)]
struct Held {
    since: Instant,
    range: [f64; 2],
}

impl Settling {
    /// Starts with a value that was announced just now.
    pub(super) const fn begin(value: f64, now: Instant) -> Self {
        let range = [value; 2];
        let since = now;
        Self {
            held: Some(Held { since, range }),
        }
    }

    /// Takes in the current value, the band's bounds and the hold time; returns the value to
    /// announce, once.
    pub(super) fn handle_value(
        &mut self,
        value: f64,
        [low, high]: [f64; 2],
        hold: Duration,
        now: Instant,
    ) -> Option<f64> {
        let held = self.held.as_mut()?;
        let [least, most] = held.range;
        held.range = [least.min(value), most.max(value)];
        let near = (high - low) / 10.0;
        if held.range[1] - held.range[0] > near / 2.0 {
            *self = Self::begin(value, now);
            return None;
        }
        if now.saturating_since(held.since) < hold {
            return None;
        }
        self.held = None;
        // The band extends equally above and below the announced value.
        let announced = f64::midpoint(low, high);
        (value < announced - near || value > announced + near).then_some(value)
    }
}

impl Band {
    /// Returns the band of a value that is announced now.
    pub const fn new(announced: f64) -> Self {
        Self {
            announced,
            below: None,
            above: None,
        }
    }

    /// Returns the last announced value.
    pub const fn told(&self) -> f64 {
        self.announced
    }

    /// Takes in the current value, the band's bounds, and the hold times below and above; returns
    /// whether there is a new value to announce.
    pub fn handle_value(
        &mut self,
        value: f64,
        [low, high]: [f64; 2],
        [below, above]: [Duration; 2],
        now: Instant,
    ) -> bool {
        let has_lasted = |since: Instant, hold| now.saturating_since(since) >= hold;
        if value < low {
            let since = *self.below.get_or_insert(now);
            self.above = None;
            if has_lasted(since, below) {
                *self = Self::new(value);
                return true;
            }
        } else if value > high {
            self.below = None;
            let first = Above {
                since: now,
                least: value,
                is_second_half: false,
            };
            let mut rise = self.above.unwrap_or(first);
            let half = Duration::from_nanos(above.as_nanos() / 2);
            if !rise.is_second_half && has_lasted(rise.since, half) {
                (rise.least, rise.is_second_half) = (value, true);
            }
            rise.least = rise.least.min(value);
            self.above = Some(rise);
            if has_lasted(rise.since, above) {
                *self = Self::new(rise.least);
                return true;
            }
        } else {
            (self.below, self.above) = (None, None);
        }
        false
    }
}
