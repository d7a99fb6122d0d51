//! 33-bit timestamps without their wrap.
//!
//! The idea: each new value is taken as the one nearest to the last, so that a wrap goes on upwards and a step back
//! stays a step back. Each stream has one of its own, which begins where its programme's stands: streams wrap
//! together, and one with times of another clock disturbs none.

const WRAP: i64 = 1 << 33;

/// A running clock.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    last: Option<i64>,
}

impl Clock {
    /// A clock that stands at a full value.
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
                // Nothing is before zero; there the other way round is taken.
                if near < 0 { near + WRAP } else { near }
            }
        };
        self.last = Some(full);
        full as u64
    }
}
