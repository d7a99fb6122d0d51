//! The delivery rate of the path, and the rate reported to an encoder.
//!
//! *The idea.* The estimate is the greatest delivery rate of the last round trips in which the
//! sender was not app-limited. An app-limited round may raise the estimate but ages nothing: it
//! measures the application. An encoder is notified when the rate has moved by an eighth: at once
//! if it fell, after a round trip if it rose.
//!
//! *What it does not do.* It changes no window.
//!
//! *Sources.* draft-ietf-ccwg-bbr §4.1.2.3 and §5.5.5 (the filter).

use thalweg_base::units::Bitrate;

/// Rounds for which a measured rate counts.
pub(super) const ROUNDS: usize = 10;

/// The greatest delivery rate of each of the last rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    /// The present round first.
    greatest: [Bitrate; ROUNDS],
    is_whole: bool,
    latest: Bitrate,
}

/// The rate last reported.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reported {
    rate: Bitrate,
    rounds_above: u32,
}

impl Rates {
    /// Handles a rate sample; `app_limited` if it is app-limited.
    pub(super) fn handle_sample(&mut self, rate: Bitrate, app_limited: bool) {
        self.latest = rate;
        // It shows only what the application sent, unless that is more than was known.
        if app_limited && rate <= self.over(ROUNDS) {
            return;
        }
        self.greatest[0] = self.greatest[0].max(rate);
        self.is_whole |= !app_limited;
    }

    /// Handles the end of a round trip.
    pub(super) fn handle_round(&mut self) {
        // A round of app-limited samples alone ages nothing.
        if self.is_whole {
            self.greatest.rotate_right(1);
            self.greatest[0] = Bitrate::ZERO;
            self.is_whole = false;
        }
    }

    /// Returns the rate of the last sample, over about one round trip: what the path carries now.
    pub(super) fn latest(&self) -> Bitrate {
        self.latest
    }

    /// Returns the greatest rate of the last rounds, including the present one.
    pub(super) fn over(&self, rounds: usize) -> Bitrate {
        let recent = self.greatest.iter().take(rounds);
        recent.copied().max().unwrap_or(Bitrate::ZERO)
    }
}

impl Reported {
    /// Handles the present estimate; returns it if it has moved enough to report.
    pub(super) fn handle_rate(&mut self, rate: Bitrate, ends_round: bool) -> Option<Bitrate> {
        let reported = self.rate.as_bps();
        let margin = reported / 8;
        let is_above = rate.as_bps() > reported.saturating_add(margin);
        let is_below = rate.as_bps() < reported - margin;
        if !is_above {
            self.rounds_above = 0;
        } else if ends_round {
            self.rounds_above += 1;
        }
        let is_first = reported == 0 && rate > Bitrate::ZERO;
        // Two ends of rounds make one whole round above the margin.
        if is_below || is_first || self.rounds_above >= 2 {
            *self = Self {
                rate,
                rounds_above: 0,
            };
            return Some(rate);
        }
        None
    }
}
