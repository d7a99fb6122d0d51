//! Cost as whole quanta of 10⁻¹², so that sums do not depend on their order.
//!
//! *The idea.* Every term of the cost is rounded once; after that only integers are added and compared. So two ways to
//! the same sum are equal, ties are ties on every machine, and dropping a dearer label can never drop the winner of a
//! tie. A plan of a hundred terms is within 10⁻¹⁰ of the real sum.

use core::ops::{Add, AddAssign};

/// Quanta in one cost unit.
const QUANTA: f64 = 1e12;

/// A cost in quanta; finite, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost(u128);

impl Cost {
    pub(super) const ZERO: Self = Self(0);
    /// One term is capped here, so that no sum of a plan's terms overflows.
    const TERM_MAX: Self = Self(1 << 100);

    /// Rounds to the nearest quantum; below zero and not-a-number are zero.
    pub(super) fn from_f64(units: f64) -> Self {
        let quanta = units * QUANTA + 0.5;
        // Below 2^64 the conversion is one instruction, which the innermost loop feels. `as` saturates and maps
        // not-a-number to zero.
        if quanta < 1.8e19 {
            return Self(u128::from(quanta as u64));
        }
        Self(quanta as u128).min(Self::TERM_MAX)
    }

    pub(super) fn as_f64(self) -> f64 {
        self.0 as f64 / QUANTA
    }

    pub(super) fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
