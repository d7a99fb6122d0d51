//! Proves that plaintext is seen wherever it hides, that sealed bytes are not taken for it, and that sentences are whole.

use thalweg_core::time::{Duration, Instant};

use super::{Secrecy, Violation, Violations};
use crate::traffic::payload;

#[test]
fn plaintext_is_seen_at_the_start_in_the_middle_and_at_the_end() {
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
fn a_violation_is_a_sentence_and_many_are_counted() {
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
