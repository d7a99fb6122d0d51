//! Proves that all packets between two nodes take the line, and how deadlines and priorities work
//! on it.

use thalweg_base::adu::{Header, Importance};
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_net::link::Remote;
use thalweg_net::shaper::{Direction, HEADER_BYTES};
use thalweg_net::{
    Carriage, CloseCode, DownCause, Link, OrderedId, Outcome, Shaper, ShaperOptions,
};
use tokio::net::UdpSocket;

use crate::node::{
    Node, Seen, bounded, by, header, impairment, line, loopback, pair_through, pattern,
};

#[tokio::test(flavor = "multi_thread")]
async fn all_traffic_takes_the_line() {
    let (a, b, link, shaper) = pair_through(Bitrate::from_kbps(20_000)).await;
    let sending = link.send_adu(header(1), pattern(1 << 20), by(Carriage::Stream));
    assert_eq!(bounded(sending).await, Outcome::Acknowledged);
    assert!(b.next_adu().await.1.is_ok());
    // By now iroh has searched for other paths, which it does right after the handshake.
    let at_b = &b.endpoint.links()[0];
    for (link, address, direction) in [
        (&link, shaper.address(), Direction::BToA),
        (at_b, shaper.far_address(), Direction::AToB),
    ] {
        let stats = link.stats();
        assert_eq!(stats.paths.len(), 1, "{:?}", stats.paths);
        assert_eq!(stats.paths[0].remote, Remote::Address(address));
        let counters = shaper.counters(direction);
        let carried = counters.bytes - counters.packets * HEADER_BYTES as u64;
        let received = stats.received.as_bytes();
        // A dozen packets that just left the line may not be counted at both places yet.
        assert!(
            carried.abs_diff(received) < 20_000,
            "{carried} on the line, {received} received"
        );
    }
    assert!(shaper.counters(Direction::AToB).bytes > 1 << 20);
    drop((a, b));
}

#[tokio::test(flavor = "multi_thread")]
async fn own_addresses_need_a_line() {
    let (a, b) = (Node::start(1).await, Node::start(2).await);
    a.admits(&b);
    b.admits(&a);
    let dialled = bounded(a.endpoint.dial(b.id(), &[b.address()])).await;
    assert!(dialled.is_err());
    assert!(b.rest().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn late_adu_is_reset() {
    let (a, b, link, shaper) = pair_through(Bitrate::from_kbps(20_000)).await;
    shaper.set(Direction::AToB, impairment(Bitrate::from_kbps(100)));
    let mut late = header(1);
    late.deadline = a.endpoint.clock().now() + Duration::from_millis(500);
    // Eight seconds' worth at 100 kbit/s.
    let sending = link.send_adu(late, pattern(100_000), by(Carriage::Stream));
    assert_eq!(bounded(sending).await, Outcome::Expired);
    shaper.set(Direction::AToB, impairment(Bitrate::from_kbps(20_000)));
    let sending = link.send_adu(header(2), pattern(10), by(Carriage::Stream));
    assert_eq!(bounded(sending).await, Outcome::Acknowledged);
    // The late ADU's header may have arrived; its payload is given up, whichever end's clock
    // expires first.
    loop {
        let (received, payload) = b.next_adu().await;
        if received.sequence.0 == 2 {
            assert_eq!(payload.expect("whole"), pattern(10));
            break;
        }
        assert!(payload.is_err());
    }
    let mut gone = header(3);
    gone.deadline = a.endpoint.clock().now() - Duration::from_millis(1);
    let sending = link.send_adu(gone, pattern(10), by(Carriage::Stream));
    assert_eq!(bounded(sending).await, Outcome::Expired);
    assert_eq!(link.counters().of(Outcome::Expired), 2);
}

/// Returns the header of an ADU more important than those of [`header`].
fn urgent(sequence: u64) -> Header {
    Header {
        importance: Importance(10),
        ..header(sequence)
    }
}

/// Sends ADUs with these sequence numbers, one after the other.
async fn flood(
    link: Link,
    sequences: impl Iterator<Item = u64>,
    payload_bytes: usize,
    carriage: Carriage,
) {
    for sequence in sequences {
        let sending = link.send_adu(header(sequence), pattern(payload_bytes), by(carriage));
        if !sending.await.is_sent() {
            return;
        }
    }
}

/// Sends a control frame and returns how many ADUs arrive before it.
async fn before_control(b: &Node, link: &Link) -> usize {
    bounded(link.send_control(bytes::Bytes::from_static(b"urgent")))
        .await
        .expect("the link is up");
    let mut before = 0;
    loop {
        match b.next(Some).await {
            Seen::Adu(..) => before += 1,
            Seen::Control(..) => return before,
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn important_adu_overtakes_queue() {
    let (_a, b, link, shaper) = pair_through(Bitrate::from_kbps(20_000)).await;
    // The queue holds everything: a lost and retransmitted packet would also arrive out of order.
    let way = thalweg_net::Impairment {
        queue: DataSize::from_kib(1024),
        ..impairment(Bitrate::from_kbps(1_000))
    };
    shaper.set(Direction::AToB, way);
    for sequence in 0..20 {
        link.send_adu(header(sequence), pattern(20_000), by(Carriage::Stream))
            .detach(0);
    }
    link.send_adu(urgent(99), pattern(2_000), by(Carriage::Stream))
        .detach(0);
    let mut order = Vec::new();
    while order.len() < 21 {
        let sequence = b
            .next(|seen| match seen {
                Seen::Adu(header, Ok(_)) => Some(header.sequence.0),
                _ => None,
            })
            .await;
        order.push(sequence);
    }
    let place = order.iter().position(|sequence| *sequence == 99);
    // ADUs with packets already on the line come first, at most the line's queue of them.
    assert!(place.is_some_and(|place| place <= 5), "{order:?}");
    let mut others = order.clone();
    others.retain(|sequence| *sequence != 99);
    assert!(
        others.is_sorted(),
        "equal priorities keep their order: {order:?}"
    );
}

/// Slows the line down, with room for everything: lost and retransmitted packets would also arrive
/// out of order.
fn slow(shaper: &Shaper) {
    let way = thalweg_net::Impairment {
        queue: DataSize::from_kib(1024),
        ..impairment(Bitrate::from_kbps(1_000))
    };
    shaper.set(Direction::AToB, way);
}

#[tokio::test(flavor = "multi_thread")]
async fn important_adu_overtakes_begun_one() {
    let (_a, b, link, shaper) = pair_through(Bitrate::from_kbps(20_000)).await;
    slow(&shaper);
    // Four seconds' worth, sent at once.
    link.send_adu(header(0), pattern(500_000), by(Carriage::Stream))
        .detach(0);
    link.send_adu(urgent(99), pattern(2_000), by(Carriage::Stream))
        .detach(0);
    let first = b
        .next(|seen| match seen {
            Seen::Adu(header, Ok(_)) => Some(header.sequence.0),
            _ => None,
        })
        .await;
    assert_eq!(first, 99);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_overtakes_endless_sequence() {
    let (_a, b, link, shaper) = pair_through(Bitrate::from_kbps(20_000)).await;
    slow(&shaper);
    let id = OrderedId {
        stream: StreamId(1),
        epoch: Epoch(1),
    };
    let flooding = tokio::spawn(flood(link.clone(), 0.., 20_000, Carriage::Ordered(id)));
    // Once the first ADU has arrived, the sequence is under way and its buffer full or filling.
    b.next(|seen| matches!(seen, Seen::Adu(..)).then_some(()))
        .await;
    let before = before_control(&b, &link).await;
    // Behind a sequence that cannot be interrupted, the frame would never arrive.
    assert!(before < 40, "{before} ADUs came first");
    flooding.abort();
}

/// QUIC puts datagrams into a packet before stream data.
#[tokio::test(flavor = "multi_thread")]
async fn control_overtakes_endless_datagrams() {
    let (_a, b, link, shaper) = pair_through(Bitrate::from_kbps(20_000)).await;
    slow(&shaper);
    let mut flooding = tokio::task::JoinSet::new();
    for first in 0..20 {
        let sequences = (first..).step_by(20);
        flooding.spawn(flood(link.clone(), sequences, 900, Carriage::Datagram));
    }
    for _ in 0..5 {
        // By then the line is full and more ADUs are queued.
        for _ in 0..50 {
            b.next(|seen| matches!(seen, Seen::Adu(..)).then_some(()))
                .await;
        }
        let before = before_control(&b, &link).await;
        // About ten may be in flight; behind endless datagrams the frame would never arrive.
        assert!(before < 40, "{before} ADUs came first");
    }
    flooding.abort_all();
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_peer_is_found() {
    let quick = |host| {
        let mut options = crate::node::options(host);
        options.idle_timeout = Duration::from_millis(1500);
        options
    };
    let a = Node::start_with(quick(1)).await;
    let b = Node::start_with(quick(2)).await;
    a.admits(&b);
    b.admits(&a);
    let shaper = line(&a, &b, Bitrate::from_kbps(20_000)).await;
    let link = bounded(a.endpoint.dial(b.id(), &[shaper.address()]))
        .await
        .expect("the line carries the handshake");
    for direction in [Direction::AToB, Direction::BToA] {
        shaper.set(direction, impairment(Bitrate::ZERO));
    }
    let sending = link.send_adu(header(1), pattern(10_000), by(Carriage::Stream));
    assert_eq!(bounded(sending).await, Outcome::LinkLost);
    assert_eq!(bounded(link.closed()).await, DownCause::TimedOut);
}

#[tokio::test(flavor = "multi_thread")]
async fn line_delivers_and_counts() {
    let b = UdpSocket::bind(loopback(2)).await.expect("a free port");
    let a = UdpSocket::bind(loopback(1)).await.expect("a free port");
    let way = impairment(Bitrate::from_kbps(1_000));
    let shaper = Shaper::start(ShaperOptions {
        from: loopback(1),
        towards: b.local_addr().expect("it is bound"),
        a_to_b: way,
        b_to_a: thalweg_net::Impairment {
            queue: DataSize::from_bytes(1_000),
            ..way
        },
        seed: 3,
    })
    .await
    .expect("loopback has free ports");
    let mut buffer = [0; 2000];
    for number in 0..10_u8 {
        a.send_to(&[number; 472], shaper.address())
            .await
            .expect("loopback");
    }
    for number in 0..10_u8 {
        let (bytes, from) = bounded(b.recv_from(&mut buffer)).await.expect("loopback");
        assert_eq!(
            (&buffer[..bytes], from),
            (&[number; 472][..], shaper.far_address())
        );
    }
    let there = shaper.counters(Direction::AToB);
    assert_eq!((there.packets, there.bytes), (10, 10 * 500));
    // The way back has room for one packet on the line and two in the queue.
    for number in 0..10_u8 {
        b.send_to(&[number; 472], shaper.far_address())
            .await
            .expect("loopback");
    }
    for _ in 0..3 {
        bounded(a.recv_from(&mut buffer)).await.expect("loopback");
    }
    bounded(async {
        loop {
            let back = shaper.counters(Direction::BToA);
            if back.packets + back.overflowed == 10 {
                return assert!(back.overflowed > 0);
            }
            let _ = tokio::time::timeout(
                std::time::Duration::from_millis(20),
                a.recv_from(&mut buffer),
            )
            .await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sendable_rate_follows_the_line() {
    let (_a, _b, link, shaper) = pair_through(Bitrate::from_kbps(8_000)).await;
    let mut sendable = link.sendable();
    let filling = tokio::spawn({
        let link = link.clone();
        async move {
            for sequence in 1.. {
                let sending =
                    link.send_adu(header(sequence), pattern(60_000), by(Carriage::Stream));
                if sending.await == Outcome::LinkLost {
                    return;
                }
            }
        }
    });
    let more = |kbps| move |rate: &Option<Bitrate>| *rate > Some(Bitrate::from_kbps(kbps));
    let risen = bounded(sendable.wait_for(more(4_000))).await;
    assert!(risen.is_ok(), "the link lives");
    drop(risen);
    shaper.set(Direction::AToB, impairment(Bitrate::from_kbps(1_000)));
    let fallen = |rate: &Option<Bitrate>| rate.is_some_and(|rate| rate < Bitrate::from_kbps(2_000));
    assert!(bounded(sendable.wait_for(fallen)).await.is_ok());
    shaper.set(Direction::AToB, impairment(Bitrate::from_kbps(8_000)));
    assert!(bounded(sendable.wait_for(more(3_000))).await.is_ok());
    link.close(CloseCode::Shutdown, "enough");
    assert!(bounded(sendable.wait_for(Option::is_none)).await.is_ok());
    bounded(filling).await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_link_recalls_path_rate() {
    let (a, b) = (Node::start(1).await, Node::start(2).await);
    a.admits(&b);
    b.admits(&a);
    let shaper = line(&a, &b, Bitrate::from_kbps(20_000)).await;
    let long = thalweg_net::Impairment {
        delay: Duration::from_millis(50),
        ..impairment(Bitrate::from_kbps(20_000))
    };
    for direction in [Direction::AToB, Direction::BToA] {
        shaper.set(direction, long);
    }
    let dial = || async {
        let dialled = bounded(a.endpoint.dial(b.id(), &[shaper.address()])).await;
        dialled.expect("the line carries the handshake")
    };
    let send = |link: Link, sequence, bytes| async move {
        let sending = link.send_adu(header(sequence), pattern(bytes), by(Carriage::Stream));
        assert_eq!(bounded(sending).await, Outcome::Acknowledged);
        link.stats().congestion_window.as_bytes()
    };
    let first = dial().await;
    let initial_window = send(first.clone(), 0, 100).await;
    let mut sequences = 1..;
    let mut more = |link: &Link, bytes| {
        let sequence = sequences.next().expect("they do not end");
        send(link.clone(), sequence, bytes)
    };
    // The endpoint samples its paths four times a second.
    let start = tokio::time::Instant::now();
    let mut window = 0;
    while start.elapsed() < std::time::Duration::from_secs(1) {
        window = more(&first, 200_000).await;
    }
    assert!(
        window > 4 * initial_window,
        "{window}: it found what the line carries"
    );
    first.close(CloseCode::Shutdown, "");
    bounded(first.closed()).await;
    let second = dial().await;
    // With so little data the window would never be full, and not grow.
    bounded(async { while more(&second, 100).await <= 2 * initial_window {} }).await;
}
