//! Proves that a record is believed about its own node's streams and no other's.

use thalweg_core::id::NodeId;
use thalweg_core::wire::record::{Announced, Record};

use super::neighbour::borrowed_stream;
use super::source::stream_id;

fn record(node: NodeId, publisher: NodeId) -> Record {
    let start = [3; 8];
    let stream = Announced {
        id: stream_id(publisher, "cam", start),
        start,
        name: "cam".parse().expect("a name"),
        confidential: false,
        layers: Vec::new(),
    };
    Record {
        node,
        sequence: 1,
        name: "n".into(),
        slots: 0,
        box_key: [0; 32],
        neighbours: Vec::new(),
        streams: vec![stream],
    }
}

#[test]
fn nobody_announces_a_stream_of_anothers() {
    let (one, other) = (NodeId([1; 32]), NodeId([2; 32]));
    assert_eq!(borrowed_stream(&record(one, one)), None);
    let borrowed = record(other, one);
    assert_eq!(
        borrowed_stream(&borrowed).map(ToString::to_string),
        Some("cam".into())
    );
    let mut renamed = record(one, one);
    renamed.streams[0].name = "cam2".parse().expect("a name");
    assert!(borrowed_stream(&renamed).is_some());
}
