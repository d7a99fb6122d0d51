//! Proves that another process gets the same through the Unix socket as a program in the node, and
//! that arbitrary bytes on the socket do no harm.

use bytes::Bytes;
use serde_json::json;
use thalweg_base::adu::{Flags, Importance, MediaTime};
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;
use thalweg_base::needs::{Needs, Order, Reliability};
use thalweg_base::units::Bitrate;
use thalweg_net::Identity;
use thalweg_node::config::Config;
use thalweg_node::local::{Client, LocalError, LocalPublisher};
use thalweg_node::{
    Node, NodeError, Outgoing, Publication, SubscribeOptions, Subscriber, SubscriberEvent,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::fabric::{self, PATIENCE};

fn publication(name: &str) -> Publication {
    Publication {
        needs: Needs {
            reliability: Reliability::Full,
            order: Order::Sequence,
            ..Needs::default()
        },
        pack_ratio: None,
        planner: None,
        ..Publication::new(name.parse().expect("a name"), Bitrate::from_kbps(500))
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
async fn publisher_sees_losses_while_sending() {
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

/// Waits until a publisher knows the rate of its stream's first links.
async fn wait_rate(publisher: &LocalPublisher) {
    let mut sendable = publisher.sendable_watch();
    let known = sendable.wait_for(|rate| rate.is_some_and(|rate| rate > Bitrate::ZERO));
    let known = tokio::time::timeout(PATIENCE, known).await;
    assert!(known.expect("told in time").is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_crosses_two_sockets() {
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
    let options = SubscribeOptions::new("x".parse().expect("a name"), true);
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
    wait_rate(&publisher).await;
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
async fn garbage_and_second_node_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("a.sock");
    // A stale socket of a dead node is replaced.
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
async fn file_at_socket_path_is_kept() {
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

/// A node with a socket, and another that subscribes to `x` there.
struct Pair {
    _folder: tempfile::TempDir,
    socket: std::path::PathBuf,
    one: fabric::Running,
    two: fabric::Running,
    subscriber: Subscriber,
}

impl Pair {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("a.sock");
        let one = fabric::start_with("a", &[fabric::trusted("b", None)], |config| {
            config.socket = Some(socket.clone());
        })
        .await;
        let two = fabric::start("b", &[fabric::trusted("a", Some(one.address))]).await;
        let options = SubscribeOptions::new("x".parse().expect("a name"), true);
        let subscriber = two.handle.subscribe(options).await;
        Self {
            _folder: folder,
            socket,
            one,
            two,
            subscriber,
        }
    }

    async fn publish(&self) -> LocalPublisher {
        let client = Client::connect(&self.socket).await.expect("it listens");
        client.publish(publication("x")).await.expect("accepted")
    }

    /// Returns the numbers of the ADUs that arrive before the notice of their producer's death.
    async fn numbers_before_death(&mut self) -> Vec<u64> {
        let mut numbers = Vec::new();
        loop {
            let event = tokio::time::timeout(PATIENCE, self.subscriber.recv()).await;
            match event.expect("in time").expect("the stream has not ended") {
                SubscriberEvent::Adu(adu) => numbers.push(adu.header.sequence.0),
                SubscriberEvent::Notice(text) if text.contains("died") => return numbers,
                SubscriberEvent::Notice(_) => {}
            }
        }
    }

    async fn stop(self) {
        self.two.stop().await;
        self.one.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_publisher_frees_its_name() {
    let mut pair = Pair::start().await;
    for round in 0..3 {
        let mut publisher = pair.publish().await;
        for number in 0..20 {
            let sent = publisher.send(outgoing(number)).await;
            sent.expect("the node runs");
        }
        // All published ADUs arrive, and none of the next producer's before them.
        drop(publisher);
        let numbers = pair.numbers_before_death().await;
        assert_eq!(numbers, (0..20).collect::<Vec<_>>(), "round {round}");
    }
    let mut publisher = pair.publish().await;
    publisher.send(outgoing(0)).await.expect("the node runs");
    publisher.finish().await.expect("a summary");
    let end = async {
        while let Some(event) = pair.subscriber.recv().await {
            let is_notice = matches!(event, SubscriberEvent::Notice(_));
            assert!(is_notice || pair.subscriber.discarded() == 0, "{event:?}");
        }
    };
    let ended = tokio::time::timeout(PATIENCE, end).await;
    ended.expect("a stream that was finished ends");
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_producer_is_cut_off() {
    let mut pair = Pair::start().await;
    let with = |change: fn(&mut Outgoing)| {
        let mut wrong = outgoing(1);
        change(&mut wrong);
        wrong
    };
    let wrong = [
        (with(|adu| adu.flags = Flags::SEALED), "flags"),
        (with(|adu| adu.flags = Flags::PACKED), "flags"),
        (with(|adu| adu.flags = Flags::END), "flags"),
        (with(|adu| adu.flags = Flags::MARK), "flags"),
        (with(|adu| adu.layer = 1), "its layer is 1"),
        (with(|adu| adu.depends_on = 2), "depends on"),
        (
            with(|adu| adu.payload = vec![0; ADU_PAYLOAD_BYTES_MAX + 1].into()),
            "limit",
        ),
    ];
    for (wrong, word) in wrong {
        let mut publisher = pair.publish().await;
        let right = publisher.send(outgoing(0)).await;
        right.expect("the node runs");
        let refused = async {
            // The node may read the request only after it was written completely.
            if let Err(error) = publisher.send(wrong).await {
                return error;
            }
            publisher.gone().await
        };
        let refused = tokio::time::timeout(PATIENCE, refused).await;
        let refused = refused.expect("in time");
        let is_refusal = matches!(&refused, LocalError::Refused(why) if why.contains(word));
        assert!(is_refusal, "{word}: {refused}");
        assert_eq!(pair.numbers_before_death().await, [0], "{word}");
    }
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_frame_gets_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("a.sock");
    let node = fabric::start_with("a", &[], |config| config.socket = Some(socket.clone())).await;
    let message = |text: &str| {
        let length = u32::try_from(text.len()).expect("short").to_be_bytes();
        [&[0], &length[..], text.as_bytes()].concat()
    };
    let publish = |name: &str, more: &str| {
        let needs = r#"{"deadline": "0 ms"}"#;
        let needs = if more == "deadline" { needs } else { "{}" };
        let layers = r#"[{"rate": "1 Mbit/s", "utility": 1.0}]"#;
        let ratio = if more == "ratio" { "-1" } else { "null" };
        message(&format!(
            r#"{{"publish": {{"name": "{name}", "needs": {needs}, "layers": {layers}, "pack_ratio": {ratio}, "planner": null}}}}"#
        ))
    };
    let wrong = [
        (vec![9, 0, 0, 0, 0], "kind 9"),
        (vec![0, 255, 255, 255, 255], "limit"),
        (vec![1, 0, 0, 0, 4, 1, 2, 3, 4], "before a publish request"),
        (message("{}}"), "column"),
        (message("\"finish\""), "first frame"),
        (publish("a/../b", ""), "stream name"),
        (publish("", ""), "stream name"),
        (publish("a", "deadline"), "deadline"),
        (publish("a", "ratio"), "pack ratio"),
    ];
    for (bytes, word) in wrong {
        let mut stream = UnixStream::connect(&socket).await.expect("it listens");
        stream.write_all(&bytes).await.expect("it reads");
        let mut answer = Vec::new();
        let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        end.expect("the node closes in time").expect("in order");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("refused"), "{word}: {answer}");
        assert!(answer.contains(word), "{word}: {answer}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_programs_block_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("a.sock");
    let node = fabric::start_with("a", &[], |config| config.socket = Some(socket.clone())).await;
    let mut dribbling = Vec::new();
    for _ in 0..130 {
        let mut stream = UnixStream::connect(&socket).await.expect("it listens");
        stream.write_all(&[0, 0, 0]).await.expect("it reads");
        dribbling.push(stream);
    }
    let client = Client::connect(&socket).await.expect("it listens");
    client.status().await.expect("it answers");
    // The oldest get the reason.
    let mut answer = Vec::new();
    let end = tokio::time::timeout(PATIENCE, dribbling[0].read_to_end(&mut answer)).await;
    end.expect("in time").expect("in order");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("too many"), "{answer}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_node_cuts_streams_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("a.sock");
    let one = fabric::start_with("a", &[fabric::trusted("b", None)], |config| {
        config.socket = Some(socket.clone());
    })
    .await;
    let two = fabric::start("b", &[fabric::trusted("a", Some(one.address))]).await;
    let options = SubscribeOptions::new("x".parse().expect("a name"), true);
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
    // Once the first ADU arrives, the node has read all, since the socket keeps their order.
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
    // The stream is finished if the finish arrived before the node stopped.
    let is_finished = summary.is_ok();
    let end = async {
        while let Some(event) = subscriber.recv().await {
            let SubscriberEvent::Notice(text) = event else {
                panic!("{event:?}");
            };
            if !is_finished && text.contains("died") {
                return;
            }
        }
        assert!(is_finished, "a stream that was cut off does not end");
    };
    let heard = tokio::time::timeout(PATIENCE, end).await;
    heard.expect("the subscriber hears of it");
    two.stop().await;
}
