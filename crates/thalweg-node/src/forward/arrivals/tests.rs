//! Proves that duplicates are recognised, that arrivals are reported once, and that a forgotten
//! stream starts over.

use thalweg_base::adu::{Flags, Header};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_base::limits::KEEP_BYTES_MAX;
use thalweg_dataplane::mailbox::News;

use super::Arrivals;

const STREAM: StreamId = StreamId(7);

fn header(sequence: u64) -> Header {
    Header::new(STREAM, Sequence(sequence))
}

#[test]
fn arrivals_are_reported_once() {
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
async fn stream_end_is_reported_at_once() {
    let arrivals = Arrivals::default();
    let mut end = header(1);
    end.flags = Flags::END;
    let taken = arrivals.of(STREAM).insert(&end, 0);
    assert_eq!(taken, Ok(()));
    arrivals.urgent().await;
    assert_eq!(arrivals.changed(|_| false)[0].2, News::Ended);
    arrivals.forget(STREAM);
    let again = arrivals.of(STREAM).insert(&end, 0);
    assert_eq!(again, Ok(()), "it starts over");
}

#[test]
fn blocked_stream_reports_only_its_end() {
    let arrivals = Arrivals::default();
    let arrived = arrivals.of(STREAM);
    assert_eq!(arrived.insert(&header(0), 1), Ok(()));
    assert!(arrivals.changed(|stream| stream == STREAM).is_empty());
    assert_eq!(
        arrivals.changed(|_| false).len(),
        1,
        "kept until it resumes"
    );
    let mut end = header(1);
    end.flags = Flags::END;
    assert_eq!(arrived.insert(&end, 0), Ok(()));
    assert_eq!(arrivals.changed(|_| true).len(), 1);
}

#[tokio::test]
async fn large_arrival_is_reported_at_once() {
    let arrivals = Arrivals::default();
    let much = KEEP_BYTES_MAX.as_bytes() as usize / 4;
    assert_eq!(arrivals.of(STREAM).insert(&header(0), much), Ok(()));
    arrivals.urgent().await;
    assert_eq!(arrivals.changed(|_| false)[0].2, News::Much);
}

#[test]
fn restarted_stream_shares_one_set() {
    let arrivals = Arrivals::default();
    let there = arrivals.of(STREAM);
    assert_eq!(there.insert(&header(0), 1), Ok(()));
    arrivals.restart(STREAM, None);
    let later = arrivals.of(STREAM);
    assert_eq!(later.insert(&header(0), 1), Ok(()), "it is new to them");
    assert_eq!(there.insert(&header(0), 1), Err(DropCause::Duplicate));
    let changed = arrivals.changed(|_| false);
    assert_eq!(changed.len(), 1, "{changed:?}");
    arrivals.restart(STREAM, Some(Epoch(0)));
    let former = there.insert(&header(1), 1);
    assert_eq!(
        former,
        Err(DropCause::Cancelled),
        "it is for former subscribers"
    );
    assert_eq!(
        arrivals.changed(|_| false)[0].1.floor,
        2,
        "and is acknowledged"
    );
    arrivals.resume(STREAM);
    assert_eq!(there.insert(&header(2), 1), Ok(()));
}
