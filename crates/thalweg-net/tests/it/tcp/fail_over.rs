//! Connections that stall or are cut: every stream arrives once all the same, and fail-overs are counted and rare.

use std::time::Duration;

use thalweg_core::pace::CarrierNumber;

use super::proxy::{Proxy, Way};
use super::*;

/// A session through a proxy, with its standby up.
async fn through_proxy(pacing: Pacing, way: Way) -> (Pair, Proxy) {
    let mut proxy = None;
    let pair = pair_through(pacing, async |address| {
        let started = Proxy::start(address, way);
        let address = started.address;
        proxy = Some(started);
        address
    })
    .await;
    let proxy = proxy.expect("it was started before the session");
    bounded(async {
        while pair.a.carriers() < 2 || pair.b.carriers() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    (pair, proxy)
}

/// Sends some streams, does something to the line in the middle, and looks that each arrives whole and once.
async fn send_around(pair: &mut Pair, disturb: impl FnOnce()) {
    const COUNT: usize = 12;
    const SIZE: usize = 150_000;
    let first = pair.a.carried().failovers;
    for n in 0..COUNT {
        let stream = pair.a.open(0).expect("the peer admits it");
        let connection = pair.a.clone();
        tokio::spawn(async move { write_all(&connection, stream, pattern(n, SIZE)).await });
    }
    let mut disturb = Some(disturb);
    for n in 0..COUNT {
        let stream = bounded(pair.b.accept()).await.expect("the session lives");
        let bytes = bounded(stream.collect(SIZE)).await.expect("it is finished");
        assert_eq!(bytes, pattern(n, SIZE));
        if n == 2
            && let Some(disturb) = disturb.take()
        {
            disturb();
        }
    }
    acknowledged(&mut pair.events, COUNT).await;
    // One is due. A machine so busy that nothing moves for long is one more reason, and the interval bounds those.
    let failovers = pair.a.carried().failovers - first;
    assert!((1..=3).contains(&failovers), "{failovers} fail-overs");
    assert!(pair.a.active() > Some(CarrierNumber(0)));
    bounded(async {
        while pair.a.active() != pair.b.active() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_stalled_connection_is_left_and_every_stream_arrives_once() {
    for pacing in BOTH {
        let (mut pair, proxy) = through_proxy(pacing, Way::Slow(4_000)).await;
        send_around(&mut pair, || proxy.set(0, Way::Stalled)).await;
        // The next standby is dialled.
        bounded(proxy.count(3)).await;
    }
}

#[tokio::test]
async fn a_cut_connection_is_left_and_every_stream_arrives_once() {
    let (mut pair, proxy) = through_proxy(Pacing::Kernel, Way::Slow(4_000)).await;
    send_around(&mut pair, || proxy.set(0, Way::Cut)).await;
}

#[tokio::test]
async fn when_the_standby_stalls_too_the_next_one_carries_and_each_change_is_counted() {
    let (mut pair, proxy) = through_proxy(Pacing::Kernel, Way::Open).await;
    proxy.set_all(Way::Stalled);
    let stream = pair.a.open(0).expect("the peer admits it");
    let connection = pair.a.clone();
    tokio::spawn(async move { write_all(&connection, stream, pattern(1, 400_000)).await });
    loop {
        let event = bounded(pair.events.next())
            .await
            .expect("the session lives");
        if matches!(event, Event::FailedOver { .. }) {
            break;
        }
    }
    // The standby stalls too; the next one finds an open line.
    bounded(proxy.count(3)).await;
    proxy.set(2, Way::Open);
    let arriving = bounded(pair.b.accept()).await.expect("the session lives");
    let bytes = bounded(arriving.collect(400_000))
        .await
        .expect("it is finished");
    assert_eq!(bytes, pattern(1, 400_000));
    acknowledged(&mut pair.events, 1).await;
    let carried = pair.a.carried();
    assert!((2..=4).contains(&carried.failovers), "{carried:?}");
}
