//! Proves that no ADU is counted twice when a node is killed with unreported counters and
//! restarted.

use super::*;

/// Sends ADUs that arrive, then kills a node before it has reported them.
fn kill(chain: &mut Chain, mark: Mark, adus: u64, killed: usize) {
    for _ in 0..adus {
        chain.carry_with(mark, band(0), Fate::Delivered);
    }
    let since = chain.now.as_nanos() + 2;
    chain.restart(killed, since);
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
fn killed_node_forwarded_adus_are_delivered() {
    for mark in [Mark::NONE, Mark::from_index(1)] {
        for (nodes, killed) in [(3, 1), (4, 1), (4, 2)] {
            let mut chain = Chain::new(nodes);
            chain.carry_with(mark, band(0), Fate::Delivered);
            chain.pass(Duration::from_secs(3));
            kill(&mut chain, mark, 7, killed);
            chain.pass(Duration::from_secs(10));
            assert_eq!(sums(&chain), [8, 8, 0, 0], "{mark:?}, {killed} of {nodes}");
        }
    }
}

#[test]
fn killed_node_kept_adus_are_lost_upstream() {
    let mut chain = Chain::new(3);
    chain.carry(band(0), Fate::Vanished(1));
    chain.carry(band(0), Fate::Vanished(0));
    chain.pass(Duration::from_secs(5));
    kill(&mut chain, Mark::NONE, 4, 1);
    for _ in 0..3 {
        chain.counts[0].arrive(Mark::NONE, band(0));
        chain.counts[0].send(Mark::NONE, band(0));
        chain.counts[0].leave(Mark::NONE, band(0));
    }
    chain.pass(Duration::from_secs(10));
    assert_eq!(sums(&chain), [9, 4, 5, 0]);
    let expected = [
        (0, DropCause::PathLost, 0, 4),
        (1, DropCause::PathLost, 0, 1),
    ];
    assert_eq!(losses(&chain.reading()), expected);
}

#[test]
fn take_back_charges_path_lost_first() {
    let mut chain = Chain::new(3);
    chain.carry(band(0), Fate::Failed(0, DropCause::Expired));
    chain.carry(band(0), Fate::GivenUp(2, DropCause::Overflow));
    chain.pass(Duration::from_secs(5));
    kill(&mut chain, Mark::NONE, 6, 1);
    chain.pass(Duration::from_secs(10));
    assert_eq!(sums(&chain), [8, 6, 2, 0]);
    let expected = [
        (0, DropCause::Expired, 0, 1),
        (2, DropCause::Overflow, 0, 1),
    ];
    assert_eq!(losses(&chain.reading()), expected);
}

#[test]
fn restarts_never_end_more_than_given() {
    let mut chain = Chain::new(3);
    for step in 0..100_u64 {
        chain.carry_with(Mark::NONE, band(0), Fate::Delivered);
        if step % 20 == 10 {
            kill(&mut chain, Mark::NONE, 3, 1);
        }
        chain.pass(Duration::from_millis(100));
        let [given, delivered, lost, open] = sums(&chain);
        assert_eq!(given, delivered + lost + open);
    }
    chain.pass(Duration::from_secs(10));
    assert_eq!(sums(&chain), [115, 115, 0, 0]);
}

#[test]
fn closed_plan_omits_double_counts() {
    let mut chain = Chain::new(3);
    chain.carry_with(Mark::NONE, band(0), Fate::Delivered);
    chain.pass(Duration::from_secs(3));
    kill(&mut chain, Mark::NONE, 7, 1);
    chain.pass(Duration::from_secs(10));
    let path: Vec<NodeId> = (0..3).map(node).collect();
    let mut book = Book::default();
    book.close(&chain.accounts[0], &path);
    let reading = book.reading(node(0), core::iter::empty());
    assert_eq!(reading, chain.reading());
    assert_eq!((reading.delivered, reading.lost()), (8, 0));
}

#[test]
fn own_drop_is_never_taken_back() {
    let mut chain = Chain::new(2);
    chain.carry(band(0), Fate::GivenUp(0, DropCause::Filtered));
    chain.carry(band(0), Fate::Vanished(0));
    chain.pass(Duration::from_secs(5));
    // Only one was sent, so no more can have arrived; but two are reported as delivered.
    let liar = report(vec![statement(0, 1, &[(What::Delivered, 2)])]);
    chain.deliver(1, &liar);
    let account = &chain.accounts[0];
    let reading = Book::default().reading(node(0), [(account, &[node(0)][..])].into_iter());
    let expected = [(0, DropCause::Filtered, 0, 1)];
    assert_eq!(losses(&reading), expected);
}

#[test]
fn graft_counts_unreported_copies_as_given() {
    let mut source = Account::new(Place::Graft(3), 1, Instant::ZERO);
    let downstream_report = |since, arrived, delivered| {
        let caster = statement(0, since, &[(What::Arrived(Mark::NONE), arrived)]);
        let sink = statement(1, 1, &[(What::Delivered, delivered)]);
        report(vec![caster, sink])
    };
    for (since, arrived, delivered, given) in [(1, 4, 4, 4), (2, 1, 9, 9), (2, 6, 9, 10)] {
        let result =
            source.handle_report(&downstream_report(since, arrived, delivered), Instant::ZERO);
        assert_eq!(result, Ok(()));
        let path = [node(0), node(1), node(2)];
        let reading = Book::default().reading(node(0), [(&source, &path[..])].into_iter());
        assert_eq!((reading.given, reading.delivered), (given, delivered));
    }
}

proptest! {
    /// For any killed node and any time: all deliveries are known, and no ADU is counted twice.
    /// ADUs that a node had reported as arrived may be missing if their fate was lost with it.
    #[test]
    fn kill_never_counts_adu_twice(
        adus in vec_of((fates(), any::<u8>(), 0..400_u64, 0..12_usize), 1..60),
    ) {
        let mut chain = Chain::new(4);
        let mut delivered = 0;
        for (fate, importance, wait, killed) in &adus {
            chain.carry(band(*importance), *fate);
            delivered += u64::from(matches!(fate, Fate::Delivered | Fate::Doubted(_)));
            if [1, 2].contains(killed) {
                let since = chain.now.as_nanos() + 2;
                chain.restart(*killed, since);
            }
            chain.pass(Duration::from_millis(*wait));
            let [given, delivered, lost, open] = sums(&chain);
            prop_assert_eq!(given, delivered + lost + open);
        }
        chain.pass(Duration::from_secs(10));
        let [given, known, lost, open] = sums(&chain);
        prop_assert_eq!((given, known), (adus.len() as u64, delivered));
        prop_assert_eq!(given, delivered + lost + open);
    }
}
