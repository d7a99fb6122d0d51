//! The order in which the streams of a link get the line.
//!
//! *The idea.* QUIC has priorities only, and shares the line among streams of one priority. Its
//! other mode, first in first out, finishes a stream that has begun *before* anything more
//! important: a long ADU would delay an urgent one (head-of-line blocking), and an ordered sequence
//! that never runs dry would starve control. So each ADU gets a rank of its own: its priority, and
//! below that its place in the order of sending.
//!
//! ```text
//! rank = priority:8 ‖ (2²² − 1 − number of the sending):22      control: above all of them
//! ```
//!
//! An ordered sequence has the lowest rank of its priority, for it never ends.
//!
//! *What it does not do.* It does not reorder what QUIC already has in packets. After four million
//! ADUs the number wraps, and later ADUs overtake once what is queued at that moment.
//!
//! *Sources.* noq 1.4 `connection/streams/mod.rs`, `PendingStreamsQueue::push_pending`.

use core::sync::atomic::{AtomicU32, Ordering};

/// Bits of the place in the order; with the eight bits of the priority a rank stays positive.
const PLACE_BITS: u32 = 22;

/// The rank of the control stream.
pub const CONTROL: i32 = i32::MAX;

/// Assigns the ranks of one link.
#[derive(Debug, Default)]
pub struct Ranks(AtomicU32);

impl Ranks {
    /// Returns the rank of an ADU that is sent now on a stream of its own.
    pub fn next(&self, priority: u8) -> i32 {
        let last = (1 << PLACE_BITS) - 1;
        // Earlier ADUs get the higher rank; uniqueness is all that matters, so the order of memory
        // accesses does not.
        let number = self.0.fetch_add(1, Ordering::Relaxed) & last;
        sequence(priority) + (last - number).cast_signed()
    }
}

/// Returns the rank of an ordered sequence.
pub const fn sequence(priority: u8) -> i32 {
    (priority as i32) << PLACE_BITS
}

const _: () = assert!(
    sequence(u8::MAX) + ((1 << PLACE_BITS) - 1) < CONTROL,
    "no ADU goes before control"
);
