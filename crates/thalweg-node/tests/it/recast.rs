//! Proves that a relay with several receivers is sent one copy, whoever leaves, and that nobody behind it misses anything.

use bytes::Bytes;
use thalweg_core::adu::{Flags, Importance, MediaTime};
use thalweg_core::model::Layer;
use thalweg_core::needs::{Needs, Order};
use thalweg_core::planner::Planner;
use thalweg_core::time::Duration;
use thalweg_core::units::Bitrate;
use thalweg_node::{Outgoing, Publication, SubscribeOptions, Subscriber, SubscriberEvent};

use crate::fabric::{self, Known, PATIENCE, Running, start, trusted};

const ADUS: u64 = 60;

fn known<'a>(names: &[&'a str]) -> Vec<Known<'a>> {
    names.iter().map(|name| trusted(name, None)).collect()
}

/// A source, a relay, and sinks behind it.
async fn fork(sinks: &[&str]) -> (Running, Running, Vec<Running>) {
    let mut names = vec!["hub"];
    names.extend(sinks);
    let source = start("cam", &known(&names)).await;
    let mut near = known(sinks);
    near.push(trusted("cam", Some(source.address)));
    let hub = start("hub", &near).await;
    let mut all = Vec::new();
    for name in sinks {
        let known = [trusted("hub", Some(hub.address)), trusted("cam", None)];
        all.push(start(name, &known).await);
    }
    fabric::until("all are on the source's map", || async {
        let status = source.handle.status().await.expect("it runs");
        status.nodes.len() == sinks.len() + 2
    })
    .await;
    (source, hub, all)
}

fn publication() -> Publication {
    Publication {
        name: "cam".parse().expect("a name"),
        needs: Needs {
            deadline: Duration::from_secs(5),
            order: Order::Sequence,
            ..Needs::default()
        },
        layers: vec![Layer {
            rate: Bitrate::from_kbps(500),
            utility: 1.0,
        }],
        pack_ratio: Some(1.0),
        planner: Some(Planner::Exact),
    }
}

fn outgoing(number: u64) -> Outgoing {
    Outgoing {
        media_time: MediaTime::from_micros(number * 20_000),
        importance: Importance(200),
        layer: 0,
        flags: Flags::NONE,
        depends_on: 0,
        payload: Bytes::from(vec![number as u8; 5_000]),
    }
}

async fn received(subscriber: &mut Subscriber) -> Vec<u64> {
    let mut sequences = Vec::new();
    let all = async {
        while let Some(event) = subscriber.recv().await {
            if let SubscriberEvent::Adu(adu) = event {
                assert_eq!(adu.payload, outgoing(adu.header.sequence.0).payload);
                sequences.push(adu.header.sequence.0);
            }
        }
    };
    let all = tokio::time::timeout(PATIENCE, all).await;
    all.expect("the end in time");
    sequences
}

async fn subscribe(node: &Running) -> Subscriber {
    let options = SubscribeOptions {
        name: "cam".parse().expect("a name"),
        in_sequence: true,
    };
    node.handle.subscribe(options).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_receivers_behind_a_relay_cost_the_link_to_it_one_copy() {
    let (source, hub, sinks) = fork(&["ann", "bob", "eve"]).await;
    let publisher = source.handle.publish(publication()).await;
    let mut publisher = publisher.expect("it is published");
    let mut subscribers = Vec::new();
    for sink in &sinks {
        subscribers.push(subscribe(sink).await);
    }
    fabric::until("all three plans lie on the relay", || async {
        let status = hub.handle.status().await.expect("it runs");
        status.routes.len() == 3
    })
    .await;
    fabric::until("each sink has its plan", || async {
        let status = source.handle.status().await.expect("it runs");
        let active = status.plans.iter().filter(|plan| plan.state == "active");
        active.count() == 3
    })
    .await;
    for number in 0..ADUS {
        publisher.send(outgoing(number)).await.expect("it runs");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    fabric::until("the source knows of all copies", || async {
        let status = source.handle.status().await.expect("it runs");
        let mut ledgers = status
            .streams
            .iter()
            .filter_map(|stream| stream.ledger.as_ref());
        ledgers.any(|ledger| ledger.delivered == 3 * ADUS && ledger.open == 0)
    })
    .await;
    let ended = publisher.finish();
    let [ann, bob, eve] = &mut subscribers[..] else {
        panic!("three subscribed");
    };
    let (summary, ann, bob, eve) = tokio::join!(ended, received(ann), received(bob), received(eve));
    let all: Vec<u64> = (0..ADUS).collect();
    assert_eq!((&ann, &bob, &eve), (&all, &all, &all));
    assert_eq!(summary.produced, ADUS);
    // 60 ADUs and the end, once.
    assert_eq!(summary.counts.sent, ADUS + 1, "{summary:?}");
}
