//! Proves what is judged, and that what others had to do is in the time that is measured.

use std::sync::Arc;

use thalweg_core::adu::{Flags, Header, Importance};
use thalweg_core::id::{Sequence, StreamId};
use thalweg_core::time::{Duration, Instant};
use thalweg_lift::packet::Pool;

use super::super::Forwarder;
use super::{Lagging, measure};

const WORK: Duration = Duration::from_millis(20);

fn header(now: Instant, left: Duration) -> Header {
    Header {
        deadline: now + left,
        importance: Importance(0),
        ..Header::new(StreamId(7), Sequence(1))
    }
}

/// A node that has taken so long for each of three ADUs with a hundred copies.
fn behind(now: Instant) -> Lagging {
    let lagging = Lagging::default();
    for _ in 0..3 {
        let mut lag = lagging.lag();
        lag.handle_taken(now, 100);
        lag.handle_end(now + WORK);
    }
    lagging
}

#[test]
fn what_cannot_be_handed_on_in_time_is_not_taken() {
    let begun = Instant::ZERO + Duration::from_secs(1);
    let lagging = behind(begun);
    let now = begun + WORK + WORK;
    let needed = WORK + WORK; // The least important of all.
    assert!(lagging.admits(&header(now, needed), 100, now));
    // That one is ahead now, and one that is dropped is not.
    assert!(!lagging.admits(&header(now, needed), 100, now));
    assert!(!lagging.admits(&header(now, Duration::from_millis(79)), 100, now));
    assert!(lagging.admits(&header(now, needed + needed), 100, now));
}

#[test]
fn what_has_no_deadline_or_goes_no_further_is_not_judged() {
    let begun = Instant::ZERO + Duration::from_secs(1);
    let lagging = behind(begun);
    let now = begun + WORK;
    let late = header(now, Duration::ZERO);
    let end = Header {
        flags: Flags::END,
        ..late
    };
    let lasting = Header {
        deadline: Instant::NEVER,
        ..late
    };
    assert!(!lagging.admits(&late, 100, now));
    assert!(lagging.admits(&late, 0, now));
    assert!(lagging.admits(&end, 100, now));
    assert!(lagging.admits(&lasting, 100, now));
}

#[tokio::test]
async fn the_work_of_all_who_were_woken_is_in_the_round() {
    let forwarder = Arc::new(Forwarder::new(thalweg_net::Clock::start(), Pool::new(0)));
    let measuring = tokio::spawn(measure(Arc::clone(&forwarder)));
    tokio::task::yield_now().await;
    let now = forwarder.clock.now();
    let header = header(now, Duration::from_secs(60));
    assert!(forwarder.lagging.admits(&header, 4, now));
    let workers = (0..4)
        .map(|_| tokio::spawn(async { std::thread::sleep(std::time::Duration::from_millis(5)) }));
    let workers: Vec<_> = workers.collect();
    forwarder.lagging.measure();
    for worker in workers {
        worker.await.expect("it only sleeps");
    }
    while forwarder.lagging.lag().is_under_way() {
        tokio::task::yield_now().await;
    }
    assert!(forwarder.lag() >= WORK, "{:?}", forwarder.lag());
    measuring.abort();
}
