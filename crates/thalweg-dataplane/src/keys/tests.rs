//! Proves a key ring's guarantees: one key per epoch, and retired epochs never return.

use super::{KEYS_PER_STREAM_MAX, KeyEpoch, KeyError, KeyRing, SealInstance, StreamKey};

fn key(byte: u8) -> StreamKey {
    StreamKey::new([byte; 32])
}

#[test]
fn epoch_has_one_key() {
    let mut ring = KeyRing::with_key(KeyEpoch(1), key(1));
    assert_eq!(ring.add(KeyEpoch(1), key(1)), Ok(()));
    assert_eq!(
        ring.add(KeyEpoch(1), key(2)),
        Err(KeyError::Taken(KeyEpoch(1)))
    );
}

#[test]
fn retired_epoch_never_returns() {
    let mut ring = KeyRing::with_key(KeyEpoch(1), key(1));
    assert_eq!(ring.retire(KeyEpoch(1)), Err(KeyError::InUse(KeyEpoch(1))));
    ring.add(KeyEpoch(2), key(2)).expect("epoch 2 is new");
    assert_eq!(ring.sealing().map(|(epoch, _)| epoch), Some(KeyEpoch(1)));
    ring.seal_with(KeyEpoch(2)).expect("epoch 2 is held");
    ring.retire(KeyEpoch(1))
        .expect("epoch 1 is not sealed with");
    assert!(ring.get(KeyEpoch(1)).is_none() && ring.get(KeyEpoch(2)).is_some());
    assert_eq!(
        ring.add(KeyEpoch(1), key(1)),
        Err(KeyError::Retired(KeyEpoch(1)))
    );
    assert_eq!(
        ring.seal_with(KeyEpoch(1)),
        Err(KeyError::Unknown(KeyEpoch(1)))
    );
}

#[test]
fn key_ring_is_bounded() {
    let mut ring = KeyRing::new();
    for epoch in 0..KEYS_PER_STREAM_MAX as u32 {
        ring.add(KeyEpoch(epoch), key(0))
            .expect("the ring has room");
    }
    assert_eq!(ring.add(KeyEpoch(99), key(0)), Err(KeyError::Full));
}

#[test]
fn forked_instances_differ() {
    let mut instance = SealInstance::from_random(u64::MAX);
    let (first, second) = (instance.fork(), instance.fork());
    assert!(first != second && first != instance && second != instance);
}

#[test]
fn debug_never_shows_a_key() {
    let ring = KeyRing::with_key(KeyEpoch(7), key(0xAB));
    let shown = format!("{ring:?}").to_lowercase();
    assert!(!shown.contains("ab, ") && !shown.contains("171"), "{shown}");
}
