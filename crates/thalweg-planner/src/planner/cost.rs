//! Cost in whole quanta of 10⁻¹⁵, so that sums do not depend on their order.
//!
//! *The idea.* Every term is rounded once and only integers are added. So the difference of two
//! labels is the same on every machine, however both continue. Costs that are equal on paper (⅓ + ⅓
//! and ⅔) may still differ by the rounding of their terms. Costs within [`TIE`] therefore count as
//! equal: far above that rounding, and far below the 10⁻⁹ that users see.

use core::ops::{Add, AddAssign};

/// Quanta per cost unit.
const QUANTA: f64 = 1e15;

/// Costs that differ by no more than this are equal: 10⁻¹² units.
const TIE: u128 = 1_000;

/// A cost in quanta; finite, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost(u128);

impl Cost {
    pub(super) const ZERO: Self = Self(0);
    /// No path; sums saturate here.
    pub(super) const MAX: Self = Self(u128::MAX);
    /// Cap of one term, so that no sum of a plan's terms overflows.
    const TERM_MAX: Self = Self(1 << 100);

    /// Rounds to the nearest quantum; negative values and NaN become zero.
    pub(super) fn from_f64(units: f64) -> Self {
        let quanta = units * QUANTA + 0.5;
        // Below 2^64 the conversion is one instruction, which matters in the innermost loop. `as`
        // saturates and maps NaN to zero.
        if quanta < 1.8e19 {
            return Self(u128::from(quanta as u64));
        }
        Self(quanta as u128).min(Self::TERM_MAX)
    }

    pub(super) const fn from_quanta(quanta: u64) -> Self {
        Self(quanta as u128)
    }

    /// Returns the quanta, saturated to 64 bits.
    pub(super) fn quanta(self) -> u64 {
        u64::try_from(self.0).unwrap_or(u64::MAX)
    }

    /// Returns `quanta` times `times`.
    pub(super) fn product(quanta: u64, times: u64) -> Self {
        Self(u128::from(quanta) * u128::from(times))
    }

    /// Returns the quanta of one share among `among`.
    pub(super) fn shared(self, among: u64) -> u64 {
        Self(self.0 / u128::from(among.max(1))).quanta()
    }

    pub(super) fn as_f64(self) -> f64 {
        self.0 as f64 / QUANTA
    }

    /// Returns whether this exceeds `other` by more than rounding.
    pub(super) fn exceeds(self, other: Self) -> bool {
        self.0 > other.0.saturating_add(TIE)
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

/// Returns the cost of a stream on a link: R / rate.
pub(super) fn link_cost(rate_bps: f64, link_bps: f64) -> Cost {
    Cost::from_f64(rate_bps / link_bps)
}
