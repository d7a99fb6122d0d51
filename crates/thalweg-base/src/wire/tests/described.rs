//! Proves that a description survives the wire, that fields of later versions are skipped, and that
//! what is stated twice or cannot be shown is refused.

use alloc::vec::Vec;

use proptest::collection::btree_map;
use proptest::prelude::*;

use super::super::description::{Described, decode, encode};
use super::super::{WireError, Write};
use super::nodes;
use crate::description::Description;
use crate::id::{NodeId, StreamId};

/// A tag and a value.
type Field<'a> = (u64, &'a [u8]);

fn bytes_of(fields: &[Field<'_>]) -> Vec<u8> {
    let mut bytes = [[7; 32].to_vec(), [0; 8].to_vec()].concat();
    bytes.varint(fields.len() as u64);
    for (tag, value) in fields {
        bytes.varint(*tag);
        bytes.blob(value);
    }
    bytes
}

#[test]
fn later_field_is_skipped() {
    let bytes = bytes_of(&[(1, b"json"), (77, &[0; 40]), (3, b"kind=radar")]);
    let described = decode(&bytes).expect("an unknown field is no fault");
    assert_eq!(described.node, NodeId([7; 32]));
    assert_eq!(described.description.encoding, "json");
    assert_eq!(described.description.labels["kind"], "radar");
}

#[test]
fn faulty_description_is_malformed() {
    let malformed = |what| Err(WireError::Malformed(what));
    let cases: [(&[Field<'_>], &'static str); 7] = [
        (&[(1, b"json"), (1, b"text")], "encoding"),
        (&[(1, b"")], "encoding"),
        (&[(1, b"\xff")], "encoding"),
        (&[(2, b"\x1b[2J")], "schema"),
        (&[(3, b"kind")], "label"),
        (&[(3, b"kind=a"), (3, b"kind=b")], "label"),
        (&[(3, b"Kind=a")], "label"),
    ];
    for (fields, what) in cases {
        assert_eq!(decode(&bytes_of(fields)), malformed(what), "{fields:?}");
    }
    let mut trailing = bytes_of(&[(1, b"json")]);
    trailing.push(0);
    assert_eq!(decode(&trailing), Err(WireError::Trailing(1)));
}

prop_compose! {
    fn described()(
        node in nodes(), stream: u64, encoding in "[a-z0-9./+-]{0,32}", schema in "\\PC{0,40}",
        labels in btree_map("[a-z]{1,32}", "\\PC{0,16}", 0..9),
    ) -> Described {
        let description = Description { encoding, schema, labels };
        Described { node, stream: StreamId(stream), description }
    }
}

proptest! {
    #[test]
    fn description_survives(original in described()) {
        prop_assert_eq!(decode(&encode(&original)), Ok(original));
    }

    #[test]
    fn any_bytes_are_a_description_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }
}
