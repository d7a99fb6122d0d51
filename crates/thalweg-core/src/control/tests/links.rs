//! Proves that what a link carries is reckoned from when it was read, and not from when that is said.

use alloc::vec::Vec;

use super::{A, B, Duration, Fabric, LINK};
use crate::routing::gauge::{Reading, SAMPLE_EVERY, Sample};
use crate::units::{Bitrate, DataSize};

/// Returns what is known after each sample of a link that is full at 800 kbit/s, if they are said so much later, in turn.
fn readings(late_ms: &[u64]) -> Vec<Reading> {
    let mut fabric = Fabric::linked(&[[A, B]]);
    let begun = fabric.now;
    let late = late_ms.iter().cycle();
    let after = (1..=20).zip(late).map(|(step, late)| {
        let at = begun + Duration::from_nanos(step * SAMPLE_EVERY.as_nanos());
        let sample = Sample {
            sent: DataSize::from_bytes(step * 25_000),
            waiting: DataSize::from_bytes(10_000),
            heard: step,
            ..LINK
        };
        fabric.now = at + Duration::from_millis(*late);
        fabric.at(A, |c, now, keys| {
            c.handle_link_sample(B, (at, sample), now, keys);
        });
        fabric.settle();
        let link = fabric.node(A).controller.link(B);
        link.expect("they are linked").reading()
    });
    after.collect()
}

#[test]
fn a_link_carries_the_same_however_late_its_samples_are_said() {
    let prompt = readings(&[0]);
    assert_eq!(prompt[19].capacity, Some(Bitrate::from_kbps(800)));
    assert_eq!(readings(&[0, 120, 40, 200]), prompt);
}
