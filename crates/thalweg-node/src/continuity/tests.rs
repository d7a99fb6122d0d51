//! Proves that what comes twice is known, what has come is told once, and a stream that is forgotten begins anew.

use thalweg_core::adu::{Flags, Header};
use thalweg_core::event::DropCause;
use thalweg_core::id::{Epoch, Sequence, StreamId};
use thalweg_core::limits::KEEP_BYTES_MAX;
use thalweg_core::mailbox::News;

use super::Arrivals;

const STREAM: StreamId = StreamId(7);

fn header(sequence: u64) -> Header {
    Header::new(STREAM, Sequence(sequence))
}

#[test]
fn what_has_come_is_known_whichever_plan_brings_it_and_told_once() {
    let arrivals = Arrivals::default();
    let (one, other) = (arrivals.of(STREAM), arrivals.of(STREAM));
    assert_eq!(one.insert(&header(0), 1), Ok(()));
    assert_eq!(other.insert(&header(0), 1), Err(DropCause::Duplicate));
    assert_eq!(other.insert(&header(2), 1), Ok(()));
    let changed = arrivals.changed(|_| false);
    let [(stream, held, news)] = &changed[..] else {
        panic!("{changed:?}")
    };
    assert_eq!((*stream, held.floor, *news), (STREAM, 1, News::Usual));
    assert!(held.has(Sequence(2)) && !held.has(Sequence(1)), "{held:?}");
    assert!(arrivals.changed(|_| false).is_empty());
}

#[tokio::test]
async fn the_end_of_a_stream_is_told_at_once() {
    let arrivals = Arrivals::default();
    let mut end = header(1);
    end.flags = Flags::END;
    let taken = arrivals.of(STREAM).insert(&end, 0);
    assert_eq!(taken, Ok(()));
    arrivals.urgent().await;
    assert_eq!(arrivals.changed(|_| false)[0].2, News::Ended);
    arrivals.forget(STREAM);
    let again = arrivals.of(STREAM).insert(&end, 0);
    assert_eq!(again, Ok(()), "it begins anew");
}

#[test]
fn stream_that_is_held_up_is_told_at_its_end_only() {
    let arrivals = Arrivals::default();
    let arrived = arrivals.of(STREAM);
    assert_eq!(arrived.insert(&header(0), 1), Ok(()));
    assert!(arrivals.changed(|stream| stream == STREAM).is_empty());
    assert_eq!(
        arrivals.changed(|_| false).len(),
        1,
        "kept until it goes on"
    );
    let mut end = header(1);
    end.flags = Flags::END;
    assert_eq!(arrived.insert(&end, 0), Ok(()));
    assert_eq!(arrivals.changed(|_| true).len(), 1);
}

#[tokio::test]
async fn much_that_has_come_is_told_at_once() {
    let arrivals = Arrivals::default();
    let much = KEEP_BYTES_MAX.as_bytes() as usize / 4;
    assert_eq!(arrivals.of(STREAM).insert(&header(0), much), Ok(()));
    arrivals.urgent().await;
    assert_eq!(arrivals.changed(|_| false)[0].2, News::Much);
}

#[test]
fn where_others_begin_a_plan_that_is_there_yet_and_a_later_one_put_into_one_set() {
    let arrivals = Arrivals::default();
    let there = arrivals.of(STREAM);
    assert_eq!(there.insert(&header(0), 1), Ok(()));
    arrivals.begin_anew(STREAM, None);
    let later = arrivals.of(STREAM);
    assert_eq!(later.insert(&header(0), 1), Ok(()), "it is new to them");
    assert_eq!(there.insert(&header(0), 1), Err(DropCause::Duplicate));
    let changed = arrivals.changed(|_| false);
    assert_eq!(changed.len(), 1, "{changed:?}");
    arrivals.begin_anew(STREAM, Some(Epoch(0)));
    let former = there.insert(&header(1), 1);
    assert_eq!(former, Err(DropCause::Cancelled), "it is of those before");
    assert_eq!(
        arrivals.changed(|_| false)[0].1.floor,
        2,
        "and is acknowledged"
    );
    arrivals.go_on(STREAM);
    assert_eq!(there.insert(&header(2), 1), Ok(()));
}
