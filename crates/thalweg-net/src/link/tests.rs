//! Proves what needs no socket: bodies pass on the bytes that arrived, meters measure the recent
//! past, and a link's driver is woken no more than necessary.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize, Ratio};

use super::Outcome;
use super::bells::StreamWakers;
use super::body::{Body, BodyEnd, End};
use super::silence::Silence;
use super::stats::{Meter, Totals};
use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::close::StreamCode;

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls a future that must be ready.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn whole_payload_is_not_copied() {
    let payload = Bytes::from(vec![7; 1000]);
    let collected = ready(Body::whole(payload.clone()).collect()).expect("whole");
    assert_eq!(collected.as_ptr(), payload.as_ptr());
    let mut body = Body::whole(payload.clone());
    let chunk = ready(body.chunk()).expect("whole").expect("not empty");
    assert_eq!(chunk.as_ptr(), payload.as_ptr());
    assert_eq!(chunk.len(), 1000);
    assert_eq!(ready(body.chunk()), Ok(None));
}

#[derive(Default)]
struct Ends(Mutex<Vec<(u64, End)>>);

impl BodyEnd for Ends {
    fn handle_end(&self, number: u64, end: End) {
        self.0.lock().expect("no test panics").push((number, end));
    }
}

#[test]
fn watcher_learns_how_body_ends() {
    let ends = Arc::new(Ends::default());
    let watched = |number, with_copy| {
        let mut pieces = thalweg_link::hop::Pieces::default();
        for piece in ["ab", "cd"] {
            pieces.push(Bytes::from_static(piece.as_bytes()));
        }
        let mut body = Body::of_chunks(pieces);
        body.watch(ends.clone(), number, with_copy);
        body
    };
    assert_eq!(watched(1, false).take_piece(), None, "it has two");
    assert!(ready(watched(2, true).collect()).is_ok());
    assert!(ready(watched(3, false).collect()).is_ok());
    let mut begun = watched(4, true);
    assert!(begun.chunk_now().is_some());
    drop(begun);
    let ends = ends.0.lock().expect("no test panics");
    let copied = End::Whole(Some(Bytes::from_static(b"abcd")));
    let expected = [
        (1, End::LetGo),
        (2, copied),
        (3, End::Whole(None)),
        (4, End::LetGo),
    ];
    assert_eq!(*ends, expected);
}

#[test]
fn single_piece_is_taken_at_once() {
    let payload = Bytes::from(vec![7; 1000]);
    let mut body = Body::whole(payload.clone());
    assert!(body.is_one_piece());
    let taken = body.take_piece().expect("it is in one piece");
    assert_eq!(taken.as_ptr(), payload.as_ptr());
    assert_eq!(body.take_piece(), Some(Bytes::new()), "nothing is left");
}

#[test]
fn pending_chunk_future_is_small() {
    // The future of each arriving ADU is moved and allocated; 32 chunk slots alone would be a
    // kilobyte.
    let mut body = Body::whole(Bytes::from_static(b"payload"));
    let waiting = size_of_val(&body.chunk());
    assert!(waiting < 512, "{waiting} bytes");
}

#[test]
fn empty_payload_collects_to_nothing() {
    let collected = ready(Body::whole(Bytes::new()).collect());
    assert_eq!(collected, Ok(Bytes::new()));
}

#[test]
fn meter_averages_over_its_windows() {
    let mut meter = Meter::default();
    let totals = |ticks: u64| Totals {
        packets_sent: ticks * 100,
        packets_lost: ticks * 5,
        probes_lost: 0,
        // 1 Mbit/s up to the tenth second, 2 Mbit/s after: a tick is a quarter of a second.
        bytes_sent: 31_250 * (ticks + ticks.saturating_sub(40)),
        bytes_received: 0,
        rtt: Duration::from_millis(if ticks == 30 { 20 } else { 50 }),
    };
    let at = |ticks: u64| Instant::ZERO + Duration::from_millis(250 * ticks);
    for tick in 0..48 {
        meter.handle_sample(at(tick), totals(tick));
    }
    let reading = meter.read(at(48), totals(48));
    assert_eq!(reading.sent_rate, Bitrate::from_kbps(2000));
    assert_eq!(reading.received_rate, Bitrate::ZERO);
    assert_eq!(reading.loss, Ratio::new(0.05).expect("a share"));
    assert_eq!(reading.rtt_min, Duration::from_millis(20));
}

#[test]
fn meter_ignores_lost_mtu_probes() {
    let mut meter = Meter::default();
    // Two of three lost packets are probes, on two paths; when one path goes, its probe count goes
    // too.
    let totals = |probes_lost, packets_lost| Totals {
        packets_sent: 20 + 10 * packets_lost,
        packets_lost,
        probes_lost,
        ..Totals::default()
    };
    let at = |tick: u64| Instant::ZERO + Duration::from_millis(250 * tick);
    for (tick, (probes, lost)) in [(0, 0), (1, 1), (1, 2), (2, 3)].into_iter().enumerate() {
        meter.handle_sample(at(tick as u64), totals(probes, lost));
    }
    for present in [totals(2, 3), totals(1, 3)] {
        let reading = meter.read(at(4), present);
        assert_eq!(reading.packets, 28);
        assert_eq!(reading.loss, Ratio::new(1.0 / 28.0).expect("a share"));
    }
    meter.handle_sample(at(4), totals(1, 3));
    let reading = meter.read(at(5), totals(2, 4));
    assert_eq!(reading.loss, Ratio::new(1.0 / 37.0).expect("a share"));
}

#[test]
fn unsent_outcomes_have_drop_cause() {
    for outcome in [
        Outcome::Acknowledged,
        Outcome::Departed,
        Outcome::Expired,
        Outcome::Cancelled,
        Outcome::Refused(StreamCode::UnknownStream),
        Outcome::Overflow,
        Outcome::LinkLost,
        Outcome::TooLarge,
    ] {
        assert_eq!(outcome.is_sent(), outcome.drop_cause().is_none());
        assert_eq!(outcome.name(), Outcome::NAMES[outcome.index()]);
    }
}

#[test]
fn empty_meter_reads_zero() {
    let reading = Meter::default().read(Instant::ZERO, Totals::default());
    assert_eq!(reading.sent_rate, Bitrate::ZERO);
    assert_eq!(reading.loss, Ratio::ZERO);
}

#[test]
fn wakers_wake_driver_once_per_take() {
    let woken = Arc::new(Woken::default());
    let mut wakers = StreamWakers::new();
    // A slot may be woken before there is a driver.
    wakers.waker(3).wake_by_ref();
    wakers.set_driver(&Waker::from(woken.clone()));
    let mut places = Vec::new();
    wakers.take(&mut places);
    assert_eq!(places, [3]);
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    for round in 1..4 {
        places.clear();
        for slot in [2, 0, 2] {
            wakers.waker(slot).wake_by_ref();
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), round);
        wakers.take(&mut places);
        assert_eq!(places, [2, 0, 2]);
    }
    let waker = wakers.waker(2).clone();
    assert!(wakers.waker(2).will_wake(&waker));
    assert!(!wakers.waker(1).will_wake(&waker));
}

#[tokio::test]
async fn alarm_fires_once_at_last_time() {
    let clock = Clock::start();
    let mut alarm = Alarm::new(clock);
    let mut context = Context::from_waker(Waker::noop());
    assert!(!alarm.has_fired(&mut context));
    for _ in 0..2 {
        alarm.set(clock.now() + Duration::from_secs(3600));
        assert!(!alarm.has_fired(&mut context));
        let at = clock.now() + Duration::from_millis(2);
        alarm.set(at);
        poll_fn(|context| {
            if alarm.has_fired(context) {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
        assert!(clock.now() >= at);
        assert!(!alarm.has_fired(&mut context));
    }
    alarm.set(Instant::NEVER);
    assert!(!alarm.has_fired(&mut context));
}

/// Takes samples at these times, in milliseconds, with a received total and a start of waiting;
/// returns the silence in milliseconds.
fn sample_at(
    silence: &mut Silence,
    at: impl IntoIterator<Item = u64>,
    received: u64,
    since: Option<u64>,
) -> u64 {
    let ms = |ms| Instant::ZERO + Duration::from_millis(ms);
    for at in at {
        let before = silence.lasted();
        let has_changed =
            silence.handle_sample(ms(at), DataSize::from_bytes(received), since.map(ms));
        assert_eq!(has_changed, silence.lasted() != before);
    }
    silence.lasted().as_millis()
}

#[test]
fn unanswered_link_is_silent() {
    let mut silence = Silence::default();
    assert_eq!(
        sample_at(&mut silence, [250], 1_000, Some(0)),
        0,
        "it has come"
    );
    assert_eq!(sample_at(&mut silence, [500, 750], 1_000, None), 0, "idle");
    // An answer was not outstanding for the whole interval.
    assert_eq!(sample_at(&mut silence, [1_000], 1_000, Some(751)), 0);
    assert_eq!(
        sample_at(&mut silence, [1_250, 1_500], 1_000, Some(751)),
        500
    );
    // What was in flight is declared lost, which is no answer from the peer.
    assert_eq!(sample_at(&mut silence, [1_750], 1_000, None), 500);
    assert_eq!(sample_at(&mut silence, [2_000], 1_001, Some(751)), 0);
}

#[test]
fn late_sample_adds_one_interval() {
    let mut silence = Silence::default();
    assert_eq!(sample_at(&mut silence, [250, 500], 1_000, Some(250)), 250);
    assert_eq!(sample_at(&mut silence, [8_500], 1_000, Some(250)), 500);
    assert_eq!(
        sample_at(&mut silence, [8_510, 8_750], 1_000, Some(250)),
        750
    );
}
