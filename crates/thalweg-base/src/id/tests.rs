//! Proves which names and keys are accepted, at their limits.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{NodeId, StreamName, StreamPattern};
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
fn pattern_matches_names() {
    for (pattern, names, others) in [
        ("a/b", &["a/b"][..], &["a", "a/b/c", "a/bb"][..]),
        ("survey/*", &["survey/radar"], &["survey", "survey/a/b"]),
        (
            "survey/**",
            &["survey", "survey/a", "survey/a/b"],
            &["surveys", "a/survey"],
        ),
        ("**", &["a", "a/b/c"], &[]),
        (
            "**/cam",
            &["cam", "a/cam", "a/cam/cam"],
            &["camera", "a/cam/b"],
        ),
        (
            "a/**/b/**/c",
            &["a/b/c", "a/x/b/y/z/c", "a/b/b/c"],
            &["a/c", "a/b", "a/b/c/d"],
        ),
        (
            "robot-?/cam*",
            &["robot-1/cam", "robot-2/camera"],
            &["robot-12/cam", "robot-/cam"],
        ),
        ("*a*b", &["ab", "xaybzb", "aab"], &["ba", "abc"]),
    ] {
        let pattern: StreamPattern = pattern.parse().expect("a pattern");
        for (list, is_match) in [(names, true), (others, false)] {
            for name in list {
                let name: StreamName = name.parse().expect("a name");
                assert_eq!(pattern.matches(&name), is_match, "{pattern} {name}");
            }
        }
    }
}

#[test]
fn pattern_rejects_bad_text() {
    for bad in [
        "",
        "a//b",
        "a/**b",
        "***",
        "a b",
        "[ab]",
        "..",
        "/a",
        &"*".repeat(129),
    ] {
        assert!(bad.parse::<StreamPattern>().is_err(), "{bad}");
    }
    assert!(
        "a/b"
            .parse::<StreamPattern>()
            .expect("a pattern")
            .name()
            .is_some()
    );
    assert_eq!(
        "a/*".parse::<StreamPattern>().expect("a pattern").name(),
        None
    );
}

proptest! {
    /// A hand-written match against all ways to divide the name.
    #[test]
    fn pattern_agrees_with_search(pattern in "(\\*\\*|[ab*?]{1,3})(/(\\*\\*|[ab*?]{1,3})){0,3}", name in "[ab]{1,3}(/[ab]{1,3}){0,3}") {
        fn chars(p: &[u8], s: &[u8]) -> bool {
            match (p.first(), s.first()) {
                (None, None) => true,
                (Some(b'*'), _) => chars(&p[1..], s) || !s.is_empty() && chars(p, &s[1..]),
                (Some(b'?'), Some(_)) => chars(&p[1..], &s[1..]),
                (Some(a), Some(b)) if a == b => chars(&p[1..], &s[1..]),
                _ => false,
            }
        }
        fn parts(p: &[&str], s: &[&str]) -> bool {
            match (p.first(), s.first()) {
                (None, None) => true,
                (Some(&"**"), _) => parts(&p[1..], s) || !s.is_empty() && parts(p, &s[1..]),
                (Some(a), Some(b)) => chars(a.as_bytes(), b.as_bytes()) && parts(&p[1..], &s[1..]),
                _ => false,
            }
        }
        if let (Ok(parsed), Ok(text)) = (pattern.parse::<StreamPattern>(), name.parse::<StreamName>()) {
            let (p, s): (Vec<_>, Vec<_>) = (pattern.split('/').collect(), name.split('/').collect());
            prop_assert_eq!(parsed.matches(&text), parts(&p, &s));
        }
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
