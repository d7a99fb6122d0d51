//! Maps values to positions on an axis, and chooses its ticks.

use crate::Scale;

/// An axis, in pixels.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    /// Pixels of `low` and `high`.
    ends: (f64, f64),
}

impl Axis {
    /// Returns an axis that covers all values, from pixel to pixel.
    pub(crate) fn new(scale: Scale, values: &[f64], ends: (f64, f64)) -> Self {
        let (low, high) = match scale {
            Scale::Even => (0.0, ceiling(largest(values))),
            Scale::Tenfold => {
                let above: Vec<f64> = values.iter().copied().filter(|v| *v > 0.0).collect();
                let low = above.iter().copied().fold(f64::INFINITY, f64::min);
                let low = if low.is_finite() { low } else { 1.0 };
                let low = 10f64.powf(low.log10().floor());
                let high = 10f64.powf(largest(&above).max(low * 10.0).log10().ceil());
                (low, high)
            }
        };
        Self {
            scale,
            low,
            high,
            ends,
        }
    }

    /// Returns the pixel of a value; `None` if it is not on the axis.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() {
            return None;
        }
        let share = match self.scale {
            Scale::Even => (value - self.low) / (self.high - self.low),
            Scale::Tenfold if value <= 0.0 => return None,
            Scale::Tenfold => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        Some(self.ends.0 + share.clamp(0.0, 1.0) * (self.ends.1 - self.ends.0))
    }

    /// Returns the values of the ticks.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Even => (0..=5).map(|n| self.high * f64::from(n) / 5.0).collect(),
            Scale::Tenfold => {
                let decades = (self.high / self.low).log10().round() as i32;
                (0..=decades).map(|n| self.low * 10f64.powi(n)).collect()
            }
        }
    }
}

fn largest(values: &[f64]) -> f64 {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    finite.fold(0.0, f64::max)
}

/// Returns the smallest of 1, 1.5, 2, 2.5, 3, 4, 5, 7.5 times a power of ten that is not below a value.
fn ceiling(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5, 10.0];
    let step = steps.into_iter().find(|step| step * power >= value);
    step.unwrap_or(10.0) * power
}

/// Formats a tick's value with no more digits than necessary.
pub(crate) fn label(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        1e6.. => format!("{} M", trimmed(value / 1e6)),
        1e4.. => format!("{} k", trimmed(value / 1e3)),
        0.001.. => trimmed(value),
        _ => format!("{value:.0e}"),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
