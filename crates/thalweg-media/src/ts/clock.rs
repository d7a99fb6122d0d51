//! Unwraps 33-bit timestamps.
//!
//! The idea: each new value is interpreted as the one nearest to the last, so that a wrap continues
//! upwards and a step back stays a step back. Each stream has its own clock, which starts at its
//! programme's: streams wrap together, and one with times of another clock disturbs none.

const WRAP: i64 = 1 << 33;

/// A running clock.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    last: Option<i64>,
}

impl Clock {
    /// Returns a clock at a full value.
    pub(super) fn at(ticks: u64) -> Self {
        Self {
            last: Some(ticks.cast_signed()),
        }
    }

    /// The full value of a 33-bit one.
    pub(super) fn unwrap(&mut self, ticks: u64) -> u64 {
        let ticks = ticks.cast_signed() & (WRAP - 1);
        let full = match self.last {
            None => ticks,
            Some(last) => {
                let step = (ticks - last).rem_euclid(WRAP);
                let near = last + if step >= WRAP / 2 { step - WRAP } else { step };
                // Values below zero do not exist; the next round is meant.
                if near < 0 { near + WRAP } else { near }
            }
        };
        self.last = Some(full);
        full as u64
    }
}
