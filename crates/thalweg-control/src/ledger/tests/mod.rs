//! Proves that the source's sums are true when reports are lost, repeated or overtaken and when
//! nodes restart, and how many bytes an account takes on the wire.
//!
//! *How.* A [`Chain`] of accounts on virtual time. The test decides each ADU's fate, so the truth
//! is known.

mod anew;
mod broken;
mod copies;
mod liars;
mod marks;
mod passed_over;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use proptest::collection::vec as vec_of;
use proptest::prelude::*;
use thalweg_base::adu::{Importance, Mark};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::limits::{LEDGER_BEHIND_MAX, PATH_NODES_MAX};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::account::{Entry, Made, Report, Statement};
use thalweg_base::wire::control::{self as wire, Message};

use super::pace::QUIET;
use super::{
    Account, BANDS, Band, Book, Counts, Disbelief, EVERY, Place, Reading, SETTLE, SLACK, What,
};

const STREAM: StreamId = StreamId(7);
const EPOCH: Epoch = Epoch(1);

/// An ADU's fate.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Delivered,
    /// Dropped by a node that has it completely, before sending or at its sink.
    GivenUp(usize, DropCause),
    /// Given up by a node while sending.
    Failed(usize, DropCause),
    /// Left a node and did not arrive at the next.
    Vanished(usize),
    /// Taken for lost by a node, but arrived at the next and then at the sink.
    Doubted(usize),
}

/// Nodes in a chain, the source first.
struct Chain {
    now: Instant,
    counts: Vec<Counts>,
    accounts: Vec<Account>,
    /// Reports in flight to the upstream node, by sender.
    reports: Vec<(usize, Report)>,
    sent: usize,
}

fn node(at: usize) -> NodeId {
    NodeId([at as u8; 32])
}

fn band(importance: u8) -> Band {
    Band::of(Importance(importance))
}

fn place(at: usize, nodes: usize) -> Place {
    match at {
        0 => Place::Source(nodes),
        at if at + 1 == nodes => Place::Sink,
        _ => Place::Relay,
    }
}

impl Chain {
    fn new(nodes: usize) -> Self {
        let now = Instant::ZERO;
        Self {
            now,
            counts: vec![Counts::default(); nodes],
            accounts: (0..nodes)
                .map(|at| Account::new(place(at, nodes), 1, now))
                .collect(),
            reports: Vec::new(),
            sent: 0,
        }
    }

    /// Carries a datagram.
    fn carry(&mut self, band: Band, fate: Fate) {
        self.carry_with(Mark::at(self.now), band, fate);
    }

    fn carry_with(&mut self, mark: Mark, band: Band, fate: Fate) {
        let last = self.counts.len() - 1;
        for (at, counts) in self.counts.iter_mut().enumerate() {
            counts.arrive(mark, band);
            match fate {
                Fate::GivenUp(node, cause) if node == at => return counts.give_up(band, cause),
                _ if at == last => return counts.deliver(band),
                _ => counts.send(mark, band),
            }
            match fate {
                Fate::Failed(node, cause) if node == at => return counts.fail(mark, band, cause),
                Fate::Doubted(node) if node == at => counts.fail(mark, band, DropCause::Expired),
                Fate::Vanished(node) if node == at => return counts.leave(mark, band),
                _ => counts.leave(mark, band),
            }
        }
    }

    /// Gives the accounts their counts, and collects their reports.
    fn collect_reports(&mut self) {
        for (at, account) in self.accounts.iter_mut().enumerate() {
            // The source of a grafted plan counts nothing.
            if !matches!(account.place, Place::Graft(_)) {
                account.handle_counts(&self.counts[at], self.now);
            }
            account.handle_timeout(self.now);
            if let Some(report) = account.poll_report(STREAM, EPOCH, self.now) {
                self.sent += 1;
                self.reports.push((at, report));
            }
        }
    }

    fn deliver(&mut self, from: usize, report: &Report) {
        let result = self.accounts[from - 1].handle_report(report, self.now);
        assert_eq!(result, Ok(()), "an honest report is accepted");
    }

    /// Lets time pass; every report arrives at once.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + Duration::from_millis(50);
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.collect_reports();
        // In sending order, as on a link.
        while !self.reports.is_empty() {
            let (from, report) = self.reports.remove(0);
            self.deliver(from, &report);
            self.collect_reports();
        }
    }

    fn reading(&self) -> Reading {
        let path: Vec<NodeId> = (0..self.counts.len()).map(node).collect();
        let plans = core::iter::once((&self.accounts[0], &path[..]));
        let reading = Book::default().reading(node(0), plans);
        assert_eq!(self.accounts[0].is_open(), reading.open() > 0);
        reading
    }

    /// Restarts a node: it counts from zero, and the next node reports everything again.
    fn restart(&mut self, at: usize, since: u64) {
        self.counts[at] = Counts::default();
        let place = place(at, self.counts.len());
        self.accounts[at] = Account::new(place, since, self.now);
        if let Some(behind) = self.accounts.get_mut(at + 1) {
            behind.refresh(self.now);
        }
    }
}

/// Returns losses as tuples: node, cause, first importance of the band, ADUs.
fn losses(reading: &Reading) -> Vec<(u8, DropCause, u8, u64)> {
    let losses = reading.losses.iter();
    let of = |node: Option<NodeId>| node.map_or(255, |node| node.0[0]);
    losses
        .map(|loss| {
            (
                of(loss.node),
                loss.cause,
                *loss.band.importances().start(),
                loss.adus,
            )
        })
        .collect()
}

#[test]
fn byte_names_at_most_one_counter() {
    let mut named = 0;
    for number in 0..=255 {
        if let Some((what, band)) = What::from_number(number) {
            assert_eq!(what.number(band), number);
            named += 1;
        }
    }
    assert_eq!(named, BANDS * (DropCause::ALL.len() + 2 + Mark::COUNT) + 1);
    assert_eq!((band(31).index(), band(32).index()), (0, 1));
    assert_eq!((band(223).index(), band(224).index()), (6, 7));
    assert_eq!(band(255).importances(), 224..=255);
}

#[test]
fn losses_are_known_after_a_second() {
    let mut chain = Chain::new(4);
    chain.pass(Duration::from_secs(1));
    for _ in 0..10 {
        chain.carry(band(250), Fate::Delivered);
    }
    chain.carry(band(10), Fate::Failed(0, DropCause::Expired));
    chain.carry(band(10), Fate::GivenUp(1, DropCause::Filtered));
    chain.carry(band(200), Fate::Failed(2, DropCause::Preempted));
    chain.carry(band(200), Fate::GivenUp(3, DropCause::Overflow));
    chain.pass(EVERY + SLACK);
    let reading = chain.reading();
    assert_eq!(
        (reading.given, reading.delivered, reading.open()),
        (14, 10, 0)
    );
    assert_eq!(
        losses(&reading),
        [
            (0, DropCause::Expired, 0, 1),
            (1, DropCause::Filtered, 0, 1),
            (2, DropCause::Preempted, 192, 1),
            (3, DropCause::Overflow, 192, 1),
        ]
    );
}

#[test]
fn vanished_adu_is_path_lost_after_report_time() {
    let mut chain = Chain::new(3);
    let doomed = [Fate::Delivered, Fate::Vanished(1), Fate::Vanished(0)];
    for fate in doomed.into_iter().cycle().take(30) {
        chain.carry(band(100), fate);
    }
    chain.pass(QUIET);
    assert_eq!(chain.reading().lost(), 0, "may be in flight");
    chain.pass(Duration::from_secs(5));
    let reading = chain.reading();
    assert_eq!((reading.delivered, reading.open()), (10, 0));
    let expected = [
        (0, DropCause::PathLost, 96, 10),
        (1, DropCause::PathLost, 96, 10),
    ];
    assert_eq!(losses(&reading), expected);
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

#[test]
fn late_arrival_is_taken_back() {
    let mut chain = Chain::new(3);
    for fate in [
        Fate::Doubted(0),
        Fate::Doubted(1),
        Fate::Delivered,
        Fate::Failed(1, DropCause::Expired),
    ] {
        chain.carry(band(0), fate);
    }
    chain.pass(Duration::from_secs(5));
    let reading = chain.reading();
    assert_eq!((reading.given, reading.delivered), (4, 3));
    assert_eq!(losses(&reading), [(1, DropCause::Expired, 0, 1)]);
    // A link stood still for a while: ADUs taken for lost arrive.
    chain.counts[1].send(Mark::NONE, band(0));
    chain.counts[1].leave(Mark::NONE, band(0));
    chain.counts[1].arrive(Mark::NONE, band(0));
    chain.counts[0].arrive(Mark::NONE, band(0));
    chain.counts[0].send(Mark::NONE, band(0));
    chain.counts[0].leave(Mark::NONE, band(0));
    chain.pass(Duration::from_secs(5));
    assert_eq!(chain.reading().lost(), 2);
    chain.counts[2].arrive(Mark::NONE, band(0));
    chain.counts[2].deliver(band(0));
    chain.pass(Duration::from_secs(5));
    assert_eq!((chain.reading().lost(), chain.reading().open()), (1, 0));
}

#[test]
fn arrived_dependant_is_not_filtered() {
    let mut chain = Chain::new(2);
    chain.carry(band(0), Fate::GivenUp(0, DropCause::Filtered));
    chain.carry(band(0), Fate::Doubted(0));
    chain.counts[0].dropped[DropCause::Expired.index()][0] -= 1;
    chain.counts[0].give_up(band(0), DropCause::Dependant);
    chain.pass(Duration::from_secs(5));
    assert_eq!(losses(&chain.reading()), [(0, DropCause::Filtered, 0, 1)]);
}

#[test]
fn restart_keeps_losses() {
    for restarted in [1, 2] {
        let mut chain = Chain::new(3);
        for _ in 0..5 {
            chain.carry(band(200), Fate::Delivered);
            chain.carry(band(200), Fate::GivenUp(2, DropCause::Overflow));
            chain.carry(band(200), Fate::Failed(1, DropCause::Expired));
        }
        chain.pass(Duration::from_secs(3));
        let before = chain.reading();
        assert_eq!((before.delivered, before.lost(), before.open()), (5, 10, 0));
        chain.restart(restarted, 2);
        chain.pass(Duration::from_secs(3));
        assert_eq!(chain.reading(), before, "node {restarted}");
        for _ in 0..5 {
            chain.carry(band(200), Fate::Delivered);
            chain.carry(band(200), Fate::GivenUp(2, DropCause::Overflow));
            chain.carry(band(200), Fate::Failed(1, DropCause::Expired));
        }
        chain.pass(Duration::from_secs(5));
        let after = chain.reading();
        assert_eq!(
            (after.delivered, after.lost(), after.open()),
            (10, 20, 0),
            "node {restarted}"
        );
    }
}

#[test]
fn earlier_life_report_is_ignored() {
    let mut chain = Chain::new(2);
    chain.carry(band(0), Fate::GivenUp(1, DropCause::Overflow));
    chain.pass(Duration::from_secs(1));
    let old = report(vec![statement(
        0,
        1,
        &[(What::Dropped(DropCause::Overflow), 1)],
    )]);
    chain.restart(1, 2);
    chain.carry(band(0), Fate::GivenUp(1, DropCause::Overflow));
    chain.pass(Duration::from_secs(2));
    assert_eq!(chain.reading().lost(), 2);
    chain.deliver(1, &old);
    chain.pass(Duration::from_secs(2));
    assert_eq!(chain.reading().lost(), 2);
}

fn statement(distance: u8, since: u64, entries: &[(What, u64)]) -> Statement {
    let entry = |(what, count): &(What, u64)| Entry {
        what: what.number(band(0)),
        count: *count,
    };
    let mut entries: Vec<Entry> = entries.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.what);
    Statement {
        distance,
        since: Some(since),
        entries,
    }
}

fn report(statements: Vec<Statement>) -> Report {
    Report {
        stream: STREAM,
        epoch: EPOCH,
        open: Mark::NONE,
        made: Made::default(),
        statements,
    }
}

#[test]
fn lossy_stream_account_takes_under_1_percent() {
    // Three nodes, five layers in five bands, thirty frames a second, two minutes: every node loses
    // ADUs of the upper two layers.
    let mut chain = Chain::new(3);
    let mut bytes = 0;
    for frame in 0..3_600_u32 {
        chain.now = Instant::ZERO + Duration::from_millis(u64::from(frame) * 1_000 / 30);
        for layer in 0..5_u8 {
            let fate = match (frame % 3, layer) {
                (0, 4) => Fate::Failed(0, DropCause::Expired),
                (1, 4) => Fate::Failed(1, DropCause::Expired),
                (2, 3) => Fate::GivenUp(2, DropCause::Overflow),
                _ => Fate::Delivered,
            };
            chain.carry(band(255 - layer * 48), fate);
        }
        chain.collect_reports();
        while let Some((from, report)) = chain.reports.pop() {
            if from == 1 {
                // With the frame's length prefix and the headers of QUIC packet and frame, UDP and
                // IPv4.
                let frame = wire::encode(&Message::Account(report.clone())).len();
                bytes += frame + 4 + 1 + 8 + 2 + 16 + 6 + 28;
            }
            chain.deliver(from, &report);
            chain.collect_reports();
        }
    }
    let per_second = bytes / 120;
    // 1 % of 150 kbit/s is 187 bytes a second.
    assert!(
        (160..=187).contains(&per_second),
        "{per_second} bytes a second"
    );
    assert!(
        chain.sent <= 2 * (120 * 5 / 3 + 2),
        "{} reports",
        chain.sent
    );
}

#[test]
fn node_limit_keeps_totals() {
    let mut book = Book::default();
    for plan in 0..100_u8 {
        let mut counts = Counts::default();
        counts.arrive(Mark::NONE, band(0));
        counts.give_up(band(0), DropCause::Expired);
        let mut account = Account::new(Place::Source(2), 1, Instant::ZERO);
        account.handle_counts(&counts, Instant::ZERO);
        book.close(&account, &[NodeId([plan; 32])]);
    }
    let reading = book.reading(node(0), core::iter::empty());
    assert_eq!((reading.given, reading.lost()), (100, 100));
    assert_eq!(reading.losses.len(), 65);
    assert_eq!((reading.losses[0].node, reading.losses[0].adus), (None, 36));
}

#[test]
fn loss_is_noted_every_ten_seconds() {
    let mut chain = Chain::new(2);
    let mut book = Book::default();
    let mut noted = Vec::new();
    for second in 0..25 {
        chain.carry(band(0), Fate::Failed(0, DropCause::Expired));
        chain.carry(band(0), Fate::GivenUp(0, DropCause::Filtered));
        chain.carry(band(0), Fate::GivenUp(0, DropCause::Filtered));
        chain.pass(Duration::from_secs(1));
        book.handle_loss();
        if book.is_note_due(chain.now)
            && let Some(loss) = book.poll_note(&chain.reading(), chain.now)
        {
            assert_eq!(
                loss.cause,
                DropCause::Expired,
                "intended drops are not noted"
            );
            noted.push((second, loss.adus));
        }
    }
    assert_eq!(noted, [(0, 1), (10, 10), (20, 10)]);
}

prop_compose! {
    fn fates()(kind in 0..8_u8, node in 0..4_usize, cause in 0..DropCause::ALL.len()) -> Fate {
        let cause = DropCause::ALL[cause];
        match kind {
            0 => Fate::GivenUp(node, cause),
            1 => Fate::Failed(node.min(2), cause),
            2 => Fate::Vanished(node.min(2)),
            3 => Fate::Doubted(node.min(2)),
            _ => Fate::Delivered,
        }
    }
}

proptest! {
    /// Whatever happens to reports, the sums are true after one last report of each node.
    #[test]
    fn sums_hold_however_reports_travel(
        adus in vec_of((fates(), any::<u8>(), 0..400_u64), 1..80),
        faults in vec_of((0..4_u8, any::<usize>()), 80),
    ) {
        let mut chain = Chain::new(4);
        let mut ended: BTreeMap<(u8, u8), u64> = BTreeMap::new();
        let mut delivered = 0;
        for ((fate, importance, wait), (fault, which)) in adus.iter().zip(faults) {
            let band = band(*importance);
            let first = *band.importances().start();
            chain.carry(band, *fate);
            match fate {
                Fate::Delivered | Fate::Doubted(_) => delivered += 1,
                Fate::GivenUp(node, _) | Fate::Failed(node, _) | Fate::Vanished(node) => {
                    *ended.entry((*node as u8, first)).or_default() += 1;
                }
            }
            chain.now = chain.now + Duration::from_millis(*wait);
            chain.collect_reports();
            if chain.reports.is_empty() {
                continue;
            }
            let (from, report) = chain.reports[which % chain.reports.len()].clone();
            match fault {
                // Lost, repeated, overtaken.
                0 => drop(chain.reports.swap_remove(which % chain.reports.len())),
                1 => chain.deliver(from, &report),
                2 => {
                    chain.reports.swap_remove(which % chain.reports.len());
                    chain.deliver(from, &report);
                }
                _ => {}
            }
        }
        chain.reports.clear();
        for at in 1..4 {
            let now = chain.now;
            chain.accounts[at].refresh(now);
        }
        chain.pass(Duration::from_secs(10));
        let reading = chain.reading();
        prop_assert_eq!((reading.given, reading.delivered), (adus.len() as u64, delivered));
        let mut reported: BTreeMap<(u8, u8), u64> = BTreeMap::new();
        for (node, _, first, adus) in losses(&reading) {
            *reported.entry((node, first)).or_default() += adus;
        }
        prop_assert_eq!(reported, ended, "by hop and importance");
        prop_assert_eq!(reading.open(), 0);
    }
}
