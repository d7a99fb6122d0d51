//! What was given up for want of the path.
//!
//! *The idea.* What waits shows that a path is full. But of video on a path that is too slow, little may wait: a picture that
//! others need expires, all that need it go with it, those that come later are refused as they come, and meanwhile the path is
//! idle, although three times what it carries was to be sent. So what was given up here counts like what waits, if it would
//! have gone had there been more credit:
//!
//! - what expired or was pre-empted with bytes that could go, while others were wanted for which there was no credit;
//! - what needs such a one, whether it waits or comes later.
//!
//! What came late, or lacks bytes that have yet to arrive, was given up for want of another path, and what needs it as well.
//!
//! *What it does not do.* It gives up nothing.

use super::slab::State;
use super::{Outbox, Refused};
use crate::event::DropCause;
use crate::units::DataSize;

/// What was given up, and how the outbox was meanwhile.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// Bytes since they were last taken.
    bytes: u64,
    /// Whether, when last asked for a chunk, there was one and no credit for it.
    pub(super) is_short: bool,
}

impl Outbox {
    /// Gives out how many bytes were given up since this was last asked that would have gone, had the path carried more.
    pub fn take_crowded_out(&mut self) -> DataSize {
        DataSize::from_bytes(core::mem::take(&mut self.crowd.bytes))
    }

    /// Takes in that an ADU is about to be given up.
    pub(super) fn crowd_out(&mut self, index: u32, cause: DropCause) {
        let slot = &self.slab[index];
        // What was handed over whole may have arrived.
        if slot.state == State::Queued {
            let left = u64::from(slot.bytes - slot.sent);
            self.count_crowded(slot.flow, cause, left, slot.sendable().is_some());
        }
    }

    /// Takes in that an ADU is not let in.
    pub(super) fn crowd_out_refused(&mut self, flow: u32, refused: &Refused, bytes: usize) {
        // One whose deadline is over when it comes was late before.
        let could_go = !matches!(refused, Refused::Expired { .. });
        self.count_crowded(flow, refused.drop_cause(), bytes as u64, could_go);
    }

    fn count_crowded(&mut self, flow: u32, cause: DropCause, bytes: u64, could_go: bool) {
        let lost = &mut self.flows[flow as usize].lost;
        lost.is_crowded = match cause {
            DropCause::Dependant => lost.is_crowded,
            DropCause::Expired
            | DropCause::Preempted
            | DropCause::Oversized
            | DropCause::Overflow => could_go && self.crowd.is_short,
            _ => false,
        };
        if lost.is_crowded {
            self.crowd.bytes = self.crowd.bytes.saturating_add(bytes);
        }
    }
}
