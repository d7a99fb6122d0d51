//! What a source concludes of the hop that it sends over, by marks: what is lost, and when that is known.

use alloc::vec;
use alloc::vec::Vec;

use super::super::past::Past;
use super::super::{Account, BANDS, Book, Counts, Place, What};
use super::{EPOCH, STREAM, at, band, node, report, statement};
use crate::adu::Mark;
use crate::time::{Duration, Instant};
use crate::wire::account::Report;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A source and what it has counted; the link to the next node has a round trip of 100 ms.
struct Sender {
    account: Account,
    counts: Counts,
}

impl Sender {
    fn new() -> Self {
        let mut account = Account::new(Place::Source(2), 1, at(0));
        account.handle_rtt(ms(100));
        let greeting = report(vec![statement(0, 1, &[])]);
        assert_eq!(account.handle_report(&greeting, at(0)), Ok(()));
        let counts = Counts::default();
        Self { account, counts }
    }

    /// So many leave with a mark; the account is told.
    fn send(&mut self, mark: Mark, adus: u64, millis: u64) {
        for _ in 0..adus {
            self.counts.arrive(mark, band(0));
            self.counts.send(mark, band(0));
            self.counts.leave(mark, band(0));
        }
        self.account.handle_counts(&self.counts, at(millis));
    }

    /// The next node says how many arrived with a mark, and which mark still comes.
    fn hear(&mut self, arrived: &[(Mark, u64)], open: Mark, millis: u64) {
        let arrived = arrived
            .iter()
            .map(|(mark, count)| (What::Arrived(*mark), *count));
        let said = Report {
            open,
            ..report(vec![statement(0, 1, &arrived.collect::<Vec<_>>())])
        };
        self.account.handle_counts(&self.counts, at(millis));
        assert_eq!(self.account.handle_report(&said, at(millis)), Ok(()));
    }

    /// Time passes; the account is called when it wants to be.
    fn pass(&mut self, until_ms: u64) {
        while self.account.poll_timeout() <= at(until_ms) {
            let now = self.account.poll_timeout();
            self.account.handle_counts(&self.counts, now);
            self.account.handle_timeout(now);
            assert!(self.account.poll_timeout() > now, "it is called once");
        }
    }

    fn lost(&self) -> u64 {
        let plans = core::iter::once((&self.account, &[][..]));
        Book::default().reading(node(0), plans).lost()
    }
}

#[test]
fn a_report_condemns_what_had_left_long_enough_and_nothing_younger() {
    let [first, ..] = marks();
    // 5/4 · 100 ms + 25 ms.
    for (late, condemned) in [(149, 0), (150, 1)] {
        let mut sender = Sender::new();
        sender.send(first, 1, 1_000);
        sender.hear(&[], Mark::NONE, 1_000 + late);
        assert_eq!(sender.lost(), condemned, "after {late} ms");
    }
}

/// The three marks.
fn marks() -> [Mark; 3] {
    [1, 2, 3].map(Mark::from_index)
}

#[test]
fn what_comes_hides_what_was_lost_with_its_own_mark_only() {
    let [first, second, _] = marks();
    let mut sender = Sender::new();
    sender.send(first, 10, 1_000);
    // Of ten one was lost; then ten leave of which all came, the last of them right before the report.
    sender.send(first, 10, 1_190);
    sender.hear(&[(first, 19)], Mark::NONE, 1_200);
    assert_eq!(sender.lost(), 0, "it may be one of the last");
    let mut sender = Sender::new();
    sender.send(first, 10, 1_000);
    sender.send(second, 10, 1_190);
    sender.hear(&[(first, 9), (second, 10)], Mark::NONE, 1_200);
    assert_eq!(sender.lost(), 1);
}

#[test]
fn nothing_is_concluded_of_the_mark_that_a_report_leaves_out() {
    let [first, second, _] = marks();
    let mut sender = Sender::new();
    sender.send(first, 10, 1_000);
    sender.send(second, 10, 1_600);
    sender.hear(&[(first, 9)], second, 1_900);
    assert_eq!(sender.lost(), 1, "of the first");
    sender.hear(&[(first, 9)], Mark::NONE, 1_901);
    assert_eq!(sender.lost(), 11, "it says that none of the second came");
    sender.hear(&[(second, 10)], Mark::NONE, 1_902);
    assert_eq!(sender.lost(), 1, "and takes it back");
}

#[test]
fn a_mark_that_comes_again_adds_to_what_it_was() {
    let mut sender = Sender::new();
    let mut arrived = [0; 4];
    for period in 1..10_u64 {
        let mark = Mark::at(at(period * 600));
        sender.send(mark, 10, period * 600);
        arrived[mark.index()] += 9;
        sender.hear(
            &[(mark, arrived[mark.index()])],
            Mark::NONE,
            period * 600 + 300,
        );
        assert_eq!(sender.lost(), period);
    }
}

#[test]
fn without_a_report_one_is_waited_for_as_long_as_it_may_take() {
    let [first, ..] = marks();
    // 880 ms until it is made, 100 ms on the way, and 150 ms for what it tells of.
    let mut sender = Sender::new();
    sender.send(first, 1, 1_000);
    sender.pass(2_129);
    assert_eq!(sender.lost(), 0);
    sender.pass(2_130);
    assert_eq!(sender.lost(), 1);
    assert_eq!(
        sender.account.poll_timeout(),
        Instant::NEVER,
        "all is known"
    );
    // It came after all, and is not counted twice.
    sender.hear(&[(first, 1)], Mark::NONE, 2_500);
    assert_eq!(sender.lost(), 0);
    sender.pass(9_000);
    assert_eq!(sender.lost(), 0);
}

#[test]
fn what_is_acknowledged_may_wait_to_be_read() {
    let mut sender = Sender::new();
    sender.send(Mark::NONE, 1, 1_000);
    sender.hear(&[], Mark::NONE, 1_900);
    assert_eq!(sender.lost(), 0);
    sender.pass(3_500);
    assert_eq!(sender.lost(), 1, "but not for ever");
}

#[test]
fn a_high_round_trip_is_remembered_for_a_while() {
    let [first, ..] = marks();
    for (late, condemned) in [(139, 0), (141, 1)] {
        let mut sender = Sender::new();
        // An eighth of the difference is forgotten: 92.5 ms count, and 5/4 of them and 25 ms are 140.6 ms.
        sender.account.handle_rtt(ms(40));
        sender.send(first, 1, 1_000);
        sender.hear(&[], Mark::NONE, 1_000 + late);
        assert_eq!(sender.lost(), condemned, "after {late} ms");
    }
}

#[test]
fn samples_of_the_past_are_few_and_never_say_too_much() {
    for reach_ms in [50, 200, 800, 2_500] {
        let mut past = Past::default();
        for millis in 1..20_000 {
            // One leaves each millisecond.
            past.note(at(millis), &[[millis; BANDS]; Mark::COUNT], ms(reach_ms));
            assert!(past.len() <= 11, "{} samples", past.len());
            let then = millis.saturating_sub(reach_ms);
            let known = past.by(at(then))[1][0];
            let slack = 20.max(reach_ms / 8) + 1;
            assert!(known <= then && known + slack >= then, "{known} at {then}");
        }
    }
}

#[test]
fn a_sink_speaks_when_a_mark_ends_and_of_that_alone() {
    let [first, second, _] = marks();
    let mut sink = Account::new(Place::Sink, 1, at(0));
    let mut counts = Counts::default();
    let mut said = |counts: &Counts, millis: u64| {
        sink.handle_counts(counts, at(millis));
        let report = sink.poll_report(STREAM, EPOCH, at(millis));
        let next = sink.poll_timeout();
        report.map(|report| {
            let entries = report.statements[0].entries.iter();
            let whats: Vec<What> = entries
                .filter_map(|entry| Some(What::from_number(entry.what)?.0))
                .collect();
            (report.open, whats, next)
        })
    };
    assert!(said(&counts, 0).is_some(), "it counts");
    counts.arrive(first, band(0));
    assert_eq!(said(&counts, 10), None);
    assert_eq!(said(&counts, 90), None, "the first still comes");
    counts.arrive(second, band(0));
    assert_eq!(
        said(&counts, 610),
        None,
        "what bears the first may still come"
    );
    // 80 ms after the second was seen; that is told when a pause shows it to be over, at the latest.
    let told = Some((second, vec![What::Arrived(first)], at(610 + 730)));
    assert_eq!(said(&counts, 690), told);
    let told = Some((Mark::NONE, vec![What::Arrived(second)], Instant::NEVER));
    assert_eq!(said(&counts, 610 + 730), told);
}
