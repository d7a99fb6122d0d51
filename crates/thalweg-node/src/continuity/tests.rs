//! Proves that what comes twice is known, what has come is told once, and a stream that is forgotten begins anew.

use thalweg_core::adu::{Flags, Header};
use thalweg_core::id::{Sequence, StreamId};

use super::Arrivals;

const STREAM: StreamId = StreamId(7);

fn header(sequence: u64) -> Header {
    Header::new(STREAM, Sequence(sequence))
}

#[test]
fn what_has_come_is_known_whichever_plan_brings_it_and_told_once() {
    let arrivals = Arrivals::default();
    let (one, other) = (arrivals.of(STREAM), arrivals.of(STREAM));
    assert!(one.insert(&header(0)));
    assert!(!other.insert(&header(0)));
    assert!(other.insert(&header(2)));
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
    arrivals.of(STREAM).insert(&end);
    arrivals.ended().await;
    assert!(arrivals.changed()[0].2);
    arrivals.forget(STREAM);
    assert!(arrivals.of(STREAM).insert(&end), "it begins anew");
}
