//! Proves that on a broken path neither unreported deliveries nor ADUs given again count as lost.

use super::*;

/// Lets time pass while the nodes downstream of the source cannot report.
fn pass_alone(chain: &mut Chain, time: Duration) {
    let end = chain.now + time;
    while chain.now < end {
        chain.now = chain.now + Duration::from_millis(50);
        let source = &mut chain.accounts[0];
        source.handle_counts(&chain.counts[0], chain.now);
        source.handle_timeout(chain.now);
    }
}

/// Breaks the path after some ADUs were reported. Of the others `came` arrived, and `lost` were
/// lost after the first relay or left the source and stay in flight for ever.
fn broken(came: u64, lost: u64) -> Chain {
    let mut chain = Chain::new(3);
    for _ in 0..5 {
        chain.carry_with(Mark::NONE, band(0), Fate::Delivered);
    }
    chain.pass(Duration::from_secs(3));
    for _ in 0..came {
        chain.carry_with(Mark::NONE, band(0), Fate::Delivered);
    }
    for at in 0..lost {
        let node = usize::from(at % 2 == 0);
        chain.carry_with(Mark::NONE, band(0), Fate::Vanished(node));
    }
    // The sink's receipts confirm what was reported before.
    chain.counts[0].had[0] = 5;
    chain.accounts[0].handle_silence(true, chain.now);
    pass_alone(&mut chain, Duration::from_secs(5));
    chain
}

fn sums(chain: &Chain) -> [u64; 4] {
    let reading = chain.reading();
    [
        reading.given,
        reading.delivered,
        reading.lost(),
        reading.open(),
    ]
}

#[test]
fn receipt_counts_unreported_delivery() {
    let mut chain = broken(7, 0);
    let [given, delivered, ..] = sums(&chain);
    assert_eq!((given, delivered), (12, 5), "the others are unreported");
    chain.accounts[0].go_by_receipts();
    chain.counts[0].had[0] += 7;
    pass_alone(&mut chain, Duration::from_secs(1));
    assert_eq!(sums(&chain), [12, 12, 0, 0]);
}

#[test]
fn resent_adu_is_given_once() {
    let mut chain = broken(7, 6);
    chain.accounts[0].go_by_receipts();
    chain.counts[0].had[0] += 7;
    chain.counts[0].resent[0] += 4;
    pass_alone(&mut chain, Duration::from_secs(1));
    let [given, delivered, lost, open] = sums(&chain);
    assert_eq!((given, delivered), (14, 12));
    assert_eq!(lost + open, 2, "too late to be resent");
    // The sums stay the same when the plan ends.
    let path: Vec<NodeId> = (0..3).map(node).collect();
    let mut book = Book::default();
    book.close(&chain.accounts[0], &path);
    assert_eq!(book.reading(node(0), core::iter::empty()), chain.reading());
}

#[test]
fn resent_adu_that_arrived_is_given_twice() {
    let mut chain = broken(7, 0);
    chain.accounts[0].go_by_receipts();
    chain.counts[0].had[0] += 4;
    chain.counts[0].resent[0] += 3;
    pass_alone(&mut chain, Duration::from_secs(1));
    assert_eq!(sums(&chain), [9, 9, 0, 0]);
    // The path heals, and the missing counters are reported.
    chain.accounts[0].handle_silence(false, chain.now);
    chain.accounts[1].refresh(chain.now);
    chain.pass(Duration::from_secs(5));
    assert_eq!(sums(&chain), [12, 12, 0, 0]);
}

#[test]
fn receipted_adu_dropped_by_sink_is_not_delivered() {
    let mut chain = Chain::new(3);
    for fate in [
        Fate::Delivered,
        Fate::GivenUp(2, DropCause::Overflow),
        Fate::GivenUp(1, DropCause::Filtered),
    ] {
        chain.carry_with(Mark::NONE, band(0), fate);
    }
    chain.pass(Duration::from_secs(3));
    let before = chain.reading();
    chain.accounts[0].go_by_receipts();
    chain.counts[0].had[0] = 2;
    // A relay dropped the ADU that was given again, and that drop stands.
    chain.counts[0].resent[0] = 1;
    pass_alone(&mut chain, Duration::from_secs(1));
    assert_eq!(chain.reading(), before);
    assert_eq!((before.given, before.delivered), (3, 1));
}

#[test]
fn intact_path_ignores_receipts() {
    let mut chain = broken(7, 6);
    let before = chain.reading();
    chain.counts[0].had[0] += 7;
    chain.counts[0].resent[0] += 4;
    pass_alone(&mut chain, Duration::from_secs(1));
    assert_eq!(chain.reading(), before);
}

proptest! {
    /// Whatever was reported before the break: all that arrived counts as delivered and no more,
    /// and ADUs given again are no loss.
    #[test]
    fn sums_hold_after_any_break(
        adus in vec_of((fates(), any::<u8>(), 0..400_u64), 1..60),
        at in any::<proptest::sample::Index>(),
        is_resent in any::<bool>(),
    ) {
        let mut chain = Chain::new(4);
        let at = at.index(adus.len());
        let (mut delivered, mut mended) = (0, 0);
        for (index, (fate, importance, wait)) in adus.iter().enumerate() {
            let fate = match fate {
                // An unreported drop by a node alone looks to the source like a loss on the path.
                Fate::GivenUp(_, cause) => Fate::Failed(2, *cause),
                fate => *fate,
            };
            let band = band(*importance);
            chain.carry(band, fate);
            if matches!(fate, Fate::Delivered | Fate::Doubted(_)) {
                delivered += 1;
                chain.counts[0].have(band);
            } else if is_resent && index > at && !matches!(fate, Fate::Failed(0, _)) {
                mended += 1;
                chain.counts[0].resend(band);
            }
            if index <= at {
                chain.pass(Duration::from_millis(*wait));
            }
        }
        chain.accounts[0].go_by_receipts();
        chain.accounts[0].handle_silence(true, chain.now);
        pass_alone(&mut chain, Duration::from_secs(10));
        let [given, known, lost, open] = sums(&chain);
        prop_assert_eq!(known, delivered);
        prop_assert_eq!(given, adus.len() as u64 - mended);
        prop_assert_eq!(given, known + lost + open);
    }
}
