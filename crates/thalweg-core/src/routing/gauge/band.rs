//! A value that is told, and the band within which it is not told anew.
//!
//! *The idea.* A change is told when the value has been outside for as long as that side of the band asks. Of a value that has
//! gone out below, the last is told, and above, the least of the second half of that time: a rise that was not steady is told
//! for what of it was, and one that took its time for where it led.
//!
//! A value that is smoothed is slow to arrive: told half way, it may end within the band around that. So where it matters where it
//! ends, that is told once more ([`Settling`]).
//!
//! *What it does not do.* It does not know what the value is, or whether more is better.

use crate::time::{Duration, Instant};

/// What was told of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    told: f64,
    /// Since when it is below.
    below: Option<Instant>,
    above: Option<Above>,
}

/// A value that is above.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Above {
    since: Instant,
    /// The least of this half of the time.
    least: f64,
    is_second_half: bool,
}

/// Where a value ends that was told while it changed: there it stays, for as long as is asked, within a twentieth of the band.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settling {
    held: Option<Held>,
}

/// The least and the most of a value since then.
#[derive(Clone, Copy, Debug)]
struct Held {
    since: Instant,
    range: [f64; 2],
}

impl Settling {
    /// Begins with a value that was told just now.
    pub(super) const fn begin(value: f64, now: Instant) -> Self {
        let range = [value; 2];
        let since = now;
        Self {
            held: Some(Held { since, range }),
        }
    }

    /// Takes in the present value, the bounds of the band and how long it must stay; returns what is to be told, once.
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
        // The band is as wide above what was told as below.
        let told = f64::midpoint(low, high);
        (value < told - near || value > told + near).then_some(value)
    }
}

impl Band {
    /// Returns a value as it is told first.
    pub const fn new(told: f64) -> Self {
        Self {
            told,
            below: None,
            above: None,
        }
    }

    /// Returns what was last told.
    pub const fn told(&self) -> f64 {
        self.told
    }

    /// Takes in the present value, the bounds of the band, and how long it must be below and above; returns whether there
    /// is something else to tell.
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
