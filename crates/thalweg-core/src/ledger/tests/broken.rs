//! Proves that of a plan whose way is broken neither what came and could not be told stands as lost, nor what was given again.

use super::*;

/// Lets time pass while the nodes behind the source have no way to tell anything.
fn pass_alone(chain: &mut Chain, time: Duration) {
    let end = chain.now + time;
    while chain.now < end {
        chain.now = chain.now + Duration::from_millis(50);
        let source = &mut chain.accounts[0];
        source.handle_counts(&chain.counts[0], chain.now);
        source.handle_timeout(chain.now);
    }
}

/// Breaks the way after some ADUs were told of and others were not: of these so many came, and the others were lost behind
/// the first relay, or left the source and are on their way for ever.
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
    // Of what was told before the sink has said the same.
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
fn what_a_sink_has_is_delivered_though_it_could_not_tell() {
    let mut chain = broken(7, 0);
    let [given, delivered, ..] = sums(&chain);
    assert_eq!(
        (given, delivered),
        (12, 5),
        "nobody could tell of the others"
    );
    chain.accounts[0].go_by_receipts();
    chain.counts[0].had[0] += 7;
    pass_alone(&mut chain, Duration::from_secs(1));
    assert_eq!(sums(&chain), [12, 12, 0, 0]);
}

#[test]
fn what_is_given_again_is_given_once() {
    let mut chain = broken(7, 6);
    chain.accounts[0].go_by_receipts();
    chain.counts[0].had[0] += 7;
    chain.counts[0].resent[0] += 4;
    pass_alone(&mut chain, Duration::from_secs(1));
    let [given, delivered, lost, open] = sums(&chain);
    assert_eq!((given, delivered), (14, 12));
    assert_eq!(lost + open, 2, "what was too late to be given again");
    // The sums stay what they are when the plan is over.
    let path: Vec<NodeId> = (0..3).map(node).collect();
    let mut book = Book::default();
    book.close(&chain.accounts[0], &path);
    assert_eq!(book.reading(node(0), core::iter::empty()), chain.reading());
}

#[test]
fn what_is_given_again_and_came_all_the_same_was_given_twice() {
    let mut chain = broken(7, 0);
    chain.accounts[0].go_by_receipts();
    chain.counts[0].had[0] += 4;
    chain.counts[0].resent[0] += 3;
    pass_alone(&mut chain, Duration::from_secs(1));
    assert_eq!(sums(&chain), [9, 9, 0, 0]);
    // The way heals, and what had not been told is told.
    chain.accounts[0].handle_silence(false, chain.now);
    chain.accounts[1].refresh(chain.now);
    chain.pass(Duration::from_secs(5));
    assert_eq!(sums(&chain), [12, 12, 0, 0]);
}

#[test]
fn what_a_sink_had_and_dropped_is_not_delivered() {
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
    // What a relay dropped was given again, and yet it was dropped.
    chain.counts[0].resent[0] = 1;
    pass_alone(&mut chain, Duration::from_secs(1));
    assert_eq!(chain.reading(), before);
    assert_eq!((before.given, before.delivered), (3, 1));
}

#[test]
fn while_the_way_is_whole_it_goes_by_what_nodes_tell() {
    let mut chain = broken(7, 6);
    let before = chain.reading();
    chain.counts[0].had[0] += 7;
    chain.counts[0].resent[0] += 4;
    pass_alone(&mut chain, Duration::from_secs(1));
    assert_eq!(chain.reading(), before);
}

proptest! {
    /// Whatever had been told when the way broke: all that came is delivered, no more than that, and what was given again is gone.
    #[test]
    fn the_sums_are_the_truth_after_a_break_whatever_had_been_told(
        adus in vec_of((fates(), any::<u8>(), 0..400_u64), 1..60),
        at in any::<proptest::sample::Index>(),
        is_resent in any::<bool>(),
    ) {
        let mut chain = Chain::new(4);
        let at = at.index(adus.len());
        let (mut delivered, mut mended) = (0, 0);
        for (index, (fate, importance, wait)) in adus.iter().enumerate() {
            let fate = match fate {
                // What a node drops alone, and tells nobody, is lost on the way for all that the source can know.
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
