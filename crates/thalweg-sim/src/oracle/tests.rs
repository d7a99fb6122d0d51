//! Proves that plaintext is found in every form, that sealed bytes are not mistaken for it, that
//! sentences are complete, and that a ledger that differs from the truth is detected.

use std::collections::BTreeMap;

use thalweg_base::adu::Importance;
use thalweg_base::event::DropCause;
use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Instant};
use thalweg_control::ledger::{Band, Loss, Reading};

use super::ledger::Truth;
use super::{Secrecy, Violation, Violations};
use crate::traffic::payload;

#[test]
fn plaintext_is_found_anywhere() {
    let secret = payload(1, 2, 1_000, 1.0);
    let other = payload(1, 3, 1_000, 1.0);
    assert!(Secrecy::is_broken(&secret, &secret));
    assert!(!Secrecy::is_broken(&secret, &other));
    for cut in [0..8, 496..504, 992..1_000] {
        let leak = [&other[..100], &secret[cut.clone()], &other[100..]].concat();
        assert!(Secrecy::is_broken(&secret, &leak), "{cut:?}");
    }
    assert!(Secrecy::is_broken(&secret[..5], &secret[..5]));
    assert!(!Secrecy::is_broken(&secret[..3], &secret[..3]));
}

#[test]
fn violations_are_sentences_and_counted() {
    let violation = Violation {
        time: Instant::ZERO + Duration::from_millis(1_500),
        node: "relay".parse().expect("a name"),
        stream: Some("cam".parse().expect("a name")),
        sequence: Some(7),
        what: "it was delivered twice".into(),
    };
    let sentence = "at 1.500000 s on relay, stream `cam`, sequence 7: it was delivered twice";
    assert_eq!(violation.to_string(), sentence);
    let mut violations = Violations::default();
    for _ in 0..100 {
        violations.add(violation.clone());
    }
    assert_eq!(violations.total(), 100);
    assert_eq!(
        violations.sentences().last().map(String::as_str),
        Some("and 36 more violations")
    );
}

#[test]
fn ledger_compared_by_node_cause_band() {
    let band = |importance| Band::of(Importance(importance));
    let truth = Truth {
        delivered: 5,
        lost: [
            ((1, DropCause::Expired, band(0)), 2),
            ((1, DropCause::Filtered, band(0)), 1),
        ]
        .into(),
        returned: [((1, band(0)), 1)].into(),
    };
    let loss = |node: u8, cause, importance, adus| Loss {
        node: Some(NodeId([node; 32])),
        cause,
        band: band(importance),
        adus,
    };
    let compare = |delivered, losses: &[Loss]| {
        let reading = Reading {
            given: 8,
            delivered,
            losses: losses.to_vec(),
        };
        let place = |loss: &Loss| loss.node.map_or(usize::MAX, |node| usize::from(node.0[0]));
        truth.compare(&reading, place).is_none()
    };
    let expired = loss(1, DropCause::Expired, 31, 2);
    let filtered = loss(1, DropCause::Filtered, 0, 1);
    assert!(compare(5, &[expired, filtered]));
    let lost = loss(1, DropCause::PathLost, 0, 1);
    let one = loss(1, DropCause::Expired, 0, 1);
    assert!(compare(5, &[lost, one, filtered]), "a link's word");
    let dependant = |adus| loss(1, DropCause::Dependant, 0, adus);
    assert!(compare(5, &[one, filtered, dependant(1)]), "one came back");
    let none = loss(1, DropCause::Expired, 0, 0);
    assert!(!compare(5, &[none, filtered, dependant(2)]), "not two");
    let unplanned = loss(0, DropCause::NoSubscriber, 0, 9);
    assert!(compare(5, &[expired, filtered, unplanned]), "of no plan");
    assert!(!compare(4, &[expired, filtered]), "delivered");
    assert!(!compare(5, &[expired]), "not told");
    assert!(!compare(5, &[one, filtered]), "too few");
    assert!(
        !compare(5, &[loss(2, DropCause::Expired, 0, 2), filtered]),
        "elsewhere"
    );
    assert!(
        !compare(5, &[loss(1, DropCause::Expired, 32, 2), filtered]),
        "another band"
    );
    assert!(
        !compare(5, &[expired, loss(1, DropCause::Overflow, 0, 1)]),
        "another cause"
    );
}

#[test]
fn resent_losses_have_upper_bound() {
    let band = Band::of(Importance(0));
    let truth = Truth {
        delivered: 5,
        lost: [((1, DropCause::Expired, band), 2)].into(),
        returned: BTreeMap::new(),
    };
    let compare = |given, delivered, cause, adus| {
        let loss = Loss {
            node: Some(NodeId([0; 32])),
            cause,
            band,
            adus,
        };
        let losses = vec![loss];
        let reading = Reading {
            given,
            delivered,
            losses,
        };
        truth.compare_resent(&reading).is_none()
    };
    let lost = DropCause::PathLost;
    assert!(compare(7, 5, lost, 2), "elsewhere and otherwise");
    assert!(compare(5, 5, lost, 0), "all of it was sent again");
    assert!(compare(7, 5, lost, 1), "one is open");
    assert!(!compare(8, 5, lost, 3), "one too many is lost");
    assert!(!compare(8, 5, lost, 1), "or open");
    assert!(!compare(7, 4, lost, 2), "delivered");
    assert!(!compare(8, 6, lost, 2), "not delivered");
    assert!(compare(8, 5, DropCause::NoSubscriber, 3), "of no plan");
    assert!(compare(5, 4, DropCause::Duplicate, 1), "it had come before");
    assert!(!compare(5, 3, DropCause::Duplicate, 1), "one of two had");
}
