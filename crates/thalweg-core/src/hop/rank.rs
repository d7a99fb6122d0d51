//! In which order the streams of a link get the line.
//!
//! *The idea.* QUIC knows priorities only, and shares the line among streams of one. Its other mode, first in first
//! out, finishes whatever stream it has begun *before* anything more important: a long ADU would hold up an urgent one,
//! and an ordered sequence that never runs dry would hold up control for ever. So each ADU gets a rank of its own: its
//! priority, and below that its place in the order in which they were sent.
//!
//! ```text
//! rank = priority:8 ‖ (2²² − 1 − number of the sending):22      control: above all of them
//! ```
//!
//! An ordered sequence has the lowest rank of its priority, for it is never done.
//!
//! *What it does not do.* It orders nothing that QUIC already has in packets. After four million ADUs the number begins
//! anew, and what is queued at that moment is overtaken once by what follows.
//!
//! *Sources.* noq 1.4 `connection/streams/mod.rs`, `PendingStreamsQueue::push_pending`.

use core::sync::atomic::{AtomicU32, Ordering};

/// Bits of the place in the order; with the eight of the priority a rank stays positive.
const PLACE_BITS: u32 = 22;

/// The rank of the control stream.
pub const CONTROL: i32 = i32::MAX;

/// Gives out the ranks of one link.
#[derive(Debug, Default)]
pub struct Ranks(AtomicU32);

impl Ranks {
    /// Returns the rank of an ADU that is sent now on a stream of its own.
    pub fn next(&self, priority: u8) -> i32 {
        let last = (1 << PLACE_BITS) - 1;
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
