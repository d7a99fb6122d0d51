//! Proves that one thread's loop carries many sessions, and that none of them harms another: one that is
//! not read, comes in single bytes, or is broken.

use std::time::Duration;

use thalweg_link::hop::{CloseCode, DownCause};
use thalweg_link::tcp_mux::CarrierNumber;

use super::proxy::{Proxy, Way};
use super::*;

/// Dials that run at once: fewer than a listener has places for.
const AT_ONCE: usize = 16;

/// One end in the clear, with a loop that carries all sessions; and the other ends, with a loop of theirs.
async fn crowd(sinks: usize) -> (Options, Listener, Vec<Options>) {
    let clear = || {
        Some(Arc::new(
            ClearLoop::start().expect("Linux has what it needs"),
        ))
    };
    let (mut relay, theirs) = (options(Pacing::Kernel), clear());
    relay.clear = clear();
    let mut all = Vec::new();
    for _ in 0..sinks {
        let mut sink = options(Pacing::Kernel);
        sink.plain.insert(relay.identity.id());
        sink.clear.clone_from(&theirs);
        // As many connections as sinks.
        sink.standbys = 0;
        relay.plain.insert(sink.identity.id());
        all.push(sink);
    }
    let admission = Admission::of(all.iter().map(|sink| sink.identity.id()));
    let listener = listen(&relay, admission).await;
    (relay, listener, all)
}

/// Sends one stream and returns whether all of it has arrived.
async fn is_carried(from: &Connection, to: &Connection, bytes: Bytes) -> bool {
    let stream = from.open(0).expect("the peer admits it");
    let writing = write_all(from, stream, bytes.clone());
    let reading = async {
        let stream = to.accept().await.expect("the session lives");
        stream.collect(1 << 23).await
    };
    let (written, read) = bounded(async { tokio::join!(writing, reading) }).await;
    written == Written::All && read == Ok(bytes.to_vec())
}

/// Returns the ends of many sessions; those of one place need not be of one session.
async fn dialled(count: usize) -> (Vec<(Connection, Events, Connection)>, Listener) {
    let (relay, mut listener, sinks) = crowd(count).await;
    let (relay, address) = (relay.identity.id(), listener.addresses()[0]);
    let mut ends = Vec::new();
    let mut sinks = sinks.into_iter();
    while ends.len() < count {
        let mut dials = tokio::task::JoinSet::new();
        for sink in sinks.by_ref().take(AT_ONCE) {
            dials.spawn(async move { dial(&sink, relay, &[address]).await });
        }
        for _ in 0..dials.len() {
            let (near, events) = bounded(listener.accept()).await.expect("it listens");
            let (far, _) = bounded(dials.join_next())
                .await
                .expect("one is left")
                .expect("it does not panic")
                .expect("both know each other");
            ends.push((near, events, far));
        }
    }
    (ends, listener)
}

#[tokio::test(flavor = "multi_thread")]
async fn loop_carries_200_sinks() {
    const SINKS: usize = 200;
    const ADUS: usize = 20;
    let (mut ends, _listener) = dialled(SINKS).await;
    let far: Vec<_> = ends.iter().map(|(_, _, far)| far.clone()).collect();
    let reading: Vec<_> = far
        .into_iter()
        .map(|far| {
            tokio::spawn(async move {
                let mut numbers = Vec::new();
                for _ in 0..ADUS {
                    let stream = far.accept().await.expect("the session lives");
                    let number = stream.number().0 as usize;
                    let bytes = stream.collect(1 << 20).await.expect("it is finished");
                    assert_eq!(bytes, pattern(number, 4_167));
                    numbers.push(number);
                }
                numbers
            })
        })
        .collect();
    for number in 0..ADUS {
        for (near, _, _) in &ends {
            let stream = near.open(0).expect("the peer admits it");
            assert_eq!(
                write_all(near, stream, pattern(number, 4_167)).await,
                Written::All
            );
        }
    }
    for reading in reading {
        let numbers = bounded(reading).await.expect("it does not panic");
        assert_eq!(numbers, (0..ADUS).collect::<Vec<_>>());
    }
    for (_, events, _) in &mut ends {
        acknowledged(events, ADUS).await;
    }
    for (near, _, _) in &ends {
        near.close(CloseCode::Shutdown, "enough");
    }
    for (near, _, far) in &ends {
        let cause = bounded(far.closed()).await;
        assert!(
            matches!(
                cause,
                DownCause::ByPeer {
                    code: CloseCode::Shutdown,
                    ..
                }
            ),
            "{cause}"
        );
        bounded(near.gone()).await;
    }
}

/// Three sessions in two loops, the first through a proxy; and the ends of each at the relay and the sink.
async fn three(way: Way) -> (Vec<(Connection, Events, Connection)>, Proxy, Listener) {
    let (relay, mut listener, sinks) = crowd(3).await;
    let address = listener.addresses()[0];
    let proxy = Proxy::start(address, way);
    let mut ends = Vec::new();
    for (place, sink) in sinks.iter().enumerate() {
        let address = if place == 0 { proxy.address } else { address };
        let dialled = bounded(dial(sink, relay.identity.id(), &[address])).await;
        let (far, _) = dialled.expect("both know each other");
        let (near, events) = bounded(listener.accept()).await.expect("it listens");
        ends.push((near, events, far));
    }
    (ends, proxy, listener)
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_sink_blocks_no_other() {
    let (ends, proxy, _listener) = three(Way::Open).await;
    proxy.set(0, Way::Stalled);
    let (stalled, _, _) = &ends[0];
    let stream = stalled.open(0).expect("the peer admits it");
    let mut large = pattern(0, 8_000_000);
    // More than its socket takes: the rest waits.
    assert_ne!(stalled.write(stream, &mut large), Written::All);
    for _ in 0..50 {
        for (near, _, far) in &ends[1..] {
            assert!(is_carried(near, far, pattern(1, 20_000)).await);
            assert!(is_carried(far, near, pattern(2, 20_000)).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trickle_is_put_together() {
    let (ends, proxy, _listener) = three(Way::Open).await;
    proxy.set(0, Way::Slow(1));
    let (near, _, far) = &ends[0];
    let trickling = is_carried(near, far, pattern(1, 1_500));
    let others = async {
        for _ in 0..20 {
            for (near, _, far) in &ends[1..] {
                assert!(is_carried(near, far, pattern(3, 200_000)).await);
            }
        }
    };
    let (is_whole, ()) = tokio::join!(trickling, others);
    assert!(is_whole);
    assert!(is_carried(far, near, pattern(2, 1_500)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_ends_one_session() {
    let (ends, proxy, _listener) = three(Way::Open).await;
    proxy.set(0, Way::Garbage);
    let (near, _, far) = &ends[0];
    for end in [near, far] {
        // Nothing else passes, so each end finds it itself.
        let cause = bounded(end.closed()).await;
        assert!(matches!(cause, DownCause::Other(_)), "{cause}");
        bounded(end.gone()).await;
    }
    for (near, _, far) in &ends[1..] {
        assert!(is_carried(near, far, pattern(1, 20_000)).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_session_goes_on() {
    let (ends, proxy, _listener) = three(Way::Open).await;
    proxy.set(0, Way::Reset);
    let (near, _, far) = &ends[0];
    // The dialling end joins another connection: the session goes on.
    bounded(async {
        while near.active() < Some(CarrierNumber(1)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert!(is_carried(near, far, pattern(1, 20_000)).await);
    for (near, _, far) in &ends[1..] {
        assert!(is_carried(near, far, pattern(1, 20_000)).await);
    }
}
