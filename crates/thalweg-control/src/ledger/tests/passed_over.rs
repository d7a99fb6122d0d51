//! Proves which reports explain what a sink lacks under an order-keeping plan.

use super::*;

/// Returns after how many receipts, a second apart, missing ADUs are blamed, and on which node.
fn blamed(chain: &mut Chain, missing: u64) -> Option<(u32, usize)> {
    (1..=3).find_map(|receipt| {
        chain.pass(Duration::from_secs(1));
        let last = chain.accounts[0].handle_missing(missing, chain.now);
        last.map(|last| (receipt, last))
    })
}

#[test]
fn reasoned_drop_explains_gap() {
    for (cause, is_explained) in [
        (DropCause::Overflow, true),
        (DropCause::Cancelled, true),
        // The sink had it before, by the previous path.
        (DropCause::Duplicate, false),
        // The plan filters it, so it does not count as missing.
        (DropCause::Filtered, false),
    ] {
        for at in 0..3 {
            let mut chain = Chain::new(3);
            chain.pass(Duration::from_secs(1));
            chain.carry(band(10), Fate::Delivered);
            chain.carry(band(10), Fate::GivenUp(at, cause));
            let expected = (!is_explained).then_some((2, 0));
            assert_eq!(blamed(&mut chain, 1), expected, "{cause:?} at {at}");
            assert_eq!(
                blamed(&mut chain, 2),
                Some((2, 0)),
                "{cause:?} and one more"
            );
        }
    }
}

#[test]
fn lost_adu_blames_link_before_sink() {
    let mut chain = Chain::new(4);
    chain.pass(Duration::from_secs(1));
    for _ in 0..10 {
        chain.carry(band(10), Fate::Delivered);
    }
    chain.carry(band(10), Fate::Vanished(1));
    chain.pass(EVERY + SLACK);
    assert_eq!(
        blamed(&mut chain, 1),
        Some((2, 1)),
        "the link before the sink"
    );
}
