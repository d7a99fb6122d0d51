//! Continues timestamps when a file is played again.
//!
//! The idea: remember a programme's latest decoding time and the step that led to it; when the
//! input restarts, shift all times so that its first decoding time is one step after that. All
//! streams of a programme shift alike, so sound stays with its picture. Times of another clock
//! shift with the others and decide nothing.

use std::collections::BTreeMap;

use super::AccessUnit;

/// A step longer than this does not tell the rate of units: one second.
const STEP_90KHZ_MAX: u64 = 90_000;
/// The step assumed if none is known: a picture at 25 per second.
const STEP_90KHZ: u64 = 3_600;

/// Joins the passes of one programme.
#[derive(Debug, Clone, Default)]
pub(super) struct Seam {
    shift: i64,
    /// Whether a new pass has begun and its first timed unit has not come.
    open: bool,
    /// Earliest time of the next pass.
    end: u64,
    lasts: BTreeMap<u16, u64>,
}

impl Seam {
    /// Marks a restart of the input.
    pub(super) fn restart_input(&mut self) {
        self.open = self.end > 0;
        self.lasts.clear();
    }

    /// Shifts a unit's times into the present pass; `is_timed` says whether they are of the programme's
    /// clock.
    pub(super) fn apply(&mut self, unit: &mut AccessUnit, is_timed: bool) {
        let Some(decode) = unit.decode_90khz() else {
            return;
        };
        if !is_timed {
            unit.shift_90khz(self.shift);
            return;
        }
        if core::mem::take(&mut self.open) {
            self.shift = self.end.cast_signed() - decode.cast_signed();
        }
        unit.shift_90khz(self.shift);
        let now = decode.saturating_add_signed(self.shift);
        let last = self.lasts.insert(unit.pid, now);
        let step = last.map_or(STEP_90KHZ, |last| now.abs_diff(last));
        let step = if (1..=STEP_90KHZ_MAX).contains(&step) {
            step
        } else {
            STEP_90KHZ
        };
        self.end = self.end.max(now + step);
    }
}
