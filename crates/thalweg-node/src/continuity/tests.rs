//! Proves that what comes twice is known, what has come is told once, and a stream that is forgotten begins anew.

use thalweg_core::adu::{Flags, Header};
use thalweg_core::event::DropCause;
use thalweg_core::id::{Epoch, Sequence, StreamId};

use super::Arrivals;

const STREAM: StreamId = StreamId(7);

fn header(sequence: u64) -> Header {
    Header::new(STREAM, Sequence(sequence))
}

#[test]
fn what_has_come_is_known_whichever_plan_brings_it_and_told_once() {
    let arrivals = Arrivals::default();
    let (one, other) = (arrivals.of(STREAM), arrivals.of(STREAM));
    assert_eq!(one.insert(&header(0)), Ok(()));
    assert_eq!(other.insert(&header(0)), Err(DropCause::Duplicate));
    assert_eq!(other.insert(&header(2)), Ok(()));
    let changed = arrivals.changed();
    let [(stream, held, is_ended)] = &changed[..] else {
        panic!("{changed:?}")
    };
    assert_eq!((*stream, held.floor, *is_ended), (STREAM, 1, false));
    assert!(held.has(Sequence(2)) && !held.has(Sequence(1)), "{held:?}");
    assert!(arrivals.changed().is_empty());
}

#[tokio::test]
async fn the_end_of_a_stream_is_told_at_once() {
    let arrivals = Arrivals::default();
    let mut end = header(1);
    end.flags = Flags::END;
    let taken = arrivals.of(STREAM).insert(&end);
    assert_eq!(taken, Ok(()));
    arrivals.ended().await;
    assert!(arrivals.changed()[0].2);
    arrivals.forget(STREAM);
    let again = arrivals.of(STREAM).insert(&end);
    assert_eq!(again, Ok(()), "it begins anew");
}

#[test]
fn where_others_begin_a_plan_that_is_there_yet_and_a_later_one_put_into_one_set() {
    let arrivals = Arrivals::default();
    let there = arrivals.of(STREAM);
    assert_eq!(there.insert(&header(0)), Ok(()));
    arrivals.begin_anew(STREAM, None);
    let later = arrivals.of(STREAM);
    assert_eq!(later.insert(&header(0)), Ok(()), "it is new to them");
    assert_eq!(there.insert(&header(0)), Err(DropCause::Duplicate));
    let changed = arrivals.changed();
    assert_eq!(changed.len(), 1, "{changed:?}");
    arrivals.begin_anew(STREAM, Some(Epoch(0)));
    let former = there.insert(&header(1));
    assert_eq!(former, Err(DropCause::Cancelled), "it is of those before");
    assert_eq!(arrivals.changed()[0].1.floor, 2, "and is acknowledged");
    arrivals.go_on(STREAM);
    assert_eq!(there.insert(&header(2)), Ok(()));
}
