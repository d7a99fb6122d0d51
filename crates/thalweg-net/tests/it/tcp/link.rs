//! Proves that a link over TCP is a full link: each ADU ends in one outcome, also while connections
//! stall and break; and a peer dialled over QUIC first is linked over TCP where UDP is blocked, and
//! later over QUIC again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_base::id::Epoch;
use thalweg_base::time::Duration;
use thalweg_net::{
    Addresses, BodyError, Carriage, CloseCode, DownCause, Link, LinkEvent, Lots, OrderedId,
    Outcome, StreamCode, Transport, Unreachable,
};
use tokio::net::UdpSocket;

use super::proxy::{Proxy, Way};
use super::*;
use crate::node::{Node, Over, Seen, by, header};

/// Two nodes with a link over TCP through a proxy, with its standby up.
async fn through_proxy(over: Over, way: Way) -> (Node, Node, Link, Proxy) {
    let (a, b) = Node::start_two(over).await;
    a.admits(&b);
    b.admits(&a);
    let proxy = Proxy::start(b.endpoint.listening_tcp()[0], way);
    let addresses = Addresses::tcp(&[proxy.address]);
    let link = bounded(a.endpoint.dial(b.id(), addresses)).await;
    let link = link.expect("both admit each other");
    bounded(async {
        while link.stats().paths.len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await;
    (a, b, link, proxy)
}

async fn next_link(node: &Node, transport: Transport) -> Link {
    node.next(|seen| match seen {
        Seen::Link(LinkEvent::Up(link)) if link.transport() == transport => Some(link),
        _ => None,
    })
    .await
}

const LANE: Carriage = Carriage::Ordered(OrderedId {
    stream: thalweg_base::id::StreamId(7),
    epoch: Epoch(1),
});

#[tokio::test(flavor = "multi_thread")]
async fn stats_cover_all_tcp_connections() {
    for over in Over::TCP {
        let (_a, b, link, proxy) = through_proxy(over, Way::Open).await;
        let sending = link.send_adu(header(0), pattern(0, 500_000), by(Carriage::Stream));
        assert_eq!(bounded(sending).await, Outcome::Acknowledged);
        let stats = link.stats();
        assert_eq!(stats.transport, Transport::Tcp);
        let (first, others) = stats.paths.split_first().expect("one carries");
        assert!(first.is_selected && others.iter().all(|path| !path.is_selected));
        let to_proxy = thalweg_net::link::Remote::Tcp(proxy.address);
        assert!(stats.paths.iter().all(|path| path.remote == to_proxy));
        assert!(stats.sent.as_bytes() > 500_000, "{}", stats.sent);
        assert!(stats.received.as_bytes() > 0);
        assert!(stats.rtt > Duration::ZERO && stats.rtt < Duration::from_secs(10));
        assert!(stats.congestion_window.as_bytes() > 0);
        assert!(link.sendable_rate().is_some());
        assert!(link.outbox().sendable_rate.is_some());
        let back = next_link(&b, Transport::Tcp).await;
        // A connection counts its bytes when its turn ends, which may be after the acknowledgement.
        bounded(async {
            while back.stats().received.as_bytes() <= 500_000 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn control_overtakes_queued_adus() {
    for over in Over::TCP {
        let (_a, b, link, _proxy) = through_proxy(over, Way::Slow(1_000)).await;
        for sequence in 0..4 {
            link.send_adu(header(sequence), pattern(1, 400_000), by(Carriage::Stream))
                .detach(0);
        }
        bounded(link.send_control(pattern(2, 2_000)))
            .await
            .expect("it is up");
        let mut adus = 0;
        b.next(|seen| match seen {
            Seen::Control(..) => Some(()),
            Seen::Adu(..) => {
                adus += 1;
                None
            }
            _ => None,
        })
        .await;
        assert!(adus < 4, "{adus} of 4 came before the control frame");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_adus_are_reset() {
    for over in Over::TCP {
        let (a, b, link, _proxy) = through_proxy(over, Way::Slow(500)).await;
        let mut late = header(0);
        late.deadline = a.endpoint.clock().now() + Duration::from_secs(2);
        let sending = link.send_adu(late, pattern(0, 4_000_000), by(Carriage::Stream));
        assert_eq!(bounded(sending).await, Outcome::Expired);
        let (_, payload) = b.next_adu().await;
        let reasons = [BodyError::Reset(StreamCode::Expired), BodyError::Expired];
        assert!(reasons.contains(&payload.expect_err("it expired")));
        let sending = link.send_adu(header(1), pattern(1, 4_000_000), by(Carriage::Stream));
        let before = link.stats().sent;
        let sending = tokio::spawn(sending);
        while link.stats().sent.as_bytes() < before.as_bytes() + 200_000 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        // Aborting the task cancels the ADU.
        sending.abort();
        let (received, payload) = b.next_adu().await;
        assert_eq!(received.sequence.0, 1);
        assert_eq!(payload, Err(BodyError::Reset(StreamCode::Cancelled)));
        let sending = link.send_adu(header(2), pattern(2, 1_000), by(Carriage::Stream));
        assert_eq!(bounded(sending).await, Outcome::Acknowledged);
        assert_eq!(b.next_adu().await.1.expect("whole"), pattern(2, 1_000));
        let mut past = header(3);
        past.deadline = a.endpoint.clock().now();
        let sending = link.send_adu(past, pattern(3, 10), by(Carriage::Stream));
        assert_eq!(bounded(sending).await, Outcome::Expired);
        let counters = link.counters();
        assert_eq!(counters.of(Outcome::Expired), 2);
        assert_eq!(counters.of(Outcome::Cancelled), 1);
        assert_eq!(link.in_flight(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fail_over_delivers_exactly_once() {
    const COUNT: u64 = 60;
    const BYTES: usize = 20_000;
    for (over, failing) in [
        (Over::Tcp(Pacing::Kernel), Way::Stalled),
        (Over::Tcp(Pacing::Acked), Way::Stalled),
        (Over::Tcp(Pacing::Kernel), Way::Cut),
        (Over::Loop(Pacing::Kernel), Way::Stalled),
        (Over::Loop(Pacing::Acked), Way::Stalled),
        (Over::Loop(Pacing::Kernel), Way::Cut),
    ] {
        let (_a, b, link, proxy) = through_proxy(over, Way::Slow(2_000)).await;
        let unordered = tokio::spawn({
            let link = link.clone();
            async move {
                let mut all = tokio::task::JoinSet::new();
                for sequence in 0..COUNT {
                    let payload = pattern(sequence as usize, BYTES);
                    all.spawn(link.send_adu(header(sequence), payload, by(Carriage::Stream)));
                }
                all.join_all().await
            }
        });
        let ordered = tokio::spawn({
            let link = link.clone();
            async move {
                for sequence in COUNT..2 * COUNT {
                    let payload = pattern(sequence as usize, BYTES);
                    let sending = link.send_adu(header(sequence), payload, by(LANE));
                    assert_eq!(sending.await, Outcome::Departed);
                }
            }
        });
        let (mut arrivals, mut lane) = (BTreeMap::new(), Vec::new());
        for number in 0..2 * COUNT {
            let (header, payload) = b.next_adu().await;
            let sequence = header.sequence.0;
            let expected = pattern(sequence as usize, BYTES);
            assert_eq!(payload.expect("it is whole"), expected);
            *arrivals.entry(sequence).or_insert(0) += 1;
            if sequence >= COUNT {
                lane.push(sequence);
            }
            if number == 10 {
                proxy.set(0, failing);
            }
        }
        assert_eq!(arrivals.len() as u64, 2 * COUNT, "{over:?} {failing:?}");
        assert!(arrivals.values().all(|times| *times == 1));
        assert!(lane.is_sorted());
        let outcomes = bounded(unordered).await.expect("it does not panic");
        let all_there = |outcome: &Outcome| *outcome == Outcome::Acknowledged;
        assert!(outcomes.iter().all(all_there), "{outcomes:?}");
        bounded(ordered).await.expect("it does not panic");
        let Carriage::Ordered(lane) = LANE else {
            unreachable!("it is one");
        };
        let end = bounded(link.finish_ordered(lane)).await;
        assert_eq!(end, Outcome::Acknowledged);
        assert!(link.stats().failovers >= 1);
        assert!(!link.is_closed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lots_keep_the_order_of_a_link() {
    const COUNT: u64 = 150;
    for over in Over::TCP {
        let [source, first, second]: [Node; 3] = Box::pin(Node::start_many(over)).await;
        let sinks = [first, second];
        let mut links = Vec::new();
        for sink in &sinks {
            source.admits(sink);
            sink.admits(&source);
            links.push(source.dial(sink).await);
        }
        for sequence in 0..COUNT {
            let mut lots = Lots::default();
            for (place, link) in links.iter().enumerate() {
                let token = 2 * sequence + place as u64;
                let sending = link.send_adu(header(sequence), pattern(1, 4_000), by(LANE));
                // Both in the lot, then each of them alone beside it.
                if sequence % 3 == place as u64 {
                    sending.detach(token);
                } else {
                    sending.detach_with(token, &mut lots);
                }
            }
            lots.hand_over();
        }
        for sink in &sinks {
            for sequence in 0..COUNT {
                let (header, payload) = sink.next_adu().await;
                assert_eq!(header.sequence.0, sequence, "{over:?}");
                assert_eq!(payload.expect("whole"), pattern(1, 4_000));
            }
        }
        // What is handed over as a link ends, or after, has its outcome too.
        for token in 2 * COUNT..2 * COUNT + 40 {
            let mut lots = Lots::default();
            for link in &links {
                link.send_adu(header(token), pattern(1, 4_000), by(Carriage::Stream))
                    .detach_with(token, &mut lots);
            }
            if token == 2 * COUNT + 20 {
                links[0].close(CloseCode::Shutdown, "a test");
            }
        }
        let all: Vec<u64> = (0..2 * COUNT)
            .chain((2 * COUNT..2 * COUNT + 40).flat_map(|token| [token, token]))
            .collect();
        bounded(async {
            while source.stall.tokens().len() < all.len() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        })
        .await;
        assert_eq!(source.stall.tokens(), all, "{over:?}: each ends once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_key_is_reported() {
    let over = Over::Tcp(Pacing::Kernel);
    let (a, b) = (Node::start_over(over).await, Node::start_over(over).await);
    let expected_key = Identity::ephemeral().id();
    a.admission.admit(expected_key);
    b.admits(&a);
    let dialled = a.endpoint.dial(expected_key, b.addresses());
    let refused = bounded(dialled).await.expect_err("b is another");
    let expected = Unreachable::WrongKey {
        addresses: b.endpoint.listening_tcp()[0].to_string(),
        peer: expected_key,
    };
    assert_eq!(refused, expected);
    assert!(b.endpoint.links().is_empty());
}

/// Returns a bare session with a node, from an admitted key.
async fn session_with(node: &Node) -> (Connection, Events) {
    let here = options(Pacing::Kernel);
    node.admission.admit(here.identity.id());
    bounded(dial(&here, node.id(), node.endpoint.listening_tcp()))
        .await
        .expect("it is admitted")
}

async fn end_of(connection: &Connection) -> CloseCode {
    match bounded(connection.closed()).await {
        DownCause::ByPeer { code, .. } => code,
        cause => panic!("{cause}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_stream_is_stopped() {
    let b = Node::start_over(Over::Tcp(Pacing::Kernel)).await;
    let (connection, _events) = session_with(&b).await;
    let stream = connection.open(0).expect("there is room");
    let mut adu_first = Bytes::from_static(&[1]);
    connection.write(stream, &mut adu_first);
    assert_eq!(end_of(&connection).await, CloseCode::Protocol);
    assert!(b.endpoint.links().is_empty());

    let (connection, mut events) = session_with(&b).await;
    let control = connection.open(0).expect("there is room");
    connection.write(control, &mut Bytes::from_static(&[0]));
    let link = next_link(&b, Transport::Tcp).await;
    for garbage in [&[9, 9, 9][..], &[1, 255, 255, 255]] {
        let stream = connection.open(0).expect("there is room");
        connection.write(stream, &mut Bytes::copy_from_slice(garbage));
        let stopped = async {
            loop {
                let event = events.next().await.expect("the session lives");
                if let Event::Stopped(which, code) = event {
                    return (which, code);
                }
            }
        };
        assert_eq!(bounded(stopped).await, (stream, StreamCode::Protocol));
    }
    let sent = connection.send_datagram(Bytes::from_static(&[1, 2, 3]));
    assert!(sent.is_ok(), "{sent:?}");
    bounded(async {
        while link.counters().malformed < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await;
    assert_eq!(link.counters().unknown_kinds, 1);
    assert!(!link.is_closed());
    connection.reset(control, StreamCode::Cancelled);
    assert_eq!(end_of(&connection).await, CloseCode::Protocol);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_drains_link() {
    for over in Over::TCP {
        let (a, b, link, _proxy) = through_proxy(over, Way::Slow(1_000)).await;
        for sequence in 0..20 {
            link.send_adu(header(sequence), pattern(0, 10_000), by(Carriage::Stream))
                .detach(0);
            let datagram = link.send_adu(
                header(40 + sequence),
                pattern(0, 100),
                by(Carriage::Datagram),
            );
            assert_eq!(bounded(datagram).await, Outcome::Departed);
            let ordered = link.send_adu(header(20 + sequence), pattern(0, 1_000), by(LANE));
            assert_eq!(bounded(ordered).await, Outcome::Departed);
        }
        bounded(a.endpoint.shutdown(Duration::from_secs(30))).await;
        let mut adus = 0;
        let cause = b
            .next(|seen| match seen {
                Seen::Adu(_, payload) => {
                    adus += u32::from(payload.is_ok());
                    None
                }
                Seen::Link(LinkEvent::Down { cause, .. }) => Some(cause),
                _ => None,
            })
            .await;
        assert_eq!(adus, 60);
        let is_farewell = matches!(
            &cause,
            DownCause::ByPeer {
                code: CloseCode::Shutdown,
                ..
            }
        );
        assert!(is_farewell, "{cause}");
        let rest = a.rest().await;
        let outcomes = rest.iter().filter_map(|seen| match seen {
            Seen::Outcome(outcome) => Some(*outcome),
            _ => None,
        });
        let outcomes: Vec<_> = outcomes.collect();
        assert_eq!(outcomes, vec![Outcome::Acknowledged; 20]);
    }
}

/// A UDP forwarder that drops everything until it is opened.
struct Firewall {
    address: SocketAddr,
    is_open: Arc<AtomicBool>,
}

impl Firewall {
    async fn start(before: SocketAddr) -> Self {
        let socket = UdpSocket::bind(loopback()).await.expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        let is_open = Arc::new(AtomicBool::new(false));
        let opened = is_open.clone();
        tokio::spawn(async move {
            let (mut buffer, mut client) = (vec![0; 65_536], None);
            while let Ok((bytes, from)) = socket.recv_from(&mut buffer).await {
                let to = if from == before {
                    client
                } else {
                    client = Some(from);
                    Some(before)
                };
                if let Some(to) = to.filter(|_| opened.load(Ordering::Relaxed)) {
                    // QUIC retransmits what is lost.
                    let _ = socket.send_to(&buffer[..bytes], to).await;
                }
            }
        });
        Self { address, is_open }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_udp_falls_back_to_tcp() {
    let b = Node::start_over(Over::Tcp(Pacing::Kernel)).await;
    let mut options = crate::node::options(1);
    options.tcp.head_start = Duration::from_millis(500);
    options.tcp.retry = Duration::from_millis(200);
    let a = Node::start_with(options).await;
    a.admits(&b);
    b.admits(&a);
    let firewall = Firewall::start(b.address()).await;
    let addresses = Addresses {
        udp: vec![firewall.address],
        tcp: b.endpoint.listening_tcp().to_vec(),
        relays: Vec::new(),
        ..Addresses::default()
    };
    a.endpoint.keep_dialled(b.id(), addresses, 1);
    let link = next_link(&a, Transport::Tcp).await;
    let sending = link.send_adu(header(1), pattern(1, 100_000), by(Carriage::Stream));
    assert_eq!(bounded(sending).await, Outcome::Acknowledged);
    firewall.is_open.store(true, Ordering::Relaxed);
    let better = next_link(&a, Transport::Quic).await;
    let sending = better.send_adu(header(2), pattern(2, 100_000), by(Carriage::Stream));
    assert_eq!(bounded(sending).await, Outcome::Acknowledged);
    // The previous link goes once it is drained.
    bounded(link.closed()).await;
    assert_eq!(a.endpoint.links().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_peer_has_both_reasons() {
    let mut options = crate::node::options(1);
    options.tcp.head_start = Duration::from_millis(100);
    let a = Node::start_with(options).await;
    let absent = Identity::ephemeral().id();
    a.admission.admit(absent);
    let silent = UdpSocket::bind(loopback()).await.expect("a free port");
    let udp = silent.local_addr().expect("it is bound");
    let tcp = std::net::TcpListener::bind(loopback())
        .and_then(|listener| listener.local_addr())
        .expect("a free port");
    let addresses = Addresses {
        udp: vec![udp],
        tcp: vec![tcp],
        relays: Vec::new(),
        ..Addresses::default()
    };
    let refused = bounded(a.endpoint.dial(absent, addresses)).await;
    let sentence = refused.expect_err("nobody is there").to_string();
    let expected =
        format!("no answer from {udp}: timed out; and over TCP: cannot reach {absent}: ");
    assert!(sentence.starts_with(&expected), "{sentence}");
    assert!(sentence.contains(&tcp.to_string()), "{sentence}");
}
