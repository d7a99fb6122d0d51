//! Proves that a node shows why a stream suffers: the streams that share a link, and what was
//! dropped, by cause and importance; and that ADUs that expired in the outbox do not count as sent.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use thalweg_base::adu::Importance;
use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_net::{Impairment, Reach, Shaper, ShaperOptions};
use thalweg_node::status::{Status, TrafficStatus};
use thalweg_node::{Outgoing, Publication, Publisher, SubscribeOptions};

use crate::fabric::{self, PATIENCE, Running, start_with, trusted};

const STREAMS: [&str; 2] = ["truck/cam1", "truck/cam2"];

/// Every fifth ADU has a higher importance.
const IMPORTANCES: [u8; 2] = [40, 220];

/// Starts a source and a sink with a line of 1 Mbit/s between them.
async fn pair() -> (Running, Running, Shaper) {
    let listen = |host: u8| SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), 0));
    let confined = |host| {
        move |config: &mut thalweg_node::Config| {
            config.listen = vec![listen(host)];
            config.reach.packets = Reach::OwnAddress;
        }
    };
    let line = Impairment {
        rate: Bitrate::from_kbps(1_000),
        delay: Duration::from_millis(5),
        ..Impairment::default()
    };
    let known = [trusted("far", None)];
    let near = start_with("near", &known, confined(51)).await;
    let options = ShaperOptions {
        from: listen(53),
        towards: near.address,
        a_to_b: line,
        b_to_a: line,
        seed: 1,
    };
    let shaper = Shaper::start(options).await.expect("loopback has ports");
    let known = [trusted("near", Some(shaper.address()))];
    let far = start_with("far", &known, confined(53)).await;
    (near, far, shaper)
}

async fn publish(node: &Running, name: &str) -> Publisher {
    let publication = Publication {
        needs: Needs {
            deadline: Duration::from_millis(300),
            ..Needs::default()
        },
        pack_ratio: None,
        planner: None,
        ..Publication::new(name.parse().expect("a name"), Bitrate::from_kbps(800))
    };
    let mut publisher = node.handle.publish(publication).await.expect("it is");
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("a plan in time").expect("the node runs");
    publisher
}

/// Publishes 2 Mbit/s until dropped.
async fn publish_forever(mut publisher: Publisher) {
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(20));
    for number in 0_usize.. {
        ticks.tick().await;
        let outgoing = Outgoing {
            payload: Bytes::from(vec![1; 5_000]),
            importance: Importance(IMPORTANCES[usize::from(number.is_multiple_of(5))]),
            ..fabric::outgoing(b"")
        };
        if publisher.send(outgoing).await.is_err() {
            return;
        }
    }
}

/// Returns the traffic of both streams on the link once ADUs of both were dropped.
fn contended(status: &Status) -> Option<[TrafficStatus; 2]> {
    let traffic: [_; 2] = status.links[0].traffic.clone().try_into().ok()?;
    let is_dropped = |stream: &TrafficStatus| stream.dropped.iter().any(|loss| loss.adus >= 10);
    traffic.iter().all(is_dropped).then_some(traffic)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contending_streams_are_named() {
    let (near, far, _shaper) = pair().await;
    let mut senders = Vec::new();
    for name in STREAMS {
        let options = SubscribeOptions::new(name.parse().expect("a name"), false);
        let mut subscriber = far.handle.subscribe(options).await;
        tokio::spawn(async move { while subscriber.recv().await.is_some() {} });
        senders.push(tokio::spawn(publish_forever(publish(&near, name).await)));
    }
    let status = || async { near.handle.status().await.expect("it runs") };
    fabric::until("both are dropped from", || async {
        contended(&status().await).is_some()
    })
    .await;
    let status = status().await;
    let traffic = contended(&status).expect("as above");
    let mut names: Vec<_> = traffic.iter().map(|one| one.stream.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, STREAMS);
    for stream in &traffic {
        assert!(stream.offered_bps > 0 && stream.seconds > 0.0, "{stream:?}");
        let dropped: u64 = stream.dropped.iter().map(|loss| loss.adus).sum();
        let by_band: u64 = stream.by_importance.iter().map(|band| band.dropped).sum();
        assert_eq!(dropped, by_band);
        assert!(dropped <= stream.adus, "{stream:?}");
        let causes = stream.dropped.iter().map(|loss| loss.cause);
        assert!(
            causes.into_iter().any(|cause| cause == "expired"),
            "{stream:?}"
        );
        let bands = stream.by_importance.iter().map(|band| band.importance[0]);
        assert_eq!(bands.collect::<Vec<_>>(), [32, 192], "{stream:?}");
    }
    for stream in &status.streams {
        let counts = &stream.counts;
        assert!(counts.dropped["expired"] >= 10, "{counts:?}");
        assert_eq!(counts.sent, counts.acknowledged + counts.unconfirmed);
    }
    for giver in senders {
        giver.abort();
    }
    near.stop().await;
    far.stop().await;
}
