//! Proves how drops are collected, numbered and bounded.

use thalweg_base::adu::Importance;
use thalweg_base::id::{Sequence, StreamId};

use super::*;

fn header(sequence: u64, importance: u8) -> Header {
    Header {
        importance: Importance(importance),
        ..Header::new(StreamId(1), Sequence(sequence))
    }
}

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn display() -> Place {
    Place::Mailbox("pid 7".into())
}

#[test]
fn close_drops_share_a_record() {
    let log = DropLog::default();
    for (sequence, importance, at) in [(5, 10, 0), (7, 144, 20), (6, 0, 40)] {
        log.record(
            &header(sequence, importance),
            display(),
            DropCause::Overflow,
            ms(at),
        );
    }
    log.record(&header(8, 0), Place::Node, DropCause::Expired, ms(50));
    assert_eq!(log.after(0, ms(60)), [], "they are still open");
    log.record(&header(9, 0), display(), DropCause::Overflow, ms(100));
    let closed = log.after(0, ms(100));
    assert_eq!(closed.len(), 1);
    let one = &closed[0];
    assert_eq!((one.number, one.adus, one.cause), (1, 3, "overflow"));
    assert_eq!((one.sequences, one.times), ([5, 7], [ms(0), ms(40)]));
    assert_eq!(one.importance, Some([0, 144]));
    let numbers: Vec<u64> = log.after(1, ms(999)).iter().map(|one| one.number).collect();
    assert_eq!(numbers, [2, 3]);
    assert_eq!(log.last(), 3);
    let sums = log.sums();
    assert_eq!(
        (sums["mailbox"]["overflow"], sums["node"]["expired"]),
        (4, 1)
    );
}

#[test]
fn missing_adus_are_recorded_once() {
    let log = DropLog::default();
    log.record_missing(3..6, ms(0));
    log.record_missing(3..6, ms(10));
    log.record_missing(4..8, ms(20));
    let closed = log.after(0, ms(100));
    assert_eq!(closed.len(), 1);
    assert_eq!((closed[0].adus, closed[0].sequences), (5, [3, 7]));
    assert_eq!((closed[0].cause, closed[0].importance), ("missing", None));
}

#[test]
fn records_are_bounded() {
    let log = DropLog::default();
    let many = 3 * RECORDS_MAX as u64;
    for number in 0..many {
        log.record(
            &header(number, 0),
            display(),
            DropCause::Expired,
            ms(100 * number),
        );
    }
    let kept = log.after(0, ms(100 * many));
    assert_eq!(
        (kept.len(), kept[0].number),
        (RECORDS_MAX, many - RECORDS_MAX as u64 + 1)
    );
    assert_eq!(log.sums()["mailbox"]["expired"], many);
    // Many places at once are bounded as well, and none is lost.
    let log = DropLog::default();
    for number in 0..2 * OPEN_MAX as u64 {
        let place = Place::Mailbox(format!("pid {number}").into());
        log.record(&header(number, 0), place, DropCause::Expired, ms(0));
    }
    assert_eq!(log.after(0, ms(100)).len(), 2 * OPEN_MAX);
}
