//! Proves that another process gets through the Unix socket what a program gets from the node itself, and that
//! what comes over the socket can be anything without harm.

use bytes::Bytes;
use serde_json::json;
use thalweg_core::adu::{Flags, Importance, MediaTime};
use thalweg_core::model::Layer;
use thalweg_core::needs::{Needs, Order, Reliability};
use thalweg_core::units::Bitrate;
use thalweg_net::Identity;
use thalweg_node::config::Config;
use thalweg_node::local::{Client, LocalError, LocalPublisher};
use thalweg_node::{Node, NodeError, Outgoing, Publication, SubscribeOptions, SubscriberEvent};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::fabric::{self, PATIENCE};

fn publication(name: &str) -> Publication {
    Publication {
        name: name.parse().expect("a name"),
        needs: Needs {
            reliability: Reliability::Full,
            order: Order::Sequence,
            ..Needs::default()
        },
        layers: vec![Layer {
            rate: Bitrate::from_kbps(500),
            utility: 1.0,
        }],
        pack_ratio: None,
        planner: None,
    }
}

fn outgoing(number: u32) -> Outgoing {
    Outgoing {
        media_time: MediaTime::from_micros(u64::from(number)),
        importance: Importance(1),
        layer: 0,
        flags: Flags::KEY,
        depends_on: 0,
        payload: Bytes::from(vec![number as u8; number as usize * 100]),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_hears_of_what_is_lost_while_it_sends() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("a.sock");
    let node = fabric::start_with("a", &[], |config| config.socket = Some(socket.clone())).await;
    let client = Client::connect(&socket).await.expect("it listens");
    let mut publisher = client.publish(publication("x")).await.expect("accepted");
    let mut told = publisher.losses_watch();
    for number in 0..3 {
        let sent = publisher.send(outgoing(number)).await;
        sent.expect("the node runs");
    }
    let all = |losses: &serde_json::Value| {
        let losses = losses.as_array().into_iter().flatten();
        let adus = losses.filter_map(|loss| {
            assert_eq!(
                (&loss["hop"], &loss["cause"]),
                (&json!("a"), &json!("no-subscriber"))
            );
            loss["adus"].as_u64()
        });
        adus.sum::<u64>() == 3
    };
    let told = tokio::time::timeout(PATIENCE, told.wait_for(all)).await;
    assert!(told.expect("told in time").is_ok());
    let summary = publisher.finish().await;
    assert!(summary.is_ok_and(|summary| summary["produced"] == 3));
    node.stop().await;
}

/// Waits until a publisher has been told what its stream's links can send.
async fn hears_of_a_rate(publisher: &LocalPublisher) {
    let mut sendable = publisher.sendable_watch();
    let known = sendable.wait_for(|rate| rate.is_some_and(|rate| rate > Bitrate::ZERO));
    let known = tokio::time::timeout(PATIENCE, known).await;
    assert!(known.expect("told in time").is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_passes_from_socket_to_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let sockets = [
        folder.path().join("a.sock"),
        folder.path().join("run").join("b.sock"),
    ];
    let one = fabric::start_with("a", &[fabric::trusted("b", None)], |config| {
        config.socket = Some(sockets[0].clone());
    })
    .await;
    let two = fabric::start_with("b", &[fabric::trusted("a", Some(one.address))], |config| {
        config.socket = Some(sockets[1].clone());
    })
    .await;
    let options = SubscribeOptions {
        name: "x".parse().expect("a name"),
        in_sequence: true,
    };
    let client = Client::connect(&sockets[1]).await.expect("it listens");
    let mut subscriber = client.subscribe(options).await.expect("accepted");
    let client = Client::connect(&sockets[0]).await.expect("it listens");
    let mut publisher = client.publish(publication("x")).await.expect("accepted");
    let again = Client::connect(&sockets[0]).await.expect("it listens");
    let taken = again
        .publish(publication("x"))
        .await
        .err()
        .expect("the name is taken");
    assert!(
        taken.to_string().contains("publishes `x` already"),
        "{taken}"
    );
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("in time").expect("the node runs");
    for number in 0..50 {
        publisher
            .send(outgoing(number))
            .await
            .expect("the node runs");
    }
    hears_of_a_rate(&publisher).await;
    let summary = publisher.finish().await.expect("a summary");
    assert_eq!(summary["produced"], 50);
    let mut numbers = Vec::new();
    let receive = async {
        while let Some(event) = subscriber.recv().await.expect("the node runs") {
            if let SubscriberEvent::Adu(adu) = event {
                assert_eq!(adu.payload, outgoing(adu.header.sequence.0 as u32).payload);
                assert_eq!(adu.header.flags, Flags::KEY);
                numbers.push(adu.header.sequence.0);
            }
        }
    };
    tokio::time::timeout(PATIENCE, receive)
        .await
        .expect("the end in time");
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    assert_eq!(subscriber.source(), Some(one.handle.id()));
    let client = Client::connect(&sockets[0]).await.expect("it listens");
    let status = client.status().await;
    assert_eq!(status.expect("a status")["node"]["name"], "a");
    two.stop().await;
    assert!(!sockets[1].exists(), "the socket's file goes with the node");
    let gone = Client::connect(&sockets[1])
        .await
        .err()
        .expect("nobody listens");
    assert!(gone.to_string().contains("no node listens on"), "{gone}");
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_socket_harms_nobody_and_a_second_node_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("a.sock");
    // What a node that died has left behind is taken over.
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
    let node = fabric::start_with("a", &[], |config| config.socket = Some(socket.clone())).await;
    let garbage: [&[u8]; 5] = [
        b"\x09\x00\x00\x00\x00",
        b"\x00\xff\xff\xff\xff",
        b"\x01\x00\x00\x00\x04abcd",
        b"\x00\x00\x00\x00\x03{}}",
        b"\x00\x00\x00\x00\x08\"finish\"",
    ];
    for bytes in garbage {
        let mut stream = UnixStream::connect(&socket).await.expect("it listens");
        stream.write_all(bytes).await.expect("it reads");
        let mut answer = Vec::new();
        let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        end.expect("the node closes in time")
            .expect("it closes in order");
    }
    let client = Client::connect(&socket).await.expect("it still listens");
    client.status().await.expect("and answers");
    let mut config = Config::new("b".parse().expect("a name"), "unused.key".into());
    config.socket = Some(socket);
    let second = Node::with_identity(config, Identity::ephemeral())
        .await
        .err();
    assert!(
        matches!(second, Some(NodeError::SocketTaken { .. })),
        "{second:?}"
    );
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_socket_stays_where_a_socket_should_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("node.key");
    std::fs::write(&key, "a secret").expect("it can be written");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&key, &link).expect("it can be made");
    for path in [key.clone(), link, folder.path().to_path_buf()] {
        let mut config = Config::new("a".parse().expect("a name"), "unused.key".into());
        config.socket = Some(path.clone());
        let checked = Node::check_files(&config).err();
        let started = Node::with_identity(config, Identity::ephemeral()).await;
        for error in [checked, started.err()] {
            let error = error.expect("it is no socket");
            assert!(matches!(error, NodeError::NoSocket { .. }), "{error}");
            assert!(error.is_input() && error.to_string().contains(&path.display().to_string()));
        }
    }
    assert_eq!(std::fs::read(&key).expect("it is there"), b"a secret");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_brings_its_publishers_streams_to_their_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("a.sock");
    let one = fabric::start_with("a", &[fabric::trusted("b", None)], |config| {
        config.socket = Some(socket.clone());
    })
    .await;
    let two = fabric::start("b", &[fabric::trusted("a", Some(one.address))]).await;
    let options = SubscribeOptions {
        name: "x".parse().expect("a name"),
        in_sequence: true,
    };
    let mut subscriber = two.handle.subscribe(options).await;
    let client = Client::connect(&socket).await.expect("it listens");
    let mut publisher = client.publish(publication("x")).await.expect("accepted");
    publisher.wanted().await.expect("the node runs");
    for number in 0..10 {
        publisher
            .send(outgoing(number))
            .await
            .expect("the node runs");
    }
    // The node has read them once the first arrives, for the socket keeps their order.
    let mut received = 0;
    while received < 10 {
        let event = tokio::time::timeout(PATIENCE, subscriber.recv())
            .await
            .expect("in time");
        received += usize::from(matches!(event, Some(SubscriberEvent::Adu(_))));
        assert!(event.is_some(), "the stream has not ended");
    }
    let (report, summary) = tokio::join!(one.stop(), publisher.finish());
    assert_eq!(report.unacknowledged, 0);
    // The summary arrives, unless the node was gone before it was asked for.
    assert!(
        !matches!(summary, Err(LocalError::Refused(_))),
        "{summary:?}"
    );
    let end = async {
        while let Some(event) = subscriber.recv().await {
            assert!(matches!(event, SubscriberEvent::Notice(_)), "{event:?}");
        }
    };
    tokio::time::timeout(PATIENCE, end)
        .await
        .expect("the subscriber sees the end");
    two.stop().await;
}
