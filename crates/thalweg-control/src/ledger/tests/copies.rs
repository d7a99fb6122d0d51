//! Proves that for a grafted plan the sums hold while the copying node has unreported copies, and
//! that the source knows when it has none.

use super::*;

/// How often a publisher checks for its end.
const LOOK: Duration = Duration::from_millis(25);

/// Returns a source, a copying node, and the nodes downstream of that.
fn grafted(nodes: usize) -> Chain {
    let mut chain = Chain::new(nodes);
    chain.accounts[0] = Account::new(Place::Graft(nodes), 0, chain.now);
    chain
}

fn pass_by(chain: &mut Chain, time: Duration) {
    chain.now = chain.now + time;
    chain.settle();
}

/// Checks the sums; returns the ADUs given, delivered, lost and open.
fn sums(chain: &Chain) -> [u64; 4] {
    let reading = chain.reading();
    let (given, delivered, lost) = (reading.given, reading.delivered, reading.lost());
    assert_eq!(given, delivered + lost + reading.open());
    let copied: u64 = Band::all().map(|band| chain.counts[1].arrived(band)).sum();
    assert!(given <= copied, "{given} of {copied}");
    [given, delivered, lost, reading.open()]
}

/// Carries `adus` ADUs, 25 a second, in cycling bands; checks the sums after each.
fn stream(chain: &mut Chain, adus: usize, fates: &[Fate]) {
    for (fate, importance) in fates
        .iter()
        .cycle()
        .zip((0..=255).cycle().step_by(90))
        .take(adus)
    {
        chain.carry(band(importance), *fate);
        pass_by(chain, Duration::from_millis(40));
        sums(chain);
    }
}

/// Ends the stream; returns the sums as soon as a publisher takes them as final, and how long that
/// took.
fn end(chain: &mut Chain) -> ([u64; 4], Duration) {
    let began = chain.now;
    assert!(!chain.accounts[0].knows_given());
    chain.counts[1].is_end_copied = true;
    let last = chain.accounts.len() - 1;
    let now = chain.now;
    chain.collect_reports();
    chain.accounts[last].handle_end(now);
    loop {
        chain.settle();
        let [given, delivered, lost, open] = sums(chain);
        if chain.accounts[0].knows_given() && open == 0 {
            let took = chain.now.saturating_since(began);
            return ([given, delivered, lost, open], took);
        }
        assert!(chain.now < began + Duration::from_secs(10));
        chain.now = chain.now + LOOK;
    }
}

#[test]
fn downstream_report_raises_given() {
    let mut source = Account::new(Place::Graft(3), 0, Instant::ZERO);
    let lost = |cause| What::Dropped(cause);
    let mut sums = |caster: &[(What, u64)], sink: &[(What, u64)]| {
        let report = report(vec![statement(0, 1, caster), statement(1, 1, sink)]);
        assert_eq!(source.handle_report(&report, Instant::ZERO), Ok(()));
        let path = [node(0), node(1), node(2)];
        let reading = Book::default().reading(node(0), [(&source, &path[..])].into_iter());
        assert_eq!(source.is_open(), reading.open() > 0);
        let (given, delivered) = (reading.given, reading.delivered);
        [given, delivered, reading.lost(), reading.open()]
    };
    let arrived = What::Arrived(Mark::from_index(1));
    let (overflow, expired) = (lost(DropCause::Overflow), lost(DropCause::Expired));
    let known = sums(&[(arrived, 3)], &[(What::Delivered, 5), (overflow, 1)]);
    assert_eq!(known, [6, 5, 1, 0], "the open mark is left out");
    let known = sums(&[(expired, 2)], &[]);
    assert_eq!(known, [6, 5, 1, 0], "depends on a link's word");
    let known = sums(&[(arrived, 9)], &[]);
    assert_eq!(known, [9, 5, 3, 1]);
}

#[test]
fn ended_stream_has_final_sums() {
    let healthy = [Fate::Delivered];
    let losing = [
        Fate::Delivered,
        Fate::GivenUp(1, DropCause::Filtered),
        Fate::Delivered,
        Fate::Failed(1, DropCause::Expired),
        Fate::Vanished(1),
        Fate::GivenUp(2, DropCause::Overflow),
    ];
    for adus in [0, 1, 4, 12, 24, 30, 48, 90, 102] {
        let mut chain = grafted(3);
        stream(&mut chain, adus, &healthy);
        let (known, took) = end(&mut chain);
        assert_eq!(known, [adus as u64, adus as u64, 0, 0]);
        assert!(took <= SETTLE + LOOK, "{adus} ADUs: {took:?}");
        let mut chain = grafted(4);
        stream(&mut chain, adus, &losing);
        let (known, _) = end(&mut chain);
        let delivered = (0..adus)
            .filter(|at| [0, 2].contains(&(at % losing.len())))
            .count() as u64;
        assert_eq!(known, [adus as u64, delivered, adus as u64 - delivered, 0]);
    }
}

#[test]
fn adu_overtaken_by_end_is_counted() {
    let mut chain = grafted(3);
    stream(&mut chain, 9, &[Fate::Delivered]);
    chain.counts[1].is_end_copied = true;
    chain.collect_reports();
    let now = chain.now;
    chain.accounts[2].handle_end(now);
    chain.settle();
    pass_by(&mut chain, LOOK);
    assert!(!chain.accounts[0].knows_given());
    chain.carry(band(0), Fate::Delivered);
    pass_by(&mut chain, SETTLE);
    assert!(chain.accounts[0].knows_given());
    let given = chain.reading().given;
    assert_eq!(given, 10, "unreported ones are open");
    chain.pass(Duration::from_secs(1));
    assert_eq!(sums(&chain), [10, 10, 0, 0]);
}

#[test]
fn killed_node_adus_are_given_once() {
    let mut chain = grafted(4);
    stream(&mut chain, 40, &[Fate::Delivered]);
    chain.pass(Duration::from_secs(2));
    for _ in 0..7 {
        chain.carry(band(0), Fate::Delivered);
    }
    let since = chain.now.as_nanos() + 2;
    chain.restart(2, since);
    chain.pass(Duration::from_secs(10));
    assert_eq!(sums(&chain), [47, 47, 0, 0]);
}

#[test]
fn ungrafted_source_knows_given() {
    let chain = Chain::new(3);
    assert!(chain.accounts[0].knows_given());
    assert!(!grafted(3).accounts[0].knows_given());
}
