//! Room for those that would wait rather than be dropped.
//!
//! *The idea.* An ADU with a deadline goes into the outbox at once and takes its chance there. One without, or one of an
//! ordered sequence, must not be dropped for want of room: it waits outside until those like it have gone, and whoever
//! has it waits with it. They get half of the outbox, so the others always find some.
//!
//! *What it does not do.* It makes nobody wait: the driver does, each in its own way.

use crate::adu::Header;
use crate::hop::{Carriage, SendOptions};
use crate::limits::OUTBOX_BYTES_MAX;

/// What they may have in the outbox together, in KiB.
pub const ROOM_KIB: u32 = (OUTBOX_BYTES_MAX.as_bytes() >> 11) as u32;

/// What one of them takes of it at least: so they are 8,192 at most.
const ROOM_KIB_MIN: usize = 4;

/// Returns whether an ADU would wait rather than be dropped.
pub const fn may_wait(header: &Header, options: &SendOptions) -> bool {
    header.deadline.is_never() || matches!(options.carriage, Carriage::Ordered(_))
}

/// Returns how much room an ADU takes, in KiB.
pub fn room_kib(payload_bytes: usize) -> u32 {
    payload_bytes.div_ceil(1 << 10).max(ROOM_KIB_MIN) as u32
}

const _: () = assert!(
    ROOM_KIB as usize >= crate::limits::ADU_PAYLOAD_BYTES_MAX >> 10,
    "the largest ADU finds room"
);
