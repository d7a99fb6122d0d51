//! Proves that a drop of a line's capacity is measured from traffic and reported to all nodes,
//! against the configured rate.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_net::shaper::Direction;
use thalweg_net::{Impairment, Shaper, ShaperOptions};
use thalweg_node::Outgoing;

use crate::fabric::{self, PATIENCE, Running, start_with, trusted};

/// The line's capacity, which is also the source's configured rate.
const CONFIGURED: Bitrate = Bitrate::from_kbps(4_000);

/// Its capacity after the drop.
const AFTER_DROP: Bitrate = Bitrate::from_kbps(600);

fn line(rate: Bitrate) -> Impairment {
    Impairment {
        rate,
        delay: Duration::from_millis(5),
        ..Impairment::default()
    }
}

/// Starts a source and a sink with a line between them.
async fn pair() -> (Running, Running, Shaper) {
    let listen = |host: u8| SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), 0));
    let confined = |host| {
        move |config: &mut thalweg_node::Config| {
            config.listen = vec![listen(host)];
            config.reach.packets = thalweg_net::Reach::OwnAddress;
            for peer in &mut config.peers {
                peer.rate = Some(CONFIGURED);
            }
        }
    };
    let known = [trusted("far", None)];
    let near = start_with("near", &known, confined(41)).await;
    let options = ShaperOptions {
        from: listen(43),
        towards: near.address,
        a_to_b: line(CONFIGURED),
        b_to_a: line(CONFIGURED),
        seed: 1,
    };
    let shaper = Shaper::start(options).await.expect("loopback has ports");
    let known = [trusted("near", Some(shaper.address()))];
    let far = start_with("far", &known, confined(43)).await;
    (near, far, shaper)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn measured_drop_is_reported_to_all() {
    let (near, far, shaper) = pair().await;
    let (mut publisher, mut subscriber) = fabric::stream(&near, &far).await;
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("a plan in time").expect("the node runs");
    let reading = tokio::spawn(async move { while subscriber.recv().await.is_some() {} });
    let reported = |ends: [&'static str; 2]| {
        let handle = far.handle.clone();
        async move {
            let ways = handle.route(ends[0], ends[1], None).await;
            let ways = ways.expect("both are on the map");
            (ways.hops[0].there_bps, ways.hops[0].configured_bps)
        }
    };
    let configured = Some(CONFIGURED.as_bps());
    assert_eq!(reported(["near", "far"]).await, (configured, configured));
    shaper.set(Direction::BToA, line(AFTER_DROP));
    let started = tokio::time::Instant::now();
    // Twice the capacity, as a video would continue; late ADUs are dropped.
    while reported(["near", "far"]).await.0 == configured {
        let outgoing = Outgoing {
            payload: Bytes::from(vec![1; 6_000]),
            ..fabric::outgoing(b"")
        };
        publisher.send(outgoing).await.expect("the node runs");
        tokio::time::sleep(std::time::Duration::from_millis(40)).await;
        assert!(started.elapsed() < PATIENCE, "the drop is not reported");
    }
    let (measured, still) = reported(["near", "far"]).await;
    assert_eq!(still, configured);
    let measured = measured.expect("it is reported");
    assert!(measured < CONFIGURED.as_bps() * 3 / 4, "{measured}");
    let (back, _) = reported(["far", "near"]).await;
    assert_eq!(back, configured, "the other direction was never full");
    let status = near.handle.status().await.expect("it runs");
    let link = &status.links[0];
    assert_eq!(
        (link.announced_bps, link.rate_bps),
        (Some(measured), configured)
    );
    assert!(link.measured_bps.is_some() && link.headroom_bps.is_some());
    drop(publisher);
    near.stop().await;
    far.stop().await;
    reading.await.expect("no panic");
}
