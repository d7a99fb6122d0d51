//! The rate that an encoder may follow: the estimate of the sendable rate, reported only when it
//! has moved.
//!
//! *The idea.* The estimate moves with every acknowledgement, and an encoder that followed each
//! change would never settle. So changes by an eighth are reported: a fall at once, for what is
//! sent too fast queues; a rise once it has lasted, and then the minimum of that time.
//!
//! ```text
//! reported ·  9/8  ───────  above it for RISE_TIME: report the minimum meanwhile
//! reported         ═══════  no report in between
//! reported ·  7/8  ───────  below it: report the estimate
//! ```
//!
//! *What it does not do.* It estimates nothing, and knows no other stream on the path.

#[cfg(test)]
mod tests;

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;

/// How long a rise must last: a burst of acknowledgements after a stall is over by then, on a path
/// of 100 ms.
pub const RISE_TIME: Duration = Duration::from_millis(500);

/// A change by one part in this many is reported.
const PART: u64 = 8;

/// The rate last reported, with hysteresis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steady {
    reported: Option<Bitrate>,
    /// Since when the estimate exceeds the margin, and its minimum since.
    rise: Option<(Instant, Bitrate)>,
}

impl Steady {
    /// Handles the present estimate, or that there is none; returns whether the reported rate changed.
    pub fn handle_rate(&mut self, now: Instant, rate: Option<Bitrate>) -> bool {
        let next = match (self.reported, rate) {
            (Some(reported), Some(rate)) => Some(self.follow(now, reported, rate)),
            (_, rate) => rate,
        };
        let is_news = next != self.reported;
        if is_news {
            *self = Self {
                reported: next,
                rise: None,
            };
        }
        is_news
    }

    /// Returns the rate last reported.
    pub const fn told(&self) -> Option<Bitrate> {
        self.reported
    }

    fn follow(&mut self, now: Instant, reported: Bitrate, rate: Bitrate) -> Bitrate {
        let margin = reported.as_bps() / PART;
        if rate.as_bps() <= reported.as_bps().saturating_add(margin) {
            self.rise = None;
            // A fall is reported at once: what is sent too fast queues.
            let has_fallen = rate.as_bps() < reported.as_bps() - margin;
            return if has_fallen { rate } else { reported };
        }
        // A rise must last, and only its minimum is trusted.
        let (since, least) = self.rise.unwrap_or((now, rate));
        let least = least.min(rate);
        self.rise = Some((since, least));
        let has_lasted = now.saturating_since(since) >= RISE_TIME;
        if has_lasted { least } else { reported }
    }
}
