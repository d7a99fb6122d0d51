//! Limits on a publisher's ADUs in flight.
//!
//! *The idea.* A producer that waits for its earlier ADUs follows the pace of the path. A live
//! producer must not: its next ADU may matter more than all that are queued, and the outbox can
//! only choose among ADUs that it has. So ADUs with a deadline get a window so large that the
//! outbox begins to drop long before the producer is held back.
//!
//! *Sources.* The numbers state their reasons; measured in `benches/delivery` of `thalweg-bench`.

use thalweg_base::adu::{Flags, Header};
use thalweg_base::limits::{ADUS_IN_FLIGHT_MAX, OUTBOX_ADUS_MAX, OUTBOX_BYTES_MAX};

use crate::mailbox::BACKLOG_BYTES;

/// Maximum number of a publisher's ADUs in flight without a deadline: half of what a link has on
/// streams at once, so that relayed streams find room beside them.
pub const WINDOW_ADUS_MAX: u64 = ADUS_IN_FLIGHT_MAX as u64 / 2;

/// Maximum bytes of them, roughly: 100 Mbit/s over 100 ms.
pub const WINDOW_BYTES: u64 = 1_250_000;

const _: () = assert!(
    BACKLOG_BYTES >= 4 * WINDOW_BYTES,
    "a sink waits for what waits behind the rest of its window"
);

/// Maximum number of a publisher's ADUs in flight with a deadline: eight publishers fill an outbox.
pub const LIVE_WINDOW_ADUS_MAX: u64 = OUTBOX_ADUS_MAX as u64 / 8;

/// Maximum bytes of them, roughly: one second at 67 Mbit/s.
pub const LIVE_WINDOW_BYTES: u64 = OUTBOX_BYTES_MAX.as_bytes() / 8;

/// Returns how many ADUs may be in flight if all are as long as this one.
pub fn window(payload_bytes: u64, has_deadline: bool) -> u64 {
    let (bytes, adus_max) = if has_deadline {
        (LIVE_WINDOW_BYTES, LIVE_WINDOW_ADUS_MAX)
    } else {
        (WINDOW_BYTES, WINDOW_ADUS_MAX)
    };
    (bytes / payload_bytes.max(1)).clamp(1, adus_max)
}

/// Number of stream ends that find room in a full queue.
const ENDS_MAX: u64 = 16;

/// Returns whether an ADU finds room behind `waiting` others in the queue of a plan without
/// deadlines, if all are as long as this one; the end of a stream has a little more room.
pub fn has_room(waiting: u64, header: &Header, payload_bytes: usize) -> bool {
    let is_end = payload_bytes == 0 && header.flags.contains(Flags::END);
    let more = if is_end { ENDS_MAX } else { 0 };
    waiting < window(payload_bytes as u64, false) + more
}
