//! Reproducible randomness from a seed, for jitter, losses and a simulation's choices.
//!
//! *The idea.* `SplitMix64`: one addition and three multiplications per number, equal on every
//! machine, so that a run with a seed can be repeated. Every part of a run has its own generator,
//! seeded from its parent's, so that an additional draw in one part changes nothing in another.
//!
//! *What it does not do.* It is not cryptographically secure.
//!
//! *Sources.* Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014.

use crate::time::Duration;
use crate::units::Ratio;

#[cfg(test)]
mod tests;

/// A sequence of numbers determined by its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Starts the sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number, uniform over all 2⁶⁴.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in 0..1 with 53 random bits, the precision of a float.
    pub fn next_unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number below `bound`, or zero if `bound` is zero.
    ///
    /// Error   relative `bound` / 2⁶⁴ between the shares of two numbers
    pub fn next_below(&mut self, bound: u64) -> u64 {
        let scaled = u128::from(self.next_u64()) * u128::from(bound);
        (scaled >> 64) as u64
    }

    /// Returns a duration in `0..=longest`, uniform in nanoseconds.
    pub fn next_duration(&mut self, longest: Duration) -> Duration {
        Duration::from_nanos(self.next_below(longest.as_nanos().saturating_add(1)))
    }

    /// Returns `true` with this probability.
    pub fn next_bool(&mut self, share: Ratio) -> bool {
        self.next_unit() < share.as_f64()
    }
}
