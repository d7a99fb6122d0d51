//! Proves that flags and media time survive their encodings, at the edges.

use super::{Flags, Header, MediaTime};
use crate::id::{Sequence, StreamId};
use crate::time::{Duration, Instant};

#[test]
fn timestamp_of_90_khz_survives() {
    for ticks in [0, 1, 2, 3, 8, 9, 10, 90_000, 3_003, (1 << 33) - 1, 1 << 33] {
        assert_eq!(MediaTime::from_90khz(ticks).as_90khz(), ticks);
    }
    for ticks in (0..1 << 33).step_by(1_234_567) {
        assert_eq!(MediaTime::from_90khz(ticks).as_90khz(), ticks);
    }
    assert_eq!(MediaTime::from_micros(u64::MAX), MediaTime::MAX);
}

#[test]
fn unknown_flags_are_rejected() {
    assert_eq!(
        Flags::from_bits(0b111_1111).map(Flags::bits),
        Some(0b111_1111)
    );
    assert_eq!(Flags::from_bits(0b1000_0000), None);
    let flags = Flags::KEY.with(Flags::SEALED);
    assert!(flags.contains(Flags::KEY) && !flags.contains(Flags::PACKED));
    assert_eq!(flags.without(Flags::SEALED), Flags::KEY);
}

#[test]
fn adu_is_valid_up_to_its_deadline() {
    let mut header = Header::new(StreamId(1), Sequence(0));
    assert!(!header.is_expired(Instant::NEVER));
    header.deadline = Instant::from_nanos(10);
    assert!(!header.is_expired(header.deadline));
    assert!(header.is_expired(header.deadline + Duration::from_nanos(1)));
}
