//! The packet losses of a line: independent, or in bursts.
//!
//! *The idea.* The two-state chain of Gilbert and Elliott. The good state loses nothing, the bad
//! one the share `h`; before each packet the chain may change state. From the mean loss `p` and the
//! mean length `b` of a burst:
//!
//! ```text
//! π = p / h            share of packets in the bad state
//! leave = 1 / b        bad → good
//! enter = π · leave / (1 − π)      good → bad, so that the bad state has its share
//! ```
//!
//! A burst so short that `enter` would exceed one cannot have that share; then `leave` is lowered
//! until `enter` is one, and the mean loss holds. With `b` = 1 there is no chain: packets are
//! independent.
//!
//! *Sources.* Gilbert 1960, Elliott 1963; RFC 8867 §4.5.4 and `tc-netem(8)` for its use.

use thalweg_base::random::SplitMix;

use super::Impairment;

/// The chain and its state.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    chance: Chance,
    bad: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Chance {
    /// No losses, and no random numbers drawn.
    None,
    /// Independent losses.
    Each(f64),
    Bursts {
        enter: f64,
        leave: f64,
        inside: f64,
    },
}

impl Loss {
    pub(super) fn new(impairment: &Impairment) -> Self {
        Self {
            chance: chance(impairment),
            bad: false,
        }
    }

    /// Changes the parameters; a burst in progress goes on under the new ones.
    pub(super) fn handle_change(&mut self, impairment: &Impairment) {
        self.chance = chance(impairment);
    }

    /// Returns whether the next packet is lost.
    pub(super) fn loses_next(&mut self, random: &mut SplitMix) -> bool {
        match self.chance {
            Chance::None => false,
            Chance::Each(share) => random.next_unit() < share,
            Chance::Bursts {
                enter,
                leave,
                inside,
            } => {
                let change = if self.bad { leave } else { enter };
                self.bad ^= random.next_unit() < change;
                self.bad && random.next_unit() < inside
            }
        }
    }
}

fn chance(impairment: &Impairment) -> Chance {
    let (mean, inside) = (impairment.loss.as_f64(), impairment.burst_loss.as_f64());
    if mean <= 0.0 {
        return Chance::None;
    }
    // `max` turns a NaN into 1, which is no burst.
    let burst = impairment.burst.max(1.0);
    if burst <= 1.0 || mean >= inside {
        return Chance::Each(mean.min(inside));
    }
    let bad = mean / inside;
    let leave = (1.0 / burst).min((1.0 - bad) / bad);
    Chance::Bursts {
        enter: (bad * leave / (1.0 - bad)).min(1.0),
        leave,
        inside,
    }
}
