//! Proves that peers that reach each other directly move to the engine, and that the link over iroh
//! takes over when the engine fails: nothing is lost, nothing handed over twice, order is kept.

use std::collections::BTreeSet;

use thalweg_base::adu::Header;
use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_base::time::Duration;
use thalweg_net::link::Remote;
use thalweg_net::{
    Carriage, CloseCode, DownCause, Link, LinkEvent, Lots, OrderedId, Outcome, Transport,
};

use crate::node::{Node, Seen, bounded, by, header, loopback, options, pattern};

/// Starts a node with an engine.
async fn start() -> Node {
    let mut options = options(1);
    options.engine = Some(loopback(1));
    Node::start_with(options).await
}

/// Two nodes with engines; the first dials, and its key is the smaller one or not.
async fn pair(is_smaller: bool) -> (Node, Node) {
    let (mut a, mut b) = (start().await, start().await);
    if (a.id() < b.id()) != is_smaller {
        std::mem::swap(&mut a, &mut b);
    }
    a.admits(&b);
    b.admits(&a);
    (a, b)
}

async fn next_up(node: &Node) -> Link {
    let up = node.next(|seen| match seen {
        Seen::Link(LinkEvent::Up(link)) => Some(link),
        _ => None,
    });
    up.await
}

async fn next_down(node: &Node) -> (Link, DownCause) {
    let down = node.next(|seen| match seen {
        Seen::Link(LinkEvent::Down { link, cause }) => Some((link, cause)),
        _ => None,
    });
    down.await
}

/// Waits until both are linked over their engines; returns the links over iroh that stand by.
async fn moved(a: &Node, b: &Node) -> [Link; 2] {
    let first = a.dial(b).await;
    for node in [a, b] {
        let (old, cause) = next_down(node).await;
        assert_eq!(old.transport(), Transport::Quic);
        assert!(matches!(cause, DownCause::Replaced), "{cause}");
    }
    let [at_a, at_b] = [next_up(a).await, next_up(b).await];
    for link in [&at_a, &at_b] {
        assert_eq!(link.transport(), Transport::Engine);
    }
    assert_eq!(at_a.is_dialled(), a.id() < b.id(), "the smaller id dials");
    let [paths] = &at_a.stats().paths[..] else {
        panic!("one path");
    };
    let port = b.endpoint.listening_engine().expect("it has one");
    assert!(
        matches!(paths.remote, Remote::Engine(remote) if remote == port) || !at_a.is_dialled(),
        "{paths:?}"
    );
    [first, at_b]
}

#[tokio::test(flavor = "multi_thread")]
async fn direct_peers_move_to_the_engine() {
    for is_smaller in [true, false] {
        let (a, b) = pair(is_smaller).await;
        moved(&a, &b).await;
        for (from, to) in [(&a, &b), (&b, &a)] {
            let link = from.endpoint.link(to.id()).expect("it is up");
            let ordered = Carriage::Ordered(OrderedId {
                stream: StreamId(7),
                epoch: Epoch(0),
            });
            for (carriage, bytes) in [
                (Carriage::Stream, 3_000_000),
                (Carriage::Stream, 0),
                (Carriage::Datagram, 1000),
                (ordered, 100_000),
            ] {
                let sending = link.send_adu(header(1), pattern(bytes), by(carriage));
                assert!(bounded(sending).await.is_sent(), "{carriage:?}");
                assert_eq!(to.next_adu().await.1.expect("whole"), pattern(bytes));
            }
            let frame = bytes::Bytes::from_static(b"\xffframe");
            bounded(link.send_control(frame.clone())).await.expect("up");
            let arrived = to.next(|seen| match seen {
                Seen::Control(_, frame) => Some(frame),
                _ => None,
            });
            assert_eq!(
                arrived.await,
                frame,
                "the engine's port is not told to nodes"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_without_engine_stays_on_iroh() {
    let (a, b) = (start().await, Node::start(1).await);
    a.admits(&b);
    b.admits(&a);
    let link = a.dial(&b).await;
    let sending = link.send_adu(header(1), pattern(10), by(Carriage::Stream));
    assert_eq!(bounded(sending).await, Outcome::Acknowledged);
    let unknown = b.next(|seen| match seen {
        Seen::Control(_, frame) => Some(frame),
        Seen::Adu(..) => Some(bytes::Bytes::new()),
        _ => None,
    });
    assert!(unknown.await.is_empty(), "the port is read below the node");
    let present = a.endpoint.link(b.id()).expect("it is up");
    assert!(present.is_same(&link) && link.transport() == Transport::Quic);
}

/// Sends one ADU until it is acknowledged, as a node does that keeps it; returns how often.
async fn deliver(from: &Node, to: &Node, sequence: u64, carriage: Carriage) -> usize {
    let mut times = 0;
    loop {
        let Some(link) = from.endpoint.link(to.id()) else {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            continue;
        };
        times += 1;
        let sending = link.send_adu(header(sequence), pattern(2000), by(carriage));
        match bounded(sending).await {
            Outcome::LinkLost => {}
            outcome => {
                assert!(outcome.is_sent(), "{outcome:?}");
                return times;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn link_over_iroh_takes_over_from_cut_engine() {
    // The cut is at the sender, which knows it at once, or at the receiver, which says nothing.
    for is_here in [true, false] {
        let (a, b) = pair(is_here).await;
        let [first, _] = moved(&a, &b).await;
        let mut sent_again = BTreeSet::new();
        for sequence in 0..60 {
            if sequence == 20 {
                let cut = if is_here { &a } else { &b };
                cut.endpoint.cut_engine();
            }
            if deliver(&a, &b, sequence, Carriage::Stream).await > 1 {
                sent_again.insert(sequence);
            }
        }
        let mut arrived = BTreeSet::new();
        while arrived.len() < 60 {
            let (header, payload) = b.next_adu().await;
            if let Ok(payload) = payload {
                assert_eq!(payload, pattern(2000));
                let sequence = header.sequence.0;
                let is_new = arrived.insert(sequence);
                assert!(is_new || sent_again.contains(&sequence), "{sequence} twice");
            }
        }
        let present = a.endpoint.link(b.id()).expect("it is up");
        assert!(present.is_same(&first), "the old one, without a handshake");
        // The other way too, once that end has noticed.
        deliver(&b, &a, 100, Carriage::Stream).await;
        assert_eq!(a.next_adu().await.0.sequence.0, 100);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ordered_sequence_keeps_its_order_in_a_move() {
    let (a, b) = pair(true).await;
    a.dial(&b).await;
    let ordered = Carriage::Ordered(OrderedId {
        stream: StreamId(7),
        epoch: Epoch(0),
    });
    let mut sequence = 0;
    let mut since_moved = 0;
    while since_moved < 50 {
        assert_eq!(deliver(&a, &b, sequence, ordered).await.min(1), 1);
        sequence += 1;
        let link = a.endpoint.link(b.id());
        let has_moved = link.is_some_and(|link| link.transport() == Transport::Engine);
        since_moved += u64::from(has_moved);
    }
    for expected in 0..sequence {
        let (header, payload) = b.next_adu().await;
        assert_eq!(header.sequence.0, expected);
        assert_eq!(payload.expect("whole"), pattern(2000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_engine_and_standby() {
    let (a, b) = pair(true).await;
    moved(&a, &b).await;
    bounded(a.endpoint.shutdown(Duration::from_secs(1))).await;
    let (link, cause) = next_down(&b).await;
    assert_eq!(link.transport(), Transport::Engine);
    let is_shutdown =
        matches!(&cause, DownCause::ByPeer { code, .. } if *code == CloseCode::Shutdown);
    assert!(is_shutdown, "{cause}");
    let revived = b.rest().await.into_iter();
    let revived = revived.filter(|seen| matches!(seen, Seen::Link(LinkEvent::Up(_))));
    assert_eq!(revived.count(), 0);
    assert!(b.endpoint.links().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_peer_loses_engine_and_standby() {
    let (a, b) = pair(true).await;
    let [first, _] = moved(&a, &b).await;
    b.admission.revoke(a.id());
    let (_, cause) = next_down(&a).await;
    let is_refused =
        matches!(&cause, DownCause::ByPeer { code, .. } if *code == CloseCode::NotAdmitted);
    assert!(is_refused, "{cause}");
    bounded(first.closed()).await;
    // Each end removes its link once its own task has seen the close.
    let removed = async {
        while !(a.endpoint.links().is_empty() && b.endpoint.links().is_empty()) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    bounded(removed).await;
}

/// A node with links over its engine to two others.
async fn fan() -> (Node, [Node; 2], [Link; 2]) {
    let (source, sinks) = (start().await, [start().await, start().await]);
    for sink in &sinks {
        source.admits(sink);
        sink.admits(&source);
        moved(&source, sink).await;
    }
    let links = [0, 1].map(|place| source.endpoint.link(sinks[place].id()).expect("it is up"));
    (source, sinks, links)
}

/// Holds the loop of a node back, so that what is handed over waits; returns the next token.
async fn hold_back(source: &Node, link: &Link) -> u64 {
    source.stall.set();
    let mut token = source.stall.tokens().len() as u64;
    let holding = async {
        // A task may take an outcome instead of the loop.
        while !source.stall.is_held() {
            let header = Header::new(StreamId(9), Sequence(token));
            link.send_adu(header, pattern(1), by(Carriage::Stream))
                .detach(token);
            token += 1;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    bounded(holding).await;
    token
}

async fn ended(source: &Node, tokens: std::ops::Range<u64>) {
    let all: Vec<u64> = tokens.collect();
    let ended = async {
        while source.stall.tokens().len() < all.len() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    bounded(ended).await;
    assert_eq!(source.stall.tokens(), all, "each ends once");
}

#[tokio::test(flavor = "multi_thread")]
async fn lots_and_sends_keep_the_order_of_a_link() {
    let (source, sinks, links) = fan().await;
    let ordered = Carriage::Ordered(OrderedId {
        stream: StreamId(7),
        epoch: Epoch(0),
    });
    let mut token = 0;
    // Once with a loop that does nothing meanwhile, and once with one that is as fast as it can.
    for is_held in [true, false] {
        if is_held {
            token = hold_back(&source, &links[0]).await;
        }
        for sequence in 1..=40 {
            let mut lots = Lots::default();
            for (place, link) in links.iter().enumerate() {
                let sending = link.send_adu(header(sequence), pattern(100), by(ordered));
                // Both in the lot, then each of them alone beside it.
                if sequence % 3 == place as u64 {
                    sending.detach(token);
                } else {
                    sending.detach_with(token, &mut lots);
                }
                token += 1;
            }
            lots.hand_over();
        }
        source.stall.release();
        for sink in &sinks {
            for sequence in 1..=40 {
                let next = sink.next(|seen| match seen {
                    Seen::Adu(header, payload) => {
                        (header.stream.0 == 7).then_some((header, payload))
                    }
                    _ => None,
                });
                let (header, payload) = next.await;
                assert_eq!(header.sequence.0, sequence, "held back: {is_held}");
                assert_eq!(payload.expect("whole"), pattern(100));
            }
        }
        ended(&source, 0..token).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lots_of_a_lost_link_end_once() {
    let (source, sinks, links) = fan().await;
    let mut token = hold_back(&source, &links[0]).await;
    for what in ["before", "while it is lost", "after"] {
        for _ in 0..10 {
            let mut lots = Lots::default();
            for link in &links {
                let deadline = source.endpoint.clock().now() + Duration::from_secs(30);
                let header = Header {
                    deadline,
                    ..header(token)
                };
                link.send_adu(header, pattern(100), by(Carriage::Stream))
                    .detach_with(token, &mut lots);
                token += 1;
            }
        }
        match what {
            "before" => links[0].close(CloseCode::Shutdown, "a test"),
            "while it is lost" => {
                source.endpoint.cut_engine();
                source.stall.release();
                bounded(links[1].closed()).await;
            }
            _ => {}
        }
    }
    ended(&source, 0..token).await;
    drop(sinks);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_standby_is_dialled_again() {
    // The peer keeps its link too, or does not.
    for is_both in [true, false] {
        let (a, b) = pair(true).await;
        let [first, _] = moved(&a, &b).await;
        a.endpoint.keep_dialled(b.id(), b.addresses(), 1);
        if is_both {
            b.endpoint.keep_dialled(a.id(), a.addresses(), 2);
        }
        first.close(CloseCode::Fault, "a test");
        bounded(first.closed()).await;
        let renewed = async {
            while !(a.endpoint.has_standby(b.id()) && b.endpoint.has_standby(a.id())) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        bounded(renewed).await;
        let link = a.endpoint.link(b.id()).expect("it is up");
        assert_eq!(link.transport(), Transport::Engine, "it only stands by");
        deliver(&a, &b, 1, Carriage::Stream).await;
        assert_eq!(b.next_adu().await.0.sequence.0, 1);
        let cut = a.endpoint.clock().now();
        a.endpoint.cut_engine();
        deliver(&a, &b, 2, Carriage::Stream).await;
        let link = a.endpoint.link(b.id()).expect("it is up");
        assert_eq!(link.transport(), Transport::Quic);
        assert!(link.since() < cut, "without a handshake");
    }
}
