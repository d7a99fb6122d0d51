//! Proves that a source learns what became of its ADUs on every node of every plan, from the nodes
//! of its plans alone, and with no more reports than needed.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::adu::{Importance, Mark};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::seen::{Held, News};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::account::{Entry, Made, Report, Statement};
use thalweg_base::wire::control::{self as wire, Message};

use super::super::{Note, Output};
use super::{A, B, C, D, Fabric, name, publication};
use crate::accounting::{ACCOUNTS_FEW, ROUND};
use crate::ledger::{Band, Counts, Disbelief, EVERY, Reading, SETTLE, SLACK, What};
use crate::session::{LEASE, RENEW};

const SECOND: Duration = Duration::from_secs(1);

fn band() -> Band {
    Band::of(Importance(200))
}

/// Supplies the counters of a node's data path.
fn count(fabric: &mut Fabric, id: NodeId, (stream, epoch): (StreamId, Epoch), counts: &Counts) {
    fabric.at(id, |c, now, _| c.handle_counts(stream, epoch, counts, now));
}

/// Counts on A, B and C: of `given` ADUs, `expired` expire behind B and the rest are delivered.
fn carry(fabric: &mut Fabric, plan: (StreamId, Epoch), given: u64, expired: u64) {
    let at = band().index();
    let mut counts = Counts::default();
    counts.arrived[0][at] = given;
    counts.sent[0][at] = given;
    counts.left[0][at] = given;
    count(fabric, A, plan, &counts);
    counts.failed[0][at] = expired;
    counts.left[0][at] = given - expired;
    counts.dropped[DropCause::Expired.index()][at] = expired;
    count(fabric, B, plan, &counts);
    let mut counts = Counts::default();
    counts.arrived[0][at] = given - expired;
    counts.delivered[at] = given - expired;
    count(fabric, C, plan, &counts);
}

/// Returns a fabric with one stream from A by B to C, and its plan.
fn streaming() -> (Fabric, (StreamId, Epoch)) {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [B, D]]);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(None, false));
    let (epoch, way) = fabric.plan_path(A, stream);
    assert_eq!(way, [A, B, C]);
    (fabric, (stream, epoch))
}

fn reading(fabric: &Fabric, stream: StreamId) -> Reading {
    let reading = fabric.node(A).controller.reading(stream);
    reading.expect("A publishes it")
}

fn losses(reading: &Reading) -> Vec<(Option<NodeId>, DropCause, u64)> {
    let losses = reading.losses.iter();
    losses
        .map(|loss| (loss.node, loss.cause, loss.adus))
        .collect()
}

fn expired(at: NodeId, adus: u64) -> Vec<(Option<NodeId>, DropCause, u64)> {
    vec![(Some(at), DropCause::Expired, adus)]
}

#[test]
fn source_learns_losses_within_a_second() {
    let (mut fabric, plan) = streaming();
    carry(&mut fabric, plan, 100, 7);
    fabric.pass(EVERY + SLACK);
    let now = reading(&fabric, plan.0);
    assert_eq!((now.given, now.delivered, now.open()), (100, 93, 0));
    assert_eq!(losses(&now), expired(B, 7));
    let noted = |note: &&Note| matches!(note, Note::Losing { loss, .. } if loss.adus == 7);
    assert_eq!(fabric.node(A).notes.iter().filter(noted).count(), 1);
    carry(&mut fabric, plan, 101, 8);
    fabric.pass(EVERY + SLACK);
    assert_eq!(losses(&reading(&fabric, plan.0)), expired(B, 8));
}

#[test]
fn only_due_accounts_need_counts() {
    let (mut fabric, plan) = streaming();
    let due = |fabric: &Fabric, within: Duration| {
        let controller = &fabric.node(B).controller;
        let due = controller.accounting().due(fabric.now + within);
        due.collect::<Vec<_>>()
    };
    fabric.pass(SECOND + SECOND);
    assert_eq!(due(&fabric, SECOND), [], "nothing has been counted");
    carry(&mut fabric, plan, 100, 7);
    let now = Duration::ZERO;
    assert_eq!(
        due(&fabric, now),
        [],
        "reports that arrive together go on together"
    );
    assert_eq!(due(&fabric, EVERY + SLACK), [plan]);
    fabric.pass(EVERY + SLACK);
    assert_eq!(due(&fabric, SECOND), [], "it has been reported");
}

#[test]
fn unchanged_accounts_send_nothing() {
    let (mut fabric, plan) = streaming();
    carry(&mut fabric, plan, 100, 7);
    fabric.pass(SECOND + SECOND);
    let reports = |fabric: &mut Fabric, time| {
        let before = fabric.accounts.len();
        fabric.pass(time);
        fabric.accounts.len() - before
    };
    assert_eq!(reports(&mut fabric, SECOND + SECOND + SECOND), 0);
    carry(&mut fabric, plan, 110, 8);
    assert_eq!(reports(&mut fabric, SECOND + SECOND), 2, "one of each node");
}

#[test]
fn stream_end_is_reported_at_once() {
    let (mut fabric, plan) = streaming();
    carry(&mut fabric, plan, 5, 1);
    fabric.pass(SECOND);
    carry(&mut fabric, plan, 10, 3);
    fabric.settle();
    assert_eq!(reading(&fabric, plan.0).delivered, 4, "it is not due yet");
    let held = Held {
        floor: 11,
        ranges: Vec::new(),
    };
    fabric.at(C, |c, now, keys| {
        c.handle_held(plan.0, held, News::Ended, now);
        c.handle_timeout(now, keys);
    });
    fabric.settle();
    let now = reading(&fabric, plan.0);
    assert_eq!((now.given, now.delivered, now.open()), (10, 7, 0));
    assert_eq!(losses(&now), expired(B, 3));
}

#[test]
fn next_report_replaces_lost_one() {
    let (mut fabric, plan) = streaming();
    fabric.pass(SECOND);
    for round in 1..=5 {
        carry(&mut fabric, plan, 10 * round, 3 * round);
        if round % 2 == 0 {
            // The report of B is lost, without any sign to B.
            fabric.deaf = Some(A);
            fabric.pass(EVERY + SLACK + SLACK);
            fabric.deaf = None;
            let known = reading(&fabric, plan.0).delivered;
            assert_eq!(known, 7 * (round - 1), "of the last only");
        } else {
            fabric.pass(EVERY + SLACK + SLACK);
            let now = reading(&fabric, plan.0);
            assert_eq!((now.delivered, now.open()), (7 * round, 0));
            assert_eq!(losses(&now), expired(B, 3 * round));
        }
    }
}

#[test]
fn cut_link_hides_no_losses() {
    let (mut fabric, plan) = streaming();
    carry(&mut fabric, plan, 10, 3);
    fabric.pass(SECOND);
    assert_eq!(losses(&reading(&fabric, plan.0)), expired(B, 3));
    // The sink has counted, and cannot report; what B dropped is still reported.
    fabric.cut([B, C]);
    carry(&mut fabric, plan, 20, 8);
    fabric.pass(SECOND);
    let now = reading(&fabric, plan.0);
    assert_eq!((now.given, now.delivered, now.open()), (20, 7, 5));
    assert_eq!(losses(&now), expired(B, 8));
    fabric.link([B, C]);
    fabric.pass(SECOND);
    let now = reading(&fabric, plan.0);
    assert_eq!((now.given, now.delivered, now.open()), (20, 12, 0));
    assert_eq!(losses(&now), expired(B, 8));
}

#[test]
fn renewal_repeats_lost_report() {
    let (mut fabric, plan) = streaming();
    fabric.pass(SECOND);
    carry(&mut fabric, plan, 10, 3);
    let is_account = |output: &Output| match output {
        Output::Send { frame, .. } => wire::accounted(frame).is_some(),
        _ => false,
    };
    // C reports first, and its report makes B report.
    fabric.now = fabric.now + SETTLE;
    fabric.at(C, |c, now, keys| c.handle_timeout(now, keys));
    let c = fabric.nodes.get_mut(&C).expect("linked");
    let outputs: Vec<_> = core::iter::from_fn(|| c.controller.poll_output()).collect();
    for output in outputs.into_iter().filter(is_account) {
        let Output::Send { frame, .. } = output else {
            unreachable!("an account is sent");
        };
        fabric.at(B, |b, now, keys| b.handle_frame(C, &frame, now, keys));
    }
    let b = fabric.nodes.get_mut(&B).expect("linked");
    let lost = core::iter::from_fn(|| b.controller.poll_output());
    assert_eq!(lost.filter(is_account).count(), 1);
    fabric.pass(RENEW + SECOND);
    assert_eq!(losses(&reading(&fabric, plan.0)), expired(B, 3));
}

#[test]
fn returning_link_brings_missed_reports() {
    let (mut fabric, plan) = streaming();
    fabric.pass(SECOND);
    fabric.cut([A, B]);
    carry(&mut fabric, plan, 10, 3);
    fabric.pass(SECOND);
    assert_eq!(losses(&reading(&fabric, plan.0)), []);
    fabric.link([A, B]);
    fabric.pass(SECOND);
    assert_eq!(losses(&reading(&fabric, plan.0)), expired(B, 3));
}

#[test]
fn restarted_relay_keeps_sums() {
    let (mut fabric, plan) = streaming();
    carry(&mut fabric, plan, 10, 3);
    fabric.pass(SECOND + SECOND);
    for peer in [A, C, D] {
        fabric.cut([B.min(peer), B.max(peer)]);
    }
    fabric.nodes.remove(&B);
    fabric.start(B, Duration::from_secs(1_000));
    for peer in [A, C, D] {
        fabric.link([B.min(peer), B.max(peer)]);
    }
    fabric.pass(SECOND + SECOND);
    let plan = (plan.0, Epoch(2));
    assert_eq!(
        fabric.plan_path(A, plan.0),
        (plan.1, vec![A, B, C]),
        "the same path"
    );
    assert_eq!(losses(&reading(&fabric, plan.0)), expired(B, 3));
    // Ten more ADUs, of which two expire behind the restarted B.
    let at = band().index();
    let mut counts = Counts::default();
    counts.arrived[0][at] = 10;
    counts.sent[0][at] = 10;
    counts.left[0][at] = 10;
    count(&mut fabric, A, plan, &counts);
    counts.left[0][at] = 8;
    counts.failed[0][at] = 2;
    counts.dropped[DropCause::Expired.index()][at] = 2;
    count(&mut fabric, B, plan, &counts);
    let mut counts = Counts::default();
    counts.arrived[0][at] = 8;
    counts.delivered[at] = 8;
    count(&mut fabric, C, plan, &counts);
    fabric.pass(Duration::from_secs(5));
    let now = reading(&fabric, plan.0);
    assert_eq!((now.given, now.delivered, now.open()), (20, 15, 0));
    assert_eq!(losses(&now), expired(B, 5));
}

#[test]
fn receipt_overrides_drop_at_relay() {
    let (mut fabric, plan) = streaming();
    carry(&mut fabric, plan, 10, 3);
    fabric.pass(SECOND + SECOND);
    // Two of those that B dropped had arrived. C has named them in a receipt; its report on them is
    // in flight.
    let at = band().index();
    let mut counts = Counts::default();
    counts.arrived[0][at] = 10;
    counts.sent[0][at] = 10;
    counts.left[0][at] = 10;
    counts.had[at] = 9;
    count(&mut fabric, A, plan, &counts);
    let before = reading(&fabric, plan.0);
    assert_eq!((before.delivered, before.open()), (7, 0));
    let source = fabric.nodes.get_mut(&A).expect("it is there");
    source.controller.go_by_receipts(plan.0, &[plan.1]);
    let last = reading(&fabric, plan.0);
    assert_eq!((last.given, last.delivered, last.open()), (10, 9, 0));
    assert_eq!(losses(&last), expired(B, 1));
}

/// Returns a report that a node lost this many ADUs.
fn loss_report((stream, epoch): (StreamId, Epoch), distance: u8, adus: u64) -> Vec<u8> {
    let entry = Entry {
        what: What::Dropped(DropCause::Expired).number(band()),
        count: adus,
    };
    wire::encode(&Message::Account(Report {
        stream,
        epoch,
        open: Mark::NONE,
        made: Made::default(),
        statements: vec![Statement {
            distance,
            since: Some(u64::MAX >> 2),
            entries: vec![entry],
        }],
    }))
}

#[test]
fn report_counts_only_from_next_node() {
    let (mut fabric, plan) = streaming();
    carry(&mut fabric, plan, 10, 3);
    fabric.pass(SECOND + SECOND);
    let truth = reading(&fabric, plan.0);
    let notes_of = |fabric: &mut Fabric, at, from, frame: &[u8]| {
        fabric.nodes.get_mut(&at).expect("linked").notes.clear();
        fabric.at(at, |c, now, keys| c.handle_frame(from, frame, now, keys));
        fabric.pass(SECOND + SECOND);
        fabric.node(at).notes.clone()
    };
    let astray = |from| vec![Note::AccountAstray { from }];
    // D is a neighbour of B but not on the path; A is, but not behind B; and no plan has the other number.
    assert_eq!(
        notes_of(&mut fabric, B, D, &loss_report(plan, 0, 1)),
        astray(D)
    );
    assert_eq!(
        notes_of(&mut fabric, B, A, &loss_report(plan, 0, 1)),
        astray(A)
    );
    assert_eq!(
        notes_of(&mut fabric, A, B, &loss_report((plan.0, Epoch(9)), 0, 1)),
        astray(B)
    );
    assert_eq!(reading(&fabric, plan.0), truth);
    let false_reports = [
        (loss_report(plan, 2, 1), Disbelief::OffPath { distance: 2 }),
        // Including the three of its former incarnation.
        (
            loss_report(plan, 0, 8),
            Disbelief::Ended {
                ended: 11,
                given: 10,
            },
        ),
    ];
    for (frame, error) in false_reports {
        let notes = notes_of(&mut fabric, A, B, &frame);
        assert_eq!(notes, [Note::AccountDisbelieved { from: B, error }]);
        assert_eq!(reading(&fabric, plan.0), truth);
    }
}

#[test]
fn sums_survive_plans_until_stream_ends() {
    let (mut fabric, plan) = streaming();
    carry(&mut fabric, plan, 10, 3);
    let mut unplanned = Counts::default();
    unplanned.arrive(Mark::NONE, band());
    unplanned.give_up(band(), DropCause::NoSubscriber);
    count(&mut fabric, A, (plan.0, Epoch(0)), &unplanned);
    fabric.pass(SECOND);
    let mut all = expired(B, 3);
    all.insert(0, (Some(A), DropCause::NoSubscriber, 1));
    fabric.at(C, |c, now, keys| c.unsubscribe(&name(), now, keys));
    fabric.pass(LEASE + LEASE);
    assert!(fabric.node(A).parts().is_empty(), "the plan is over");
    assert_eq!(losses(&reading(&fabric, plan.0)), all);
    fabric.subscribe(C);
    fabric.settle();
    let plan = (plan.0, fabric.plan_path(A, plan.0).0);
    carry(&mut fabric, plan, 5, 1);
    fabric.pass(SECOND);
    all[1].2 += 1;
    assert_eq!(losses(&reading(&fabric, plan.0)), all);
    fabric.at(A, |c, now, keys| c.unpublish(plan.0, now, keys));
    fabric.pass(LEASE + LEASE);
    assert_eq!(fabric.node(A).controller.reading(plan.0), None);
    let [(stream, closed)] = &fabric.node(A).closed[..] else {
        panic!("{:?}", fabric.node(A).closed);
    };
    assert_eq!((*stream, closed.given, closed.open()), (plan.0, 16, 0));
    assert_eq!(losses(closed), all);
}

#[test]
fn five_hundred_streams_report_correctly() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [B, D]]);
    let mut streams = BTreeMap::new();
    for source in [A, D] {
        for number in 0..256 {
            let mut publication = publication(None, false);
            publication.name = format!("s{}/{number}", source.0[0])
                .parse()
                .expect("a name");
            let name = publication.name.clone();
            let stream = fabric
                .at(source, |c, now, keys| {
                    c.publish(publication, None, now, keys)
                })
                .expect("as many as a node may publish");
            streams.insert(stream, source);
            fabric.at(C, |c, now, keys| c.subscribe(name, now, keys));
        }
        fabric.settle();
    }
    fabric.pass(SECOND + SECOND);
    let plans: Vec<_> = streams
        .iter()
        .map(|(stream, source)| (*stream, *source, fabric.node(*source).active[stream][0]))
        .collect();
    let at = band().index();
    for round in 1..=3 {
        for (stream, source, epoch) in &plans {
            let plan = (*stream, *epoch);
            let mut counts = Counts::default();
            counts.arrived[0][at] = 10 * round;
            counts.sent[0][at] = 10 * round;
            counts.left[0][at] = 10 * round;
            count(&mut fabric, *source, plan, &counts);
            count(&mut fabric, B, plan, &counts);
            counts = Counts::default();
            counts.arrived[0][at] = 10 * round;
            counts.delivered[at] = 9 * round;
            counts.dropped[DropCause::Overflow.index()][at] = round;
            count(&mut fabric, C, plan, &counts);
        }
        fabric.pass(EVERY + SLACK);
    }
    assert_eq!(plans.len(), 512);
    for (stream, source, _) in &plans {
        let reading = fabric.node(*source).controller.reading(*stream);
        let reading = reading.expect("it is published");
        assert_eq!(losses(&reading), [(Some(C), DropCause::Overflow, 3)]);
        assert_eq!((reading.given, reading.delivered), (30, 27));
    }
}

#[test]
fn many_accounts_report_in_rounds() {
    let moment = Duration::from_millis(1);
    for (sinks, is_gathered) in [(ACCOUNTS_FEW, false), (ACCOUNTS_FEW + 1, true)] {
        let leaves = (0..sinks).map(|number| NodeId([10 + number as u8; 32]));
        let leaves: Vec<NodeId> = leaves.collect();
        let mut wires: Vec<[NodeId; 2]> = leaves.iter().map(|leaf| [B, *leaf]).collect();
        wires.push([A, B]);
        let mut fabric = Fabric::linked(&wires);
        for leaf in &leaves {
            fabric.subscribe(*leaf);
        }
        let stream = fabric.publish(A, publication(None, false));
        fabric.pass(SECOND + SECOND);
        let start = fabric.accounts.len();
        let (at, mut counts) = (band().index(), Counts::default());
        // The sinks count one after the other, so their reports are due in turn.
        for leaf in &leaves {
            let (_, epoch) = *fabric.node(*leaf).installed.keys().next().expect("a plan");
            counts = Counts::default();
            (
                counts.arrived[0][at],
                counts.sent[0][at],
                counts.left[0][at],
            ) = (10, 10, 10);
            count(&mut fabric, B, (stream, epoch), &counts);
            counts.delivered[at] = 10;
            count(&mut fabric, *leaf, (stream, epoch), &counts);
            fabric.pass(moment);
        }
        for _ in 0..1_000 {
            // As a driver does before it handles what is due.
            let due: Vec<_> = fabric.at(B, |c, now, _| c.accounting().due(now).collect());
            counts.delivered[at] = 0;
            for plan in due {
                count(&mut fabric, B, plan, &counts);
            }
            fabric.at(B, |c, now, keys| c.handle_timeout(now, keys));
            fabric.pass(moment);
        }
        let of_hub = fabric.accounts[start..].iter().filter(|(_, by)| *by == B);
        let mut moments: Vec<Instant> = of_hub.map(|(at, _)| *at).collect();
        assert!(
            moments.len() >= sinks,
            "each was reported: {}",
            moments.len()
        );
        moments.dedup();
        assert!(!is_gathered || moments.len() <= 5, "{moments:?}");
        let apart = moments
            .windows(2)
            .map(|pair| pair[1].saturating_since(pair[0]));
        let least = apart.min().expect("not all at once");
        assert_eq!(least >= ROUND, is_gathered, "{sinks} sinks: {least:?}");
    }
}
