//! Proves what a source concludes by marks about its own hop: which ADUs are lost, and when it
//! knows.

use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::adu::Mark;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::account::{Made, Report};

use super::super::past::History;
use super::super::{Account, BANDS, Book, Counts, Place, What};
use super::{EPOCH, STREAM, at, band, node, report, statement};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A source and its counts; the link to the next node has a round trip of 100 ms.
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

    /// Sends `adus` ADUs with a mark and updates the account.
    fn send(&mut self, mark: Mark, adus: u64, millis: u64) {
        for _ in 0..adus {
            self.counts.arrive(mark, band(0));
            self.counts.send(mark, band(0));
            self.counts.leave(mark, band(0));
        }
        self.account.handle_counts(&self.counts, at(millis));
    }

    /// Handles a report with arrivals by mark and the mark left open.
    fn hear(&mut self, arrived: &[(Mark, u64)], open: Mark, millis: u64) {
        let arrived = arrived
            .iter()
            .map(|(mark, count)| (What::Arrived(*mark), *count));
        let report = Report {
            open,
            made: Made::at(at(millis)),
            ..report(vec![statement(0, 1, &arrived.collect::<Vec<_>>())])
        };
        self.account.handle_counts(&self.counts, at(millis));
        assert_eq!(self.account.handle_report(&report, at(millis)), Ok(()));
    }

    /// Lets time pass; the account is called when it asks for it.
    fn pass(&mut self, until_ms: u64) {
        while self.account.poll_timeout() <= at(until_ms) {
            let now = self.account.poll_timeout();
            self.account.handle_counts(&self.counts, now);
            self.account.handle_timeout(now);
            assert!(self.account.poll_timeout() > now, "one call per timeout");
        }
    }

    fn lost(&self) -> u64 {
        let plans = core::iter::once((&self.account, &[][..]));
        Book::default().reading(node(0), plans).lost()
    }
}

#[test]
fn report_judges_only_old_enough_adus() {
    let [first, ..] = marks();
    // 5/4 · 100 ms + 25 ms.
    for (late, expected) in [(149, 0), (150, 1)] {
        let mut sender = Sender::new();
        sender.send(first, 1, 1_000);
        sender.hear(&[], Mark::NONE, 1_000 + late);
        assert_eq!(sender.lost(), expected, "after {late} ms");
    }
}

/// The three marks.
fn marks() -> [Mark; 3] {
    [1, 2, 3].map(Mark::from_index)
}

#[test]
fn arrivals_hide_losses_of_own_mark_only() {
    let [first, second, _] = marks();
    let mut sender = Sender::new();
    sender.send(first, 10, 1_000);
    // One of ten was lost; then ten leave and all arrive, the last right before the report.
    sender.send(first, 10, 1_190);
    sender.hear(&[(first, 19)], Mark::NONE, 1_200);
    assert_eq!(sender.lost(), 0, "may be one of the last");
    let mut sender = Sender::new();
    sender.send(first, 10, 1_000);
    sender.send(second, 10, 1_190);
    sender.hear(&[(first, 9), (second, 10)], Mark::NONE, 1_200);
    assert_eq!(sender.lost(), 1);
}

#[test]
fn open_mark_is_not_judged() {
    let [first, second, _] = marks();
    let mut sender = Sender::new();
    sender.send(first, 10, 1_000);
    sender.send(second, 10, 1_600);
    sender.hear(&[(first, 9)], second, 1_900);
    assert_eq!(sender.lost(), 1, "of the first mark");
    sender.hear(&[(first, 9)], Mark::NONE, 1_901);
    assert_eq!(sender.lost(), 11, "none of the second arrived");
    sender.hear(&[(second, 10)], Mark::NONE, 1_902);
    assert_eq!(sender.lost(), 1, "taken back");
}

#[test]
fn reused_mark_accumulates() {
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
fn missing_report_is_awaited_for_its_longest_time() {
    let [first, ..] = marks();
    // 650 ms until it is made, 100 ms of transit, and 150 ms for the age of its content.
    let mut sender = Sender::new();
    sender.send(first, 1, 1_000);
    sender.pass(1_899);
    assert_eq!(sender.lost(), 0);
    sender.pass(1_900);
    assert_eq!(sender.lost(), 1);
    assert_eq!(
        sender.account.poll_timeout(),
        Instant::NEVER,
        "nothing is open"
    );
    // It did arrive, and is not counted twice.
    sender.hear(&[(first, 1)], Mark::NONE, 2_500);
    assert_eq!(sender.lost(), 0);
    sender.pass(9_000);
    assert_eq!(sender.lost(), 0);
}

#[test]
fn acknowledged_adu_may_wait_unread() {
    let mut sender = Sender::new();
    sender.send(Mark::NONE, 1, 1_000);
    sender.hear(&[], Mark::NONE, 1_900);
    assert_eq!(sender.lost(), 0);
    sender.pass(3_500);
    assert_eq!(sender.lost(), 1, "lost in the end");
}

#[test]
fn high_round_trip_decays_slowly() {
    let [first, ..] = marks();
    for (late, expected) in [(139, 0), (141, 1)] {
        let mut sender = Sender::new();
        // An eighth of the difference decays: 92.5 ms count, and 5/4 of that plus 25 ms is 140.6
        // ms.
        sender.account.handle_rtt(ms(40));
        sender.send(first, 1, 1_000);
        sender.hear(&[], Mark::NONE, 1_000 + late);
        assert_eq!(sender.lost(), expected, "after {late} ms");
    }
}

#[test]
fn past_samples_are_few_and_never_exceed_truth() {
    for reach_ms in [50, 200, 800, 2_500] {
        let mut past = History::new(8);
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

/// A sink and its counts.
struct Sink {
    account: Account,
    counts: Counts,
    /// Reports: time in ms, open mark, counters.
    reports: Vec<(u64, Mark, Vec<What>)>,
}

impl Sink {
    fn new() -> Self {
        let mut sink = Self {
            account: Account::new(Place::Sink, 1, at(0)),
            counts: Counts::default(),
            reports: Vec::new(),
        };
        sink.pass(0);
        assert_eq!(sink.reports, [(0, Mark::NONE, vec![])], "the greeting");
        sink.reports.clear();
        sink
    }

    /// Handles the arrival of an ADU with a mark.
    fn come(&mut self, mark: Mark, millis: u64) {
        self.pass(millis);
        self.counts.arrive(mark, band(0));
        self.account.handle_counts(&self.counts, at(millis));
    }

    /// Lets time pass; the account is called when it asks for it.
    fn pass(&mut self, until_ms: u64) {
        while self.account.poll_timeout() <= at(until_ms) {
            let now = self.account.poll_timeout();
            self.account.handle_counts(&self.counts, now);
            self.account.handle_timeout(now);
            if let Some(report) = self.account.poll_report(STREAM, EPOCH, now) {
                assert_eq!(report.made, Made::at(now));
                let entries = report.statements[0].entries.iter();
                let whats = entries.filter_map(|entry| Some(What::from_number(entry.what)?.0));
                let summary = (now.as_nanos() / 1_000_000, report.open, whats.collect());
                self.reports.push(summary);
            }
            assert!(self.account.poll_timeout() > now, "one call per timeout");
        }
    }
}

#[test]
fn sink_reports_at_mark_end_and_pause() {
    let [first, second, _] = marks();
    let mut sink = Sink::new();
    for millis in [10, 200, 400, 590] {
        sink.come(first, millis);
    }
    sink.come(second, 610);
    sink.pass(3_000);
    let expected = [
        // A pause was reported: its end is reported soon, without counters, because the first mark
        // is open.
        (90, first, vec![]),
        // 80 ms after the second mark was seen.
        (690, second, vec![What::Arrived(first)]),
        // None arrived for 250 ms, and the last report is 500 ms old.
        (1_190, Mark::NONE, vec![What::Arrived(second)]),
    ];
    assert_eq!(sink.reports, expected);
    assert_eq!(sink.account.poll_timeout(), Instant::NEVER);
}

#[test]
fn sparse_sink_reports_at_most_8_times_in_3_s() {
    for apart_ms in (100..1_100).step_by(20) {
        let mut sink = Sink::new();
        for number in 1..60_000 / apart_ms {
            let millis = number * apart_ms;
            sink.come(Mark::at(at(millis)), millis);
        }
        let count = sink.reports.len();
        assert!(count <= 160, "{count} in a minute, {apart_ms} ms apart");
    }
}

#[test]
fn retransmitted_report_judges_nothing_newer() {
    let [first, ..] = marks();
    let mut sender = Sender::new();
    let repeated = |arrived: u64, made_ms: u64| Report {
        made: Made::at(at(made_ms)),
        ..report(vec![statement(0, 1, &[(What::Arrived(first), arrived)])])
    };
    sender.send(first, 1, 1_000);
    sender.account.handle_counts(&sender.counts, at(1_250));
    let result = sender.account.handle_report(&repeated(1, 1_200), at(1_250));
    assert_eq!((result, sender.lost()), (Ok(()), 0));
    // Made at 1.3 s, before anything else arrived, and received 400 ms late.
    sender.send(first, 1, 1_400);
    sender.account.handle_counts(&sender.counts, at(1_750));
    let result = sender.account.handle_report(&repeated(1, 1_300), at(1_750));
    assert_eq!(
        (result, sender.lost()),
        (Ok(()), 0),
        "may have arrived since"
    );
    // The same report in time.
    sender.account.handle_counts(&sender.counts, at(1_760));
    let result = sender.account.handle_report(&repeated(1, 1_710), at(1_760));
    assert_eq!((result, sender.lost()), (Ok(()), 1));
}
