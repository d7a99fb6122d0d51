//! How much of one publisher may be under way.
//!
//! *Sources.* The numbers state their reasons; measured in `benches/delivery` of `thalweg-bench`.

use thalweg_core::limits::ADUS_IN_FLIGHT_MAX;

/// ADUs of one publisher under way at most: half of what a link takes, so that relayed streams find room beside it.
pub const WINDOW_ADUS_MAX: u64 = ADUS_IN_FLIGHT_MAX as u64 / 2;

/// Bytes of one publisher under way, about: 100 Mbit/s over 100 ms. What QUIC has no room for waits on streams of their
/// own, and each is woken whenever there is some; so more under way carries less.
pub const WINDOW_BYTES: u64 = 1_250_000;

/// Returns how many ADUs may be under way, taking all of them to be as long as this one.
pub fn window(payload_bytes: u64) -> u64 {
    (WINDOW_BYTES / payload_bytes.max(1)).clamp(1, WINDOW_ADUS_MAX)
}
