//! Proves that every stream arrives once when connections stall or break, that fail-overs are
//! counted and rare, and that a session without a connection ends.

use std::time::Duration;

use thalweg_link::hop::{CloseCode, DownCause};
use thalweg_link::tcp_mux::CarrierNumber;

use super::proxy::{Proxy, Way};
use super::*;

/// A session through a proxy, with its standby up.
async fn through_proxy(by: By, way: Way) -> (Pair, Proxy) {
    let mut proxy = None;
    let pair = pair_through(by, async |address| {
        let started = Proxy::start(address, way);
        let address = started.address;
        proxy = Some(started);
        address
    })
    .await;
    let proxy = proxy.expect("it was started before the session");
    carriers(&pair, 2).await;
    (pair, proxy)
}

/// Waits until both ends have this many connections.
async fn carriers(pair: &Pair, count: usize) {
    bounded(async {
        while pair.a.carriers() != count || pair.b.carriers() != count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Cuts both connections as the kernel does for a killed process; later connections stall.
async fn cut_all(pair: &Pair, proxy: &Proxy) {
    for number in 2..20 {
        proxy.set(number, Way::Stalled);
    }
    proxy.set(0, Way::Cut);
    proxy.set(1, Way::Cut);
    carriers(pair, 0).await;
}

/// Sends some streams, disturbs the line in the middle, and checks that each stream arrives whole
/// and once.
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
    // One fail-over is due. A machine so busy that nothing moves for long may cause more; their
    // interval bounds the number.
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
async fn stalled_connection_fails_over() {
    for by in By::ALL {
        let (mut pair, proxy) = through_proxy(by, Way::Slow(4_000)).await;
        send_around(&mut pair, || proxy.set(0, Way::Stalled)).await;
        // Lets the next standby be dialled.
        bounded(proxy.count(3)).await;
    }
}

#[tokio::test]
async fn broken_connection_fails_over() {
    for by in By::KERNEL {
        for way in [Way::Cut, Way::HalfClosed, Way::Reset] {
            let (mut pair, proxy) = through_proxy(by, Way::Slow(4_000)).await;
            send_around(&mut pair, || proxy.set(0, way)).await;
        }
    }
}

#[tokio::test]
async fn stalled_standby_fails_over_again() {
    for by in By::KERNEL {
        let (mut pair, proxy) = through_proxy(by, Way::Open).await;
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
}

#[tokio::test]
async fn session_without_connection_ends() {
    for by in By::KERNEL {
        let (pair, proxy) = through_proxy(by, Way::Open).await;
        cut_all(&pair, &proxy).await;
        // A session goes on if a connection joins in time, and times out again when that one is gone.
        proxy.set_all(Way::Open);
        carriers(&pair, 2).await;
        proxy.set_all(Way::Cut);
        for connection in [&pair.a, &pair.b] {
            assert_eq!(bounded(connection.closed()).await, DownCause::TimedOut);
        }
    }
}

#[tokio::test]
async fn session_unknown_to_peer_ends() {
    for by in By::KERNEL {
        let (pair, proxy) = through_proxy(by, Way::Open).await;
        cut_all(&pair, &proxy).await;
        // The peer has no connection left on which to receive this close.
        pair.b.close(CloseCode::Shutdown, "restarted");
        proxy.set_all(Way::Open);
        let cause = DownCause::ByPeer {
            code: CloseCode::Shutdown,
            reason: "the session is over".into(),
        };
        assert_eq!(bounded(pair.a.closed()).await, cause);
    }
}
