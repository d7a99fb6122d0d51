//! One quantity of one link: the world's value, the measured one, and the bound on their difference.

use std::fmt;

use serde::Serialize;

/// The measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantity {
    /// In kbit/s, headers included; within 3 %.
    Rate,
    /// In milliseconds, one way, the median; within 1 ms.
    Delay,
    /// In percent; within 0.5 points.
    Loss,
}

/// A measured quantity of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The link.
    pub link: &'static str,
    /// The quantity.
    pub quantity: Quantity,
    /// The world's value, in the quantity's unit.
    pub world: f64,
    /// The measured value.
    pub measured: f64,
    /// The round in which it was measured, from 1; it is measured again when out of bounds.
    pub round: u32,
}

impl Quantity {
    const fn words(self) -> (&'static str, &'static str, &'static str, f64) {
        match self {
            Self::Rate => ("rate", "kbit/s", "%", 3.0),
            Self::Delay => ("delay", "ms", "ms", 1.0),
            Self::Loss => ("loss", "%", "points", 0.5),
        }
    }
}

impl Figure {
    /// Returns a figure of the first round.
    pub const fn new(link: &'static str, quantity: Quantity, world: f64, measured: f64) -> Self {
        Self {
            link,
            quantity,
            world,
            measured,
            round: 1,
        }
    }

    /// Returns the deviation from the world's value: in percent of it for a rate, else in the
    /// quantity's unit.
    pub fn error(&self) -> f64 {
        let difference = self.measured - self.world;
        match self.quantity {
            Quantity::Rate => difference / self.world * 100.0,
            Quantity::Delay | Quantity::Loss => difference,
        }
    }

    /// Returns whether the deviation is within the bound.
    pub fn is_within(&self) -> bool {
        // False for a NaN, which is no measurement.
        self.error().abs() <= self.quantity.words().3
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit, error_unit, bound) = self.quantity.words();
        let (link, world, measured, error) = (self.link, self.world, self.measured, self.error());
        write!(
            f,
            "{link:<6} {name:<5} {world:>9.1} {unit:<6} {measured:>9.2} {error:>+7.2} {error_unit:<6} ±{bound}{}{}",
            if self.round > 1 {
                format!(", round {}", self.round)
            } else {
                String::new()
            },
            if self.is_within() {
                ""
            } else {
                "  OUT OF BOUNDS"
            },
        )
    }
}
