//! How fast the path delivers, and the rate that an encoder may follow.
//!
//! *The idea.* The greatest delivery rate of the last round trips in which the application sent all it might; one in
//! which it did not may raise the estimate and ages nothing, for it says what was sent and not what could have been. An
//! encoder is told when the rate has moved by an eighth: at once if it fell, after a round trip if it rose.
//!
//! *What it does not do.* It changes no window.
//!
//! *Sources.* draft-ietf-ccwg-bbr §4.1.2.3 and §5.5.5 (the filter).

use crate::units::Bitrate;

/// Rounds in which a measured rate counts.
pub(super) const ROUNDS: usize = 10;

/// The greatest delivery rate of each of the last rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    /// The present round's is the first.
    greatest: [Bitrate; ROUNDS],
    is_whole: bool,
    latest: Bitrate,
}

/// What was last told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    rate: Bitrate,
    rounds_above: u32,
}

impl Rates {
    /// Takes in a sample; `is_short` if the application had nothing more to send.
    pub(super) fn handle_sample(&mut self, rate: Bitrate, is_short: bool) {
        self.latest = rate;
        if is_short && rate <= self.over(ROUNDS) {
            return;
        }
        self.greatest[0] = self.greatest[0].max(rate);
        self.is_whole |= !is_short;
    }

    /// Takes in that a round trip has ended.
    pub(super) fn handle_round(&mut self) {
        if self.is_whole {
            self.greatest.rotate_right(1);
            self.greatest[0] = Bitrate::ZERO;
            self.is_whole = false;
        }
    }

    /// Returns the rate of the last sample, which is that of about a round trip: what the path carries now.
    pub(super) fn latest(&self) -> Bitrate {
        self.latest
    }

    /// Returns the greatest rate of the last rounds, the present one among them.
    pub(super) fn over(&self, rounds: usize) -> Bitrate {
        let recent = self.greatest.iter().take(rounds);
        recent.copied().max().unwrap_or(Bitrate::ZERO)
    }
}

impl Told {
    /// Takes in the present estimate; returns it if it has moved enough to be told.
    pub(super) fn handle_rate(&mut self, rate: Bitrate, ends_round: bool) -> Option<Bitrate> {
        let told = self.rate.as_bps();
        let margin = told / 8;
        let is_above = rate.as_bps() > told.saturating_add(margin);
        let is_below = rate.as_bps() < told - margin;
        if !is_above {
            self.rounds_above = 0;
        } else if ends_round {
            self.rounds_above += 1;
        }
        let is_first = told == 0 && rate > Bitrate::ZERO;
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
