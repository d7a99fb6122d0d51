//! Proves that an envelope opens for its addressee in its context, and in no other case.

use thalweg_base::id::{NodeId, StreamId};
use thalweg_control::control::{KeyContent, KeyContext, KeysError};

use super::{BoxKey, seal};

const CONTEXT: KeyContext = KeyContext {
    source: NodeId([7; 32]),
    stream: StreamId(9),
};

#[test]
fn only_addressee_opens_envelope() {
    let (one, other) = (
        BoxKey::generate().expect("random"),
        BoxKey::generate().expect("random"),
    );
    let content = KeyContent {
        key_epoch: 3,
        key: [5; 32],
    };
    let envelope = seal(&content, &one.public(), CONTEXT).expect("a valid key");
    assert!(one.open(&envelope, CONTEXT) == Ok(content.clone()));
    assert!(other.open(&envelope, CONTEXT) == Err(KeysError::Unauthentic));
    let elsewhere = KeyContext {
        stream: StreamId(10),
        ..CONTEXT
    };
    assert!(one.open(&envelope, elsewhere) == Err(KeysError::Unauthentic));
    let another = seal(&content, &one.public(), CONTEXT).expect("a valid key");
    assert_ne!(envelope, another, "each envelope has a key of its own");
}

#[test]
fn damaged_envelope_stays_closed() {
    let one = BoxKey::generate().expect("random");
    let content = KeyContent {
        key_epoch: 3,
        key: [5; 32],
    };
    let envelope = seal(&content, &one.public(), CONTEXT).expect("a valid key");
    for at in 0..envelope.len() {
        let mut damaged = envelope.clone();
        damaged[at] ^= 1;
        // X25519 ignores the top bit of a key's last byte, but the derivation covers all 32 bytes.
        assert!(one.open(&damaged, CONTEXT).is_err(), "byte {at}");
        assert!(one.open(&envelope[..at], CONTEXT).is_err(), "length {at}");
    }
    assert!(
        seal(&content, &[0; 32], CONTEXT).is_err(),
        "the zero point agrees with nobody"
    );
}
