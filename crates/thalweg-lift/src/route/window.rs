//! How much of one publisher may be under way.
//!
//! *The idea.* Who waits for what was sent before goes at the pace of the path. A live producer must not: what it has next
//! may matter more than all that waits, and the outbox can only choose among what it has been given. So what has a deadline
//! is held back only long after a live producer would be, by which time the outbox has begun to drop.
//!
//! *Sources.* The numbers state their reasons; measured in `benches/delivery` of `thalweg-bench`.

use thalweg_core::adu::{Flags, Header};
use thalweg_core::limits::{ADUS_IN_FLIGHT_MAX, OUTBOX_ADUS_MAX, OUTBOX_BYTES_MAX};
use thalweg_core::mailbox::BACKLOG_BYTES;

/// ADUs of one publisher under way at most that have all the time there is: half of what a link has on streams at once, so
/// that relayed streams find room beside it.
pub const WINDOW_ADUS_MAX: u64 = ADUS_IN_FLIGHT_MAX as u64 / 2;

/// Bytes of them, about: 100 Mbit/s over 100 ms.
pub const WINDOW_BYTES: u64 = 1_250_000;

const _: () = assert!(
    BACKLOG_BYTES >= 4 * WINDOW_BYTES,
    "a sink waits for what waits behind the rest of its window"
);

/// ADUs of one publisher under way at most that have a deadline: eight publishers fill an outbox.
pub const LIVE_WINDOW_ADUS_MAX: u64 = OUTBOX_ADUS_MAX as u64 / 8;

/// Bytes of them, about: a second at 67 Mbit/s.
pub const LIVE_WINDOW_BYTES: u64 = OUTBOX_BYTES_MAX.as_bytes() / 8;

/// Returns how many ADUs may be under way, taking all of them to be as long as this one.
pub fn window(payload_bytes: u64, has_deadline: bool) -> u64 {
    let (bytes, adus_max) = if has_deadline {
        (LIVE_WINDOW_BYTES, LIVE_WINDOW_ADUS_MAX)
    } else {
        (WINDOW_BYTES, WINDOW_ADUS_MAX)
    };
    (bytes / payload_bytes.max(1)).clamp(1, adus_max)
}

/// So many ends of streams find room where nothing else does.
const ENDS_MAX: u64 = 16;

/// Returns whether an ADU finds room behind so many in the queue of a plan that goes at its own pace, taking all to be as long as it;
/// for the end of a stream there is a little more.
pub fn has_room(waiting: u64, header: &Header, payload_bytes: usize) -> bool {
    let is_end = payload_bytes == 0 && header.flags.contains(Flags::END);
    let more = if is_end { ENDS_MAX } else { 0 };
    waiting < window(payload_bytes as u64, false) + more
}
