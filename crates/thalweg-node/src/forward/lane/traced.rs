//! The traces of a stream's ADUs on their way through the machine, which knows of none.
//!
//! A source marks a few ADUs a second, so the last ones suffice: an ADU that waits for longer goes on
//! without its trace.

use std::collections::VecDeque;

use thalweg_base::id::Sequence;
use thalweg_base::trace::Trace;

/// Traced ADUs that are remembered.
const TRACED_MAX: usize = 16;

/// The traces of the latest ADUs that have one, oldest first.
#[derive(Debug, Default)]
pub(super) struct TracedAdus(VecDeque<(Sequence, Box<Trace>)>);

impl TracedAdus {
    /// Notes the trace with which an ADU came, or that it came without: the trace of an earlier
    /// attempt does not apply to a resend.
    pub(super) fn note(&mut self, sequence: Sequence, trace: Option<Box<Trace>>) {
        if self.0.is_empty() && trace.is_none() {
            return;
        }
        self.0.retain(|(of, _)| *of != sequence);
        self.0.extend(trace.map(|trace| (sequence, trace)));
        if self.0.len() > TRACED_MAX {
            self.0.pop_front();
        }
    }

    /// Returns the trace of an ADU, for one of its copies.
    pub(super) fn of(&self, sequence: Sequence) -> Option<Box<Trace>> {
        let mut all = self.0.iter();
        all.find(|(of, _)| *of == sequence)
            .map(|(_, trace)| trace.clone())
    }
}
