//! Proves that nodes with engines carry their streams over them, say so, and go on over iroh when an
//! engine's port is cut off: no ADU is lost, none is delivered twice.

use std::time::Duration as StdDuration;

use bytes::Bytes;
use thalweg_base::adu::{Adu, Flags, Importance, MediaTime};
use thalweg_base::needs::{Needs, Order, Reliability};
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_node::config::Config;
use thalweg_node::{
    Outgoing, Publication, Publisher, SubscribeOptions, Subscriber, SubscriberEvent,
};

use crate::chain::sequences;
use crate::fabric::{PATIENCE, Running, start_with, trusted, until};

const COUNT: u64 = 300;

/// Starts two nodes with engines and waits until their link goes over them.
async fn pair() -> [Running; 2] {
    let engine = Some(([127, 0, 0, 1], 0).into());
    let first = start_with("n0", &[trusted("n1", None)], |config| {
        config.engine = engine;
    })
    .await;
    let known = [trusted("n0", Some(first.address))];
    let second = start_with("n1", &known, |config| config.engine = engine).await;
    for node in [&first, &second] {
        until("a link over the engine", async || {
            address(node).await.starts_with("engine:")
        })
        .await;
    }
    [first, second]
}

/// Returns the address that the node's status shows for its only link, if it is up.
async fn address(node: &Running) -> String {
    let status = node.handle.status().await.expect("it runs");
    let shown = status.links.first().and_then(|link| link.addresses.first());
    shown.cloned().unwrap_or_default()
}

/// Returns an ADU of this number.
fn numbered(number: u64) -> Outgoing {
    Outgoing {
        media_time: MediaTime::from_micros(number * 1_000),
        importance: Importance(200),
        layer: 0,
        flags: Flags::NONE,
        depends_on: 0,
        payload: Bytes::from(vec![number as u8; 3000]),
    }
}

/// Streams from one node to the other, and cuts an engine off in the midst.
async fn crossed([source, sink]: [&Running; 2], needs: Needs, cut: &Running) -> Vec<Adu> {
    let name = "cam".parse().expect("a name");
    let in_sequence = needs.order == Order::Sequence;
    let options = SubscribeOptions::new(name, in_sequence);
    let mut subscriber = sink.handle.subscribe(options).await;
    let publication = Publication {
        needs,
        ..Publication::new("cam".parse().expect("a name"), Bitrate::from_kbps(500))
    };
    let mut publisher = source.handle.publish(publication).await.expect("it is");
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("a plan in time").expect("the node runs");
    let send = async {
        for number in 0..COUNT {
            if number == COUNT / 3 {
                cut.endpoint.cut_engine();
            }
            publisher
                .send(numbered(number))
                .await
                .expect("the node runs");
            tokio::time::sleep(StdDuration::from_millis(3)).await;
        }
        publisher.finish().await
    };
    let receive = async {
        let mut adus = Vec::new();
        while let Some(event) = subscriber.recv().await {
            if let SubscriberEvent::Adu(adu) = event {
                adus.push(adu);
            }
        }
        adus
    };
    let both = async { tokio::join!(send, receive) };
    let (summary, adus) = tokio::time::timeout(PATIENCE, both)
        .await
        .expect("the end in time");
    assert_eq!(summary.produced, COUNT);
    assert_eq!(summary.counts.outstanding, 0, "{summary:?}");
    adus
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_survives_a_cut_engine() {
    let until_deadline = Needs {
        deadline: Duration::from_secs(20),
        ..Needs::default()
    };
    let full = Needs {
        reliability: Reliability::Full,
        order: Order::Sequence,
        ..Needs::default()
    };
    for needs in [until_deadline, full] {
        for is_at_source in [true, false] {
            let [first, second] = pair().await;
            let cut = if is_at_source { &first } else { &second };
            let adus = crossed([&first, &second], needs, cut).await;
            let mut all = sequences(&adus);
            if needs.order != Order::Sequence {
                all.sort_unstable();
            }
            assert_eq!(all, (0..COUNT).collect::<Vec<_>>(), "each once");
            let shown = address(&first).await;
            assert!(
                !shown.starts_with("engine:") && !shown.is_empty(),
                "{shown}"
            );
            for node in [first, second] {
                node.stop().await;
            }
        }
    }
}

/// The sinks of the relay below.
const SINKS: usize = 6;

/// Starts a source, a relay and its sinks, and waits until all their links go over engines.
async fn fan() -> (Running, Running, Vec<Running>) {
    let engine = Some(([127, 0, 0, 1], 0).into());
    let with_engine = |config: &mut Config| config.engine = engine;
    let names: Vec<String> = (0..SINKS).map(|sink| format!("s{sink}")).collect();
    let source = start_with("n0", &[trusted("n1", None)], with_engine).await;
    let mut known = vec![trusted("n0", Some(source.address))];
    known.extend(names.iter().map(|name| trusted(name, None)));
    let relay = start_with("n1", &known, with_engine).await;
    let mut sinks = Vec::new();
    for name in &names {
        let known = [trusted("n0", None), trusted("n1", Some(relay.address))];
        sinks.push(start_with(name, &known, with_engine).await);
    }
    until("all links over engines", async || {
        let status = relay.handle.status().await.expect("it runs");
        let links = status.links.iter();
        let addresses = links.filter_map(|link| link.addresses.first());
        let over_engines = addresses.filter(|address| address.starts_with("engine:"));
        over_engines.count() == SINKS + 1
    })
    .await;
    (source, relay, sinks)
}

/// Publishes until each subscriber has got something, for they join one after the other; returns the
/// next sequence.
async fn joined(publisher: &mut Publisher, subscribers: &mut [Subscriber]) -> u64 {
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("a plan in time").expect("the node runs");
    let mut next = 0;
    for subscriber in subscribers {
        let few = StdDuration::from_millis(50);
        let has_one = |event| matches!(event, Ok(Some(SubscriberEvent::Adu(_))));
        while !has_one(tokio::time::timeout(few, subscriber.recv()).await) {
            let sent = publisher.send(numbered(next)).await;
            next = sent.expect("it runs").0 + 1;
            assert!(next < 600, "a plan for each sink");
        }
    }
    next
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_fans_out_over_the_engine() {
    let (source, _relay, sinks) = fan().await;
    let publication = Publication {
        needs: Needs {
            deadline: Duration::from_secs(20),
            ..Needs::default()
        },
        ..Publication::new("cam".parse().expect("a name"), Bitrate::from_kbps(500))
    };
    let mut subscribers = Vec::new();
    for sink in &sinks {
        let options = SubscribeOptions::new("cam".parse().expect("a name"), false);
        subscribers.push(sink.handle.subscribe(options).await);
    }
    let mut publisher = source.handle.publish(publication).await.expect("it is");
    let first = joined(&mut publisher, &mut subscribers).await;
    let send = async {
        for number in 0..COUNT {
            publisher.send(numbered(number)).await.expect("it runs");
            tokio::time::sleep(StdDuration::from_millis(3)).await;
        }
        publisher.finish().await
    };
    let receive = async {
        for subscriber in &mut subscribers {
            let mut adus = Vec::new();
            while let Some(event) = subscriber.recv().await {
                if let SubscriberEvent::Adu(adu) = event {
                    adus.push(adu);
                }
            }
            let mut arrived = sequences(&adus);
            arrived.sort_unstable();
            arrived.retain(|sequence| *sequence >= first);
            let all: Vec<u64> = (first..first + COUNT).collect();
            assert_eq!(arrived, all, "each once");
        }
    };
    let both = async { tokio::join!(send, receive) };
    let (summary, ()) = tokio::time::timeout(PATIENCE, both)
        .await
        .expect("the end in time");
    assert_eq!(summary.counts.outstanding, 0, "{summary:?}");
}
