//! Proves which ADUs are given again after a restart of the node: those not settled, within the
//! bound, and numbered as the beginning of a stream.

use bytes::Bytes;
use thalweg_base::adu::{Flags, Importance, MediaTime};

use super::*;

fn outgoing(number: u64, depends_on: u32, bytes: usize) -> Outgoing {
    Outgoing {
        media_time: MediaTime::from_micros(number),
        importance: Importance(1),
        layer: 0,
        flags: Flags::NONE,
        depends_on,
        payload: Bytes::from(vec![0; bytes]),
    }
}

fn times(kept: &mut Kept) -> Vec<u64> {
    let adus = kept.renumber();
    adus.iter().map(|one| one.media_time.as_micros()).collect()
}

#[test]
fn settled_adus_are_removed() {
    let mut kept = Kept::default();
    for number in 0..10 {
        kept.push(outgoing(number, 0, 100));
    }
    kept.settle(7);
    // An older count changes nothing.
    kept.settle(3);
    assert_eq!((times(&mut kept), kept.bytes), (vec![7, 8, 9], 300));
    // Numbers are now those of the new stream.
    kept.settle(1);
    kept.push(outgoing(10, 0, 100));
    assert_eq!(times(&mut kept), [8, 9, 10]);
}

#[test]
fn old_dependencies_are_cleared() {
    let mut kept = Kept::default();
    for number in 0..4 {
        kept.push(outgoing(number, u32::from(number > 0), 1));
    }
    kept.settle(2);
    let adus = kept.renumber();
    let depends: Vec<u32> = adus.iter().map(|one| one.depends_on).collect();
    assert_eq!(depends, [0, 1]);
    assert_eq!(kept.push(outgoing(4, 3, 1)).depends_on, 0);
    assert_eq!(kept.push(outgoing(5, 3, 1)).depends_on, 3);
}

#[test]
fn kept_bytes_are_bounded() {
    let mut kept = Kept::default();
    for number in 0..5 {
        kept.push(outgoing(number, 0, KEPT_BYTES_MAX / 3));
    }
    assert!(kept.bytes <= KEPT_BYTES_MAX);
    assert_eq!((kept.first, kept.dropped), (2, 2));
    kept.settle(1);
    assert_eq!(kept.dropped, 1, "one of them was settled");
}
