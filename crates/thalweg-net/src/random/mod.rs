//! Reproducible randomness from a seed, for jitter and for losses on a shaped line.
//!
//! *The idea.* `SplitMix64`: one addition and three multiplications a number, equal on every machine, so that a run
//! with a seed can be repeated.
//!
//! *What it does not do.* It is no source of secrets.
//!
//! *Sources.* Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014.

#[cfg(test)]
mod tests;

/// A sequence of numbers that its seed determines.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in 0..1, with the 53 bits that a float holds.
    pub(crate) fn next_unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
