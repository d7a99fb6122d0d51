//! Room for ADUs that wait rather than be dropped.
//!
//! *The idea.* An ADU with a deadline goes into the outbox at once and may be dropped there. An ADU
//! without a deadline, or of an ordered sequence, must not be dropped for want of room: it waits
//! outside until others like it have gone, and its program waits with it (backpressure). Such ADUs
//! get half of the outbox, so the others always find room.
//!
//! *What it does not do.* It makes no program wait: each driver does, in its own way.

use thalweg_base::adu::Header;
use thalweg_base::limits::OUTBOX_BYTES_MAX;

use crate::hop::{Carriage, SendOptions};

/// Room in the outbox for such ADUs together, in KiB.
pub const ROOM_KIB: u32 = (OUTBOX_BYTES_MAX.as_bytes() >> 11) as u32;

/// Least room that one of them takes, in KiB: so they are at most 8,192.
const ROOM_KIB_MIN: usize = 4;

/// Returns whether an ADU waits rather than be dropped.
pub const fn may_wait(header: &Header, options: &SendOptions) -> bool {
    header.deadline.is_never() || matches!(options.carriage, Carriage::Ordered(_))
}

/// Returns how much room an ADU takes, in KiB.
pub fn room_kib(payload_bytes: usize) -> u32 {
    payload_bytes.div_ceil(1 << 10).max(ROOM_KIB_MIN) as u32
}

const _: () = assert!(
    ROOM_KIB as usize >= thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX >> 10,
    "the largest ADU finds room"
);
