//! Proves which names and keys are accepted, at their limits.

use alloc::format;
use alloc::string::{String, ToString};

use super::{NodeId, StreamName};
use crate::limits::STREAM_NAME_BYTES_MAX;

#[test]
fn names_are_accepted_up_to_limit() {
    for good in [
        "cam",
        "survey/radar",
        "a/b/c.d_e-f",
        "a/.b/..c",
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
        ".",
        "..",
        "a/../b",
        "./a",
        "a/..",
        "a b",
        "é",
        &"x".repeat(STREAM_NAME_BYTES_MAX + 1),
    ] {
        assert!(bad.parse::<StreamName>().is_err(), "{bad}");
    }
}

#[test]
fn key_round_trips() {
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

#[test]
fn key_prefix_precedes_name() {
    let node = |first: u8, last: u8| {
        let mut key = [0xab; 32];
        (key[0], key[31]) = (first, last);
        NodeId(key)
    };
    let nodes = [
        (node(1, 1), "camera"),
        (node(2, 2), "hub"),
        (node(3, 3), "hub"),
        (node(3, 4), "twin"),
        // This node's name is the digits of another node's key.
        (node(5, 5), "02abababab"),
        (node(1, 1), "camera"),
    ];
    let meant = |word: &str| NodeId::meant(word, nodes);
    assert_eq!(meant("camera"), [node(1, 1)], "each once");
    assert_eq!(meant("hub"), [node(2, 2), node(3, 3)]);
    assert_eq!(meant("02abababab"), [node(2, 2)]);
    assert_eq!(meant("02ABABABAB"), [node(2, 2)]);
    assert_eq!(meant("02ababababa"), [node(2, 2)]);
    assert_eq!(meant("02ababababb"), []);
    assert_eq!(meant("02abababa"), [], "nine digits");
    assert_eq!(meant(&node(3, 4).to_string()), [node(3, 4)]);
    assert_eq!(meant("03abababab"), [node(3, 3), node(3, 4)]);
    assert_eq!(meant(&format!("{}0", node(3, 4))), [], "longer than a key");
    assert_eq!(meant("äöüäöüäöü"), []);
}
