//! Proves that ADUs cross four hops with every reliability: whole, once, and in order where
//! required; and that confidential ones cross untrusted nodes sealed.

use std::collections::BTreeSet;

use bytes::Bytes;
use thalweg_base::adu::{Adu, Flags, Importance, MediaTime};
use thalweg_base::needs::{Needs, Order, Reliability};
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_node::{
    Outgoing, Publication, Publisher, SubscribeOptions, Subscriber, SubscriberEvent,
};
use thalweg_planner::model::Layer;
use thalweg_planner::planner::Planner;

use crate::fabric::{self, PATIENCE, Running};

const NAMES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];

fn publication(needs: Needs, planner: Option<Planner>) -> Publication {
    let layer = |utility| Layer {
        rate: Bitrate::from_kbps(500),
        utility,
    };
    Publication {
        needs,
        pack_ratio: Some(1.0),
        planner,
        ..Publication::layered("cam".parse().expect("a name"), vec![layer(0.6), layer(0.4)])
    }
}

fn outgoing(number: u64, payload: Bytes) -> Outgoing {
    Outgoing {
        media_time: MediaTime::from_micros(number * 1_000),
        importance: Importance(200),
        layer: (number % 2) as u8,
        flags: Flags::NONE,
        depends_on: 0,
        payload,
    }
}

/// Returns a payload of this length that identifies its ADU.
fn payload(number: u64, length: usize) -> Bytes {
    (0..length)
        .map(|at| (number as usize * 31 + at) as u8)
        .collect()
}

const LENGTHS: [usize; 6] = [0, 1, 100, 1_200, 20_000, 300_000];

async fn subscribed(
    nodes: &[Running],
    needs: Needs,
    planner: Option<Planner>,
) -> (Publisher, Subscriber) {
    let (first, last) = (&nodes[0], &nodes[nodes.len() - 1]);
    let name = "cam".parse().expect("a name");
    let in_sequence = needs.order == Order::Sequence;
    let subscriber = last
        .handle
        .subscribe(SubscribeOptions::new(name, in_sequence))
        .await;
    let publisher = first.handle.publish(publication(needs, planner)).await;
    let mut publisher = publisher.expect("it is published");
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("a plan in time").expect("the node runs");
    (publisher, subscriber)
}

async fn received(subscriber: &mut Subscriber) -> Vec<Adu> {
    let mut adus = Vec::new();
    let all = async {
        while let Some(event) = subscriber.recv().await {
            if let SubscriberEvent::Adu(adu) = event {
                adus.push(adu);
            }
        }
    };
    tokio::time::timeout(PATIENCE, all)
        .await
        .expect("the end in time");
    adus
}

/// Sends ADUs of all lengths from the first node to the last, and returns the ones that arrive.
pub async fn crossed(
    nodes: &[Running],
    needs: Needs,
    planner: Option<Planner>,
    count: u64,
) -> Vec<Adu> {
    let (mut publisher, mut subscriber) = subscribed(nodes, needs, planner).await;
    let send = async {
        for number in 0..count {
            let length = LENGTHS[number as usize % LENGTHS.len()];
            let sent = publisher
                .send(outgoing(number, payload(number, length)))
                .await;
            assert_eq!(sent.expect("the node runs").0, number);
        }
        publisher.finish().await
    };
    let (summary, adus) = tokio::join!(send, received(&mut subscriber));
    assert_eq!(summary.produced, count);
    assert_eq!(summary.counts.outstanding, 0, "{summary:?}");
    for adu in &adus {
        let number = adu.header.sequence.0;
        let length = LENGTHS[number as usize % LENGTHS.len()];
        assert_eq!(adu.payload, payload(number, length), "ADU {number}");
        assert_eq!(
            adu.header.media_time,
            MediaTime::from_micros(number * 1_000)
        );
        assert!(!adu.header.flags.contains(Flags::SEALED));
    }
    adus
}

pub fn sequences(adus: &[Adu]) -> Vec<u64> {
    adus.iter().map(|adu| adu.header.sequence.0).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadline_adus_cross_whole_and_once() {
    let nodes = fabric::chain(&NAMES, |_| true).await;
    let needs = Needs {
        deadline: Duration::from_secs(20),
        ..Needs::default()
    };
    let adus = crossed(&nodes, needs, Some(Planner::Exact), 60).await;
    assert_eq!(adus.len(), 60);
    assert_eq!(
        sequences(&adus).into_iter().collect::<BTreeSet<_>>().len(),
        60
    );
    for node in nodes {
        assert_eq!(node.stop().await.unacknowledged, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reliable_stream_arrives_in_order() {
    let nodes = fabric::chain(&NAMES, |_| true).await;
    let needs = Needs {
        reliability: Reliability::Full,
        order: Order::Sequence,
        ..Needs::default()
    };
    let adus = crossed(&nodes, needs, None, 200).await;
    assert_eq!(sequences(&adus), (0..200).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreliable_adus_cross_unchanged() {
    let nodes = fabric::chain(&NAMES[..3], |_| true).await;
    let needs = Needs {
        reliability: Reliability::None,
        deadline: Duration::from_secs(20),
        ..Needs::default()
    };
    let adus = crossed(&nodes, needs, None, 60).await;
    let once: BTreeSet<u64> = sequences(&adus).into_iter().collect();
    assert_eq!(once.len(), adus.len(), "nothing twice");
    assert!(!adus.is_empty(), "an idle loopback carries datagrams");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lasting_adus_wait_for_room() {
    let nodes = fabric::chain(&NAMES[..4], |_| true).await;
    let (mut publisher, mut subscriber) = subscribed(&nodes, Needs::default(), None).await;
    // More than a link has in flight or a mailbox holds, at the rate at which they are taken.
    let count = 6_000;
    let send = async {
        for number in 0..count {
            let sent = publisher.send(outgoing(number, payload(number, 100))).await;
            assert_eq!(sent.expect("the node runs").0, number);
        }
        publisher.finish().await
    };
    let (summary, adus) = tokio::join!(send, received(&mut subscriber));
    assert!(summary.counts.dropped.is_empty(), "{summary:?}");
    let once: BTreeSet<u64> = sequences(&adus).into_iter().collect();
    assert_eq!((adus.len(), once.len()), (6_000, 6_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn confidential_stream_stays_sealed() {
    let nodes = fabric::chain(&NAMES, |name| matches!(name, "n0" | "n4")).await;
    let needs = Needs {
        confidential: true,
        deadline: Duration::from_secs(20),
        ..Needs::default()
    };
    let adus = crossed(&nodes, needs, Some(Planner::Exact), 60).await;
    assert_eq!(adus.len(), 60);
    for (place, node) in nodes.iter().enumerate().take(4) {
        let status = node.handle.status().await.expect("it runs");
        let next = status
            .links
            .iter()
            .find(|link| link.name == NAMES[place + 1])
            .expect("a link");
        assert_eq!(
            next.adus.plain, 0,
            "{} showed plaintext to {}",
            NAMES[place], next.name
        );
        assert_eq!(next.adus.sealed, 61, "60 ADUs and the end");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_subscriber_gets_a_notice() {
    let nodes = fabric::chain(&NAMES[..2], |_| true).await;
    let name = "cam".parse().expect("a name");
    let options = SubscribeOptions::new(name, true);
    let mut subscriber = nodes[1].handle.subscribe(options).await;
    let event = tokio::time::timeout(PATIENCE, subscriber.recv())
        .await
        .expect("in time");
    let Some(SubscriberEvent::Notice(notice)) = event else {
        panic!("{event:?}")
    };
    assert!(notice.contains("no node publishes `cam` yet"), "{notice}");
    let publisher = nodes[0]
        .handle
        .publish(publication(Needs::default(), None))
        .await;
    let mut publisher = publisher.expect("it is published");
    publisher.wanted().await.expect("the node runs");
    publisher
        .send(outgoing(0, Bytes::from_static(b"late")))
        .await
        .expect("the node runs");
    publisher.finish().await;
    let adus = received(&mut subscriber).await;
    assert_eq!(sequences(&adus), [0]);
}
