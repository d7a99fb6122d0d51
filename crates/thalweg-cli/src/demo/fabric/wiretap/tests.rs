//! Proves what counts as sealed.

use super::*;

fn tap(crossings: &[(bool, u64, u64)]) -> bool {
    let crossings = crossings
        .iter()
        .map(|&(requires_sealing, sealed, plain)| Crossing {
            requires_sealing,
            sealed,
            plain,
        });
    Wiretap {
        crossings: crossings.collect(),
    }
    .all_sealed()
}

#[test]
fn one_plain_payload_is_not_sealed() {
    assert!(tap(&[(true, 9, 0), (false, 0, 9)]));
    assert!(!tap(&[(true, 9, 1), (false, 0, 9)]));
    assert!(!tap(&[(true, 9, 0), (true, 0, 9)]));
    assert!(
        tap(&[(true, 0, 0), (false, 0, 9)]),
        "the insecure way was not taken"
    );
}

#[test]
fn nothing_sent_proves_nothing() {
    assert!(!tap(&[(true, 0, 0)]));
    assert!(!tap(&[]));
}
