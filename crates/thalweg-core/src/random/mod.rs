//! Reproducible randomness from a seed: jitter, losses, the choices of a simulation.
//!
//! *The idea.* `SplitMix64`: one addition and three multiplications a number, equal on every machine, so that a run
//! with a seed can be repeated. Every part of a run that draws has a generator of its own, seeded by its parent's, so
//! that one more draw in one part changes nothing in another.
//!
//! *What it does not do.* It is no source of secrets.
//!
//! *Sources.* Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014.

use crate::time::Duration;
use crate::units::Ratio;

#[cfg(test)]
mod tests;

/// A sequence of numbers that its seed determines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Begins the sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number, any of the 2⁶⁴.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in 0..1, with the 53 bits that a float holds.
    pub fn next_unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number below `bound`; zero if there is none.
    ///
    /// Error   relative `bound` / 2⁶⁴ between the shares of two numbers
    pub fn next_below(&mut self, bound: u64) -> u64 {
        let scaled = u128::from(self.next_u64()) * u128::from(bound);
        (scaled >> 64) as u64
    }

    /// Returns a time in `0..=longest`, each nanosecond as likely as the others.
    pub fn next_duration(&mut self, longest: Duration) -> Duration {
        Duration::from_nanos(self.next_below(longest.as_nanos().saturating_add(1)))
    }

    /// Returns `true` in this share of cases.
    pub fn next_bool(&mut self, share: Ratio) -> bool {
        self.next_unit() < share.as_f64()
    }
}
