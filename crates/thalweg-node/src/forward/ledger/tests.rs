//! Proves how long the counters of a stream are kept, and how many.

use std::collections::BTreeSet;

use thalweg_base::id::{StreamId, StreamName};
use thalweg_base::time::{Duration, Instant};
use thalweg_net::Outcome;

use super::rows::{KEPT, OVER_MAX};
use super::{Ledger, Reading};

fn name(text: &str) -> StreamName {
    text.parse().expect("a name")
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// Sweeps while no stream is announced.
fn sweep(ledger: &Ledger, now: Instant) {
    ledger.sweep(now, &BTreeSet::new(), BTreeSet::new);
}

fn over(ledger: &Ledger) -> Vec<u64> {
    let kept = ledger.kept().into_iter();
    let over = kept.filter(|kept| kept.over.is_some());
    over.map(|kept| kept.id.0).collect()
}

#[test]
fn ended_stream_is_kept_a_while() {
    let ledger = Ledger::default();
    let row = ledger.row(StreamId(1), &name("a"));
    row.handed_on();
    sweep(&ledger, at(0));
    drop(row);
    sweep(&ledger, at(1_000));
    assert!(over(&ledger).is_empty(), "one is under way");
    let row = ledger.find(StreamId(1)).expect("it is in use");
    row.ended(Outcome::Acknowledged);
    ledger.close(StreamId(1), Reading::default());
    sweep(&ledger, at(2_000));
    assert!(over(&ledger).is_empty(), "somebody holds it");
    drop(row);
    sweep(&ledger, at(3_000));
    let kept = ledger.kept().remove(0);
    assert_eq!((kept.name, kept.counts.acknowledged), (name("a"), 1));
    assert_eq!(kept.closed, Some(Reading::default()));
    let end = at(3_000) + KEPT;
    sweep(&ledger, end - Duration::from_nanos(1));
    assert_eq!(over(&ledger), [1]);
    sweep(&ledger, end);
    assert!(over(&ledger).is_empty());
    assert!(ledger.find(StreamId(1)).is_none());
}

#[test]
fn returning_stream_keeps_counting() {
    let ledger = Ledger::default();
    ledger.row(StreamId(1), &name("a")).received();
    sweep(&ledger, at(0));
    let row = ledger.row(StreamId(1), &name("a"));
    assert!(over(&ledger).is_empty());
    sweep(&ledger, at(1_000));
    row.received();
    assert_eq!(row.reading().received, 2);
}

#[test]
fn resting_lane_holds_no_row() {
    let ledger = Ledger::default();
    let _lane = ledger.row(StreamId(1), &name("a"));
    sweep(&ledger, at(0));
    assert!(over(&ledger).is_empty());
    ledger.sweep(at(1), &[StreamId(1)].into(), BTreeSet::new);
    assert_eq!(over(&ledger), [1]);
}

#[test]
fn announced_stream_is_not_over() {
    let ledger = Ledger::default();
    ledger.row(StreamId(1), &name("a")).received();
    for seconds in [0, 1_000] {
        ledger.sweep(at(seconds), &BTreeSet::new(), || [StreamId(1)].into());
        assert!(over(&ledger).is_empty());
    }
    sweep(&ledger, at(2_000));
    assert_eq!(over(&ledger), [1]);
}

#[test]
fn last_ended_streams_are_kept() {
    let ledger = Ledger::default();
    let many = 3 * OVER_MAX as u64;
    let live = ledger.row(StreamId(many), &name("live"));
    for stream in 0..many {
        ledger.row(StreamId(stream), &name(&format!("f/{stream}")));
        sweep(&ledger, Instant::ZERO + Duration::from_millis(stream));
    }
    let last = over(&ledger);
    assert_eq!(last.len(), OVER_MAX);
    assert_eq!(
        (last[0], last[OVER_MAX - 1]),
        (many - 1, many - OVER_MAX as u64)
    );
    assert!(ledger.find(StreamId(many)).is_some());
    drop(live);
}

#[test]
fn expired_adu_does_not_count_as_sent() {
    let ledger = Ledger::default();
    let row = ledger.row(StreamId(1), &name("a"));
    for outcome in [
        Outcome::Acknowledged,
        Outcome::Departed,
        Outcome::Expired,
        Outcome::Expired,
    ] {
        row.handed_on();
        row.ended(outcome);
    }
    row.handed_on();
    let reading = row.reading();
    assert_eq!((reading.sent, reading.outstanding), (2, 1));
    assert_eq!(reading.dropped["expired"], 2);
}
