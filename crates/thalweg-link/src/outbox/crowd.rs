//! ADUs dropped because the path is too slow.
//!
//! *The idea.* A long queue shows that a path is full. But of video on a path that is too slow,
//! little may be queued: a key frame expires, all its dependants go with it, later ones are refused
//! on arrival, and meanwhile the path is idle, although three times its capacity was offered. So
//! dropped bytes count like queued ones if more credit would have let them go:
//!
//! - bytes that could be sent of an ADU that expired or was pre-empted, while chunks lacked credit;
//! - the dependants of such an ADU, whether queued or arriving later.
//!
//! An ADU that came late, or of which bytes are still to arrive, was dropped because of an earlier
//! hop; so were its dependants.
//!
//! *What it does not do.* It drops nothing.

use thalweg_base::event::DropCause;
use thalweg_base::units::DataSize;

use super::Refused;
use super::family::Lost;
use super::slab::{Slot, State};

/// Bytes crowded out, and the present lack of credit.
#[derive(Debug, Default)]
pub(super) struct CrowdedOut {
    /// Bytes since the last call of [`CrowdedOut::take`].
    bytes: u64,
    /// Whether the last poll for a chunk found one and no credit for it.
    lacks_credit: bool,
}

impl CrowdedOut {
    /// Handles a poll for a chunk: whether it found one, and no credit for it.
    pub(super) fn handle_poll(&mut self, lacks_credit: bool) {
        self.lacks_credit = lacks_credit;
    }

    /// Handles that there is no chunk.
    pub(super) fn handle_idle(&mut self) {
        self.lacks_credit = false;
    }

    /// Returns how many bytes were dropped since the last call that a faster path would have carried.
    pub(super) fn take(&mut self) -> DataSize {
        DataSize::from_bytes(core::mem::take(&mut self.bytes))
    }

    /// Counts an ADU that is about to be dropped, of a flow that has lost these.
    pub(super) fn count_dropped(&mut self, slot: &Slot, lost: &mut Lost, cause: DropCause) {
        // An ADU handed over whole may have arrived.
        if slot.state == State::Queued {
            let left = u64::from(slot.bytes - slot.sent);
            self.count(lost, cause, left, slot.sendable().is_some());
        }
    }

    /// Counts an ADU that is refused.
    pub(super) fn count_refused(&mut self, refused: &Refused, lost: &mut Lost, bytes: usize) {
        // An ADU that arrives after its deadline was late before this hop.
        let could_go = !matches!(refused, Refused::Expired { .. });
        self.count(lost, refused.drop_cause(), bytes as u64, could_go);
    }

    fn count(&mut self, lost: &mut Lost, cause: DropCause, bytes: u64, could_go: bool) {
        // A dependant shares the fate of its base; the flow remembers only the last base's.
        lost.was_crowded_out = match cause {
            DropCause::Dependant => lost.was_crowded_out,
            DropCause::Expired
            | DropCause::Preempted
            | DropCause::Oversized
            | DropCause::Overflow => could_go && self.lacks_credit,
            _ => false,
        };
        if lost.was_crowded_out {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }
}
