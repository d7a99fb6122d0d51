//! Proves that forged or changed bytes are refused, and that the same seed gives the same bytes.

use std::rc::Rc;

use thalweg_base::id::StreamId;
use thalweg_control::control::{KeyContent, KeyContext, Keys};
use thalweg_planner::model::NodeName;

use super::{HostKeys, Ring, node_id};

fn pair() -> [HostKeys; 2] {
    let names: [NodeName; 2] = ["a", "b"].map(|name| name.parse().expect("a letter"));
    let ring = Rc::new(Ring::new(&names));
    names.map(|name| HostKeys::new(Rc::clone(&ring), node_id(&name), 1))
}

#[test]
fn signature_binds_signer_and_message() {
    let [mut a, b] = pair();
    let signature = a.sign(b"hello");
    assert!(b.verify(a.id, b"hello", &signature));
    assert!(!b.verify(a.id, b"hellp", &signature));
    assert!(!b.verify(b.id, b"hello", &signature));
    let mut changed = signature;
    changed[40] ^= 1;
    assert!(!b.verify(a.id, b"hello", &changed));
}

#[test]
fn envelope_binds_node_and_context() {
    let [mut a, b] = pair();
    let context = |stream| KeyContext {
        source: a.id,
        stream: StreamId(stream),
    };
    let (right, wrong) = (context(7), context(8));
    let content = KeyContent {
        key_epoch: 3,
        key: [9; 32],
    };
    let sealed = a
        .seal_key(&content, &b.box_key(), right)
        .expect("b has a box key");
    assert_eq!(b.open_key(&sealed, right), Ok(content));
    assert!(b.open_key(&sealed, wrong).is_err());
    assert!(a.open_key(&sealed, right).is_err());
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(b.open_key(&changed, right).is_err(), "byte {at}");
    }
    assert!(b.open_key(&sealed[..10], right).is_err());
    assert!(!sealed.windows(32).any(|window| window == [9; 32]));
}
