//! Proves that a caller at the door is answered once, with its key proved, and gets no link: over
//! QUIC and TCP.

use std::net::UdpSocket;

use bytes::Bytes;
use thalweg_base::limits::DOOR_BYTES_MAX;
use thalweg_link::tcp_mux::Pacing;
use thalweg_net::door::call;
use thalweg_net::{Addresses, AtDoor, Identity, Unreachable};
use tokio::sync::mpsc;

use crate::node::{Node, Over, bounded, loopback, options};

const BOTH: [Over; 2] = [Over::Quic, Over::Tcp(Pacing::Kernel)];

/// Starts a node with a door that echoes the request behind the caller's key.
async fn keeper(over: Over) -> Node {
    let (door, mut events) = mpsc::channel(4);
    let mut options = options(1);
    if over != Over::Quic {
        options.tcp.listen = vec![loopback(1)];
    }
    options.doorkeeper = Some(door);
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            if let AtDoor::Asked {
                caller,
                knock,
                answer,
            } = event
            {
                let echo: Bytes = [&caller.0[..], &knock].concat().into();
                // The caller may be gone.
                let _ = answer.send(echo);
            }
        }
    });
    Node::start_with(options).await
}

fn identity() -> Identity {
    Identity::ephemeral()
}

#[tokio::test(flavor = "multi_thread")]
async fn stranger_is_answered_without_link() {
    for over in BOTH {
        let (node, stranger) = (keeper(over).await, identity());
        let answer = bounded(call(&stranger, node.id(), node.addresses(), b"hello")).await;
        let answer = answer.expect("it is answered");
        assert_eq!(&answer[..32], &stranger.id().0);
        assert_eq!(&answer[32..], b"hello");
        assert!(node.endpoint.links().is_empty());
        assert!(node.rest().await.is_empty(), "no link was told of");
        assert_eq!(node.admission.refusals(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_request_is_refused() {
    for over in BOTH {
        let (node, stranger) = (keeper(over).await, identity());
        let longest = vec![7; DOOR_BYTES_MAX - 32];
        let answer = bounded(call(&stranger, node.id(), node.addresses(), &longest)).await;
        assert_eq!(answer.map(|answer| answer.len()), Ok(DOOR_BYTES_MAX));
        let longer = vec![7; DOOR_BYTES_MAX + 1];
        let refused = bounded(call(&stranger, node.id(), node.addresses(), &longer)).await;
        let refused = refused.expect_err("too long");
        assert!(
            matches!(&refused, Unreachable::Closed { peer, .. } if *peer == node.id()),
            "{refused}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_without_keeper_has_no_door() {
    for (over, alpn) in BOTH
        .into_iter()
        .zip(["thalweg-door/1", "thalweg-tcp-door/1"])
    {
        let node = Node::start_over(over).await;
        let refused = bounded(call(&identity(), node.id(), node.addresses(), b"hello")).await;
        let refused = refused.expect_err("nobody is there to answer");
        assert!(refused.to_string().contains(alpn), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn door_crowd_blocks_no_link() {
    for over in BOTH {
        let (node, other) = (keeper(over).await, Node::start(1).await);
        node.admits(&other);
        other.admits(&node);
        // More than there are places.
        let crowd: Vec<Identity> = (0..20).map(|_| identity()).collect();
        let mut waiting = tokio::task::JoinSet::new();
        for stranger in crowd {
            let (id, addresses) = (node.id(), node.addresses());
            waiting.spawn(async move { call(&stranger, id, addresses, b"hello").await.map(drop) });
        }
        let link = other.dial(&node).await;
        assert_eq!(link.peer(), node.id());
        // Callers that were turned away receive a close code.
        while let Some(done) = bounded(waiting.join_next()).await {
            let outcome = done.expect("no panic");
            assert!(
                matches!(outcome, Ok(()) | Err(Unreachable::Closed { .. })),
                "{outcome:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_quic_falls_back_to_tcp() {
    let (node, stranger) = (keeper(Over::Tcp(Pacing::Kernel)).await, identity());
    // It receives every packet and answers none.
    let silent = UdpSocket::bind(loopback(1)).expect("loopback has free ports");
    let addresses = Addresses {
        udp: vec![silent.local_addr().expect("it is bound")],
        ..node.addresses()
    };
    let answer = bounded(call(&stranger, node.id(), addresses.clone(), b"hello")).await;
    assert_eq!(&answer.expect("it is answered")[32..], b"hello");
    // If neither transport works, the error has both reasons.
    let absent = identity().id();
    let refused = bounded(call(&stranger, absent, addresses, b"hello")).await;
    let sentence = refused.expect_err("it is not there").to_string();
    assert!(
        sentence.contains("timed out") && sentence.contains("over TCP: wrong key"),
        "{sentence}"
    );
}
