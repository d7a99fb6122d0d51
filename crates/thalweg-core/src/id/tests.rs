//! Proves which names and keys are accepted, at their edges.

use alloc::string::{String, ToString};

use super::{NodeId, StreamName};
use crate::limits::STREAM_NAME_BYTES_MAX;

#[test]
fn names_are_accepted_up_to_their_edge() {
    for good in [
        "cam",
        "survey/radar",
        "a/b/c.d_e-f",
        &"x".repeat(STREAM_NAME_BYTES_MAX),
    ] {
        assert!(good.parse::<StreamName>().is_ok(), "{good}");
    }
    for bad in [
        "",
        "/",
        "a//b",
        "/a",
        "a/",
        "a b",
        "é",
        &"x".repeat(STREAM_NAME_BYTES_MAX + 1),
    ] {
        assert!(bad.parse::<StreamName>().is_err(), "{bad}");
    }
}

#[test]
fn a_key_reads_back_as_it_prints() {
    let id = NodeId(core::array::from_fn(|i| i as u8 * 7));
    assert_eq!(id.to_string().parse(), Ok(id));
    for bad in [
        "",
        "00",
        &"g".repeat(64),
        &"+1".repeat(32),
        &"é".repeat(32),
        &"0".repeat(65),
    ] {
        assert!(bad.parse::<NodeId>().is_err(), "{bad}");
    }
    let long: String = "é".repeat(4_000);
    assert!(
        long.parse::<NodeId>()
            .expect_err("not a key")
            .to_string()
            .len()
            < 400
    );
}
