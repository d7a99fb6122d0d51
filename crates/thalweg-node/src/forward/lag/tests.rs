//! Proves which ADUs are refused, and that the measured time includes the work of other tasks.

use std::sync::Arc;

use thalweg_base::adu::{Flags, Header, Importance};
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_dataplane::packet::Pool;

use super::super::Forwarder;
use super::{LagMeter, measure};

const WORK: Duration = Duration::from_millis(20);

fn header(now: Instant, left: Duration) -> Header {
    Header {
        deadline: now + left,
        importance: Importance(0),
        ..Header::new(StreamId(7), Sequence(1))
    }
}

/// Returns a meter that has measured `WORK` for each of three ADUs with a hundred copies.
fn behind(now: Instant) -> LagMeter {
    let lag_meter = LagMeter::default();
    for _ in 0..3 {
        let mut lag = lag_meter.lag();
        lag.handle_taken(now, 100);
        lag.handle_end(now + WORK);
    }
    lag_meter
}

#[test]
fn late_adu_is_refused() {
    let started = Instant::ZERO + Duration::from_secs(1);
    let lag_meter = behind(started);
    let now = started + WORK + WORK;
    let needed = WORK + WORK; // An ADU of the least importance needs twice the time.
    assert!(lag_meter.lag().admits(&header(now, needed), 100, now));
    // The admitted ADU is now ahead in the round; a refused one is not.
    assert!(!lag_meter.lag().admits(&header(now, needed), 100, now));
    assert!(
        !lag_meter
            .lag()
            .admits(&header(now, Duration::from_millis(79)), 100, now)
    );
    assert!(
        lag_meter
            .lag()
            .admits(&header(now, needed + needed), 100, now)
    );
}

#[test]
fn lasting_end_and_local_adus_pass() {
    let started = Instant::ZERO + Duration::from_secs(1);
    let lag_meter = behind(started);
    let now = started + WORK;
    let late = header(now, Duration::ZERO);
    let end = Header {
        flags: Flags::END,
        ..late
    };
    let lasting = Header {
        deadline: Instant::NEVER,
        ..late
    };
    assert!(!lag_meter.lag().admits(&late, 100, now));
    assert!(lag_meter.lag().admits(&late, 0, now));
    assert!(lag_meter.lag().admits(&end, 100, now));
    assert!(lag_meter.lag().admits(&lasting, 100, now));
}

#[tokio::test]
async fn round_spans_all_woken_tasks() {
    let forwarder = Arc::new(Forwarder::new(thalweg_net::Clock::start(), Pool::new(0)));
    let measuring = tokio::spawn(measure(Arc::clone(&forwarder)));
    tokio::task::yield_now().await;
    let now = forwarder.clock.now();
    let header = header(now, Duration::from_secs(60));
    assert!(forwarder.ways.lag.lag().admits(&header, 4, now));
    let workers = (0..4)
        .map(|_| tokio::spawn(async { std::thread::sleep(std::time::Duration::from_millis(5)) }));
    let workers: Vec<_> = workers.collect();
    forwarder.ways.lag.measure();
    for worker in workers {
        worker.await.expect("it only sleeps");
    }
    while forwarder.ways.lag.lag().is_under_way() {
        tokio::task::yield_now().await;
    }
    assert!(forwarder.lag() >= WORK, "{:?}", forwarder.lag());
    measuring.abort();
}
