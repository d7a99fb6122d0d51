//! The rate that an encoder may follow: the estimate of what a path can send, told when it has moved.
//!
//! *The idea.* The estimate moves with every acknowledgement, and an encoder that followed each would never come to rest.
//! So it is told of a change by an eighth: of a fall at once, for what is sent too fast waits; of a rise when it has lasted,
//! and then the least of that time.
//!
//! ```text
//! told ·  9/8  ───────  above it for RISE_TIME: told = the least meanwhile
//! told         ═══════  nothing is told in between
//! told ·  7/8  ───────  below it: told = the estimate
//! ```
//!
//! *What it does not do.* It estimates nothing, and knows of no other stream on the path.

#[cfg(test)]
mod tests;

use crate::time::{Duration, Instant};
use crate::units::Bitrate;

/// How long a rise must last: a burst of acknowledgements after a stall is over by then, on a path of 100 ms.
pub const RISE_TIME: Duration = Duration::from_millis(500);

/// A change by one part in so many is told.
const PART: u64 = 8;

/// What was told of a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steady {
    told: Option<Bitrate>,
    /// Since when it is above the margin, and the least since.
    rise: Option<(Instant, Bitrate)>,
}

impl Steady {
    /// Takes in the present estimate, or that there is none; returns whether there is something else to tell.
    pub fn handle_rate(&mut self, now: Instant, rate: Option<Bitrate>) -> bool {
        let next = match (self.told, rate) {
            (Some(told), Some(rate)) => Some(self.follow(now, told, rate)),
            (_, rate) => rate,
        };
        let is_news = next != self.told;
        if is_news {
            *self = Self {
                told: next,
                rise: None,
            };
        }
        is_news
    }

    /// Returns what was last told.
    pub const fn told(&self) -> Option<Bitrate> {
        self.told
    }

    fn follow(&mut self, now: Instant, told: Bitrate, rate: Bitrate) -> Bitrate {
        let margin = told.as_bps() / PART;
        if rate.as_bps() <= told.as_bps().saturating_add(margin) {
            self.rise = None;
            let has_fallen = rate.as_bps() < told.as_bps() - margin;
            return if has_fallen { rate } else { told };
        }
        let (since, least) = self.rise.unwrap_or((now, rate));
        let least = least.min(rate);
        self.rise = Some((since, least));
        let has_lasted = now.saturating_since(since) >= RISE_TIME;
        if has_lasted { least } else { told }
    }
}
