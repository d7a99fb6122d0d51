//! Proves that a publisher learns where and why its ADUs are lost, and that in the end every ADU is
//! accounted for.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use thalweg_base::adu::Importance;
use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_net::shaper::Direction;
use thalweg_net::{Impairment, Shaper, ShaperOptions};
use thalweg_node::status::LedgerStatus;
use thalweg_node::{
    Outgoing, Publication, Publisher, SubscribeOptions, Subscriber, SubscriberEvent,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fabric::{self, PATIENCE, Running, start_with, trusted};

/// The payload of an ADU: several packets, so that it passes the relay cut-through.
const PAYLOAD_BYTES: usize = 5_000;

fn impairment(rate: Bitrate) -> Impairment {
    Impairment {
        rate,
        delay: Duration::from_millis(5),
        ..Impairment::default()
    }
}

/// Starts three nodes in a chain: two on one address, and the last on another, which only a line
/// reaches.
async fn chain() -> (Vec<Running>, Shaper) {
    let listen = |host: u8| SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), 0));
    let confined = |host| {
        move |config: &mut thalweg_node::Config| {
            config.listen = vec![listen(host)];
            config.reach.packets = thalweg_net::Reach::OwnAddress;
            config.api = Some(listen(1));
        }
    };
    let known = [trusted("n1", None), trusted("n2", None)];
    let n0 = start_with("n0", &known, confined(31)).await;
    let known = [trusted("n0", Some(n0.address)), trusted("n2", None)];
    let n1 = start_with("n1", &known, confined(31)).await;
    let way = impairment(Bitrate::from_kbps(20_000));
    let options = ShaperOptions {
        from: listen(33),
        towards: n1.address,
        a_to_b: way,
        b_to_a: way,
        seed: 1,
    };
    let shaper = Shaper::start(options).await.expect("loopback has ports");
    let known = [trusted("n0", None), trusted("n1", Some(shaper.address()))];
    let n2 = start_with("n2", &known, confined(33)).await;
    (vec![n0, n1, n2], shaper)
}

fn publication(reliability: Reliability) -> Publication {
    Publication {
        needs: Needs {
            deadline: Duration::from_millis(300),
            reliability,
            ..Needs::default()
        },
        pack_ratio: None,
        planner: None,
        ..Publication::new("cam".parse().expect("a name"), Bitrate::from_kbps(500))
    }
}

/// Sends an ADU; every other one is of low importance.
async fn send(publisher: &mut Publisher, number: u64, bytes: usize) {
    let importance = Importance(if number.is_multiple_of(2) { 250 } else { 10 });
    let outgoing = Outgoing {
        importance,
        payload: Bytes::from(vec![number as u8; bytes]),
        ..fabric::outgoing(b"")
    };
    publisher.send(outgoing).await.expect("the node runs");
}

async fn ledger(node: &Running) -> LedgerStatus {
    let status = node.handle.status().await.expect("it runs");
    let stream = status.streams.into_iter().next();
    stream.and_then(|stream| stream.ledger).unwrap_or_default()
}

fn lost(ledger: &LedgerStatus) -> u64 {
    ledger.losses.iter().map(|loss| loss.adus).sum()
}

async fn metrics(node: &Running) -> String {
    let api = node.api.expect("it is served");
    let mut stream = TcpStream::connect(api).await.expect("it listens");
    let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.expect("it reads");
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer).await;
    read.expect("it answers");
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publisher_sees_losses_by_hop() {
    let (nodes, shaper) = chain().await;
    let name = "cam".parse().expect("a name");
    let in_sequence = false;
    let options = SubscribeOptions::new(name, in_sequence);
    let mut subscriber = nodes[2].handle.subscribe(options).await;
    let publication = publication(Reliability::UntilDeadline);
    let publisher = nodes[0].handle.publish(publication).await;
    let mut publisher = publisher.expect("it is published");
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("a plan in time").expect("the node runs");
    let received = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&received);
    let reading = tokio::spawn(async move {
        while let Some(event) = subscriber.recv().await {
            counted.fetch_add(u64::from(matches!(event, SubscriberEvent::Adu(_))), Relaxed);
        }
    });
    // The line to the sink now carries a fifth of what is sent.
    shaper.set(Direction::BToA, impairment(Bitrate::from_kbps(150)));
    let started = tokio::time::Instant::now();
    let mut sent = 0;
    let relays = loop {
        send(&mut publisher, sent, PAYLOAD_BYTES).await;
        sent += 1;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let ledger = ledger(&nodes[0]).await;
        let is_relays = |loss: &&_| {
            let loss: &thalweg_node::status::LossStatus = loss;
            (loss.hop.as_str(), loss.cause) == ("n1", "expired")
        };
        let relays: Vec<_> = ledger.losses.iter().filter(is_relays).cloned().collect();
        if relays.len() == 2 {
            break relays;
        }
        assert!(started.elapsed() < PATIENCE, "not told: {ledger:?}");
    };
    let bands: Vec<[u8; 2]> = relays.iter().map(|loss| loss.importance).collect();
    assert_eq!(bands, [[0, 31], [224, 255]]);
    let page = metrics(&nodes[0]).await;
    let label = "thalweg_stream_path_adus_lost{stream=\"cam\",hop=\"n1\",cause=\"expired\",importance=\"0-31\"}";
    assert!(page.contains(label), "{page}");
    // Once the line has recovered and the sink has reported, everything is accounted for, including
    // ADUs that were given up and arrived after all.
    shaper.set(Direction::BToA, impairment(Bitrate::from_kbps(20_000)));
    fabric::until("every ADU is accounted for", || async {
        let ledger = ledger(&nodes[0]).await;
        let is_true = ledger.delivered == received.load(Relaxed);
        is_true && ledger.published == sent && ledger.delivered + lost(&ledger) == sent
    })
    .await;
    let summary = publisher.finish().await;
    let ledger = &summary.ledger;
    assert_eq!((ledger.published, ledger.pending), (sent, 0), "{ledger:?}");
    assert_eq!(ledger.delivered + lost(ledger), sent, "{ledger:?}");
    let ended = tokio::time::timeout(PATIENCE, reading).await;
    ended.expect("the end in time").expect("no panic");
    // An ADU that was given up and crossed the full line after all may have arrived after the
    // publisher had gone.
    let late = received.load(Relaxed).checked_sub(ledger.delivered);
    assert!(late.is_some_and(|late| late <= lost(ledger)), "{ledger:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_datagrams_count_at_the_line() {
    let (nodes, shaper) = chain().await;
    let name = "cam".parse().expect("a name");
    let in_sequence = false;
    let options = SubscribeOptions::new(name, in_sequence);
    let mut subscriber = nodes[2].handle.subscribe(options).await;
    // ADUs that are not taken in time are lost on the subscriber's node.
    tokio::spawn(async move { while subscriber.recv().await.is_some() {} });
    let publisher = nodes[0]
        .handle
        .publish(publication(Reliability::None))
        .await;
    let mut publisher = publisher.expect("it is published");
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("a plan in time").expect("the node runs");
    let lossy = Impairment {
        loss: thalweg_base::units::Ratio::new(0.3).expect("a share"),
        ..impairment(Bitrate::from_kbps(20_000))
    };
    shaper.set(Direction::BToA, lossy);
    let mut sent = 0;
    while sent < 100 {
        send(&mut publisher, sent, 100).await;
        sent += 1;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    fabric::until("every datagram is accounted for", || async {
        let ledger = ledger(&nodes[0]).await;
        ledger.published == sent && ledger.delivered + lost(&ledger) == sent
    })
    .await;
    let ledger = publisher.finish().await.ledger;
    assert!(lost(&ledger) > 0, "{ledger:?}");
    for loss in &ledger.losses {
        assert_eq!(
            (loss.hop.as_str(), loss.cause),
            ("n1", "path-lost"),
            "{ledger:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_end_waits_for_slow_line() {
    let (nodes, shaper) = chain().await;
    let subscribe = |in_sequence| {
        let name = "cam".parse().expect("a name");
        let options = SubscribeOptions::new(name, in_sequence);
        nodes[2].handle.subscribe(options)
    };
    // The end has the highest importance and arrives long before the low ones; both subscribers
    // wait for these.
    let (one, other) = (subscribe(true).await, subscribe(false).await);
    let mut publication = publication(Reliability::UntilDeadline);
    publication.needs.deadline = Needs::default().deadline;
    let publisher = nodes[0].handle.publish(publication).await;
    let mut publisher = publisher.expect("it is published");
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("a plan in time").expect("the node runs");
    // The relay takes all at once and needs sixteen seconds for it: longer than the end waits for
    // one report.
    shaper.set(Direction::BToA, impairment(Bitrate::from_kbps(150)));
    for number in 0..60 {
        send(&mut publisher, number, PAYLOAD_BYTES).await;
    }
    let received = |mut subscriber: Subscriber| async move {
        let mut received = 0;
        while let Some(event) = subscriber.recv().await {
            received += u64::from(matches!(event, SubscriberEvent::Adu(_)));
        }
        received
    };
    let (summary, one, other) = tokio::join!(publisher.finish(), received(one), received(other));
    let ledger = summary.ledger;
    assert_eq!((ledger.published, ledger.delivered), (60, 60), "{ledger:?}");
    assert_eq!((lost(&ledger), ledger.pending), (0, 0));
    assert_eq!((one, other), (60, 60), "in sequence, and as they come");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unwanted_adus_count_at_source() {
    let node = fabric::start("solo", &[]).await;
    let publisher = node.handle.publish(publication(Reliability::None)).await;
    let mut publisher = publisher.expect("it is published");
    for number in 0..3 {
        send(&mut publisher, number, 10).await;
    }
    let ledger = publisher.finish().await.ledger;
    assert_eq!(
        (ledger.published, ledger.delivered, ledger.pending),
        (3, 0, 0)
    );
    let mut losses = ledger.losses.iter();
    assert!(losses.all(|loss| (loss.hop.as_str(), loss.cause) == ("solo", "no-subscriber")));
    assert_eq!(lost(&ledger), 3);
}
