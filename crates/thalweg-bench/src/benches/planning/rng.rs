//! A portable random generator for generated worlds.

use thalweg_base::random::SplitMix;

/// The generator.
pub(super) struct Rng(SplitMix);

impl Rng {
    pub(super) const fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns a number in 0..1.
    pub(super) fn unit(&mut self) -> f64 {
        self.0.next_unit()
    }
}
