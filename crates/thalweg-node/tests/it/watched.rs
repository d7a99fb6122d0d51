//! Proves that frequent status queries do not delay a node's other work.

use std::time::Duration;

use thalweg_base::units::Bitrate;
use thalweg_node::{Publication, SubscribeOptions, SubscriberEvent};
use thalweg_planner::model::Layer;

use crate::fabric::{self, PATIENCE};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frequent_queries_delay_nothing() {
    let nodes = fabric::chain(&["n0", "n1"], |_| true).await;
    for node in &nodes {
        let handle = node.handle.clone();
        tokio::spawn(async move {
            while handle.status().await.is_some() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
    let publication = |layers| Publication {
        planner: None,
        ..Publication::layered("cam".parse().expect("a name"), layers)
    };
    let layers = vec![Layer {
        rate: Bitrate::from_kbps(500),
        utility: 1.0,
    }];
    let name = "cam".parse().expect("a name");
    let in_sequence = true;
    let options = SubscribeOptions::new(name, in_sequence);
    let mut subscriber = nodes[1].handle.subscribe(options).await;
    let publisher = nodes[0].handle.publish(publication(layers)).await;
    let mut publisher = publisher.expect("it is published");
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("a plan in time").expect("the node runs");
    let outgoing = fabric::outgoing(b"through");
    publisher.send(outgoing).await.expect("the node runs");
    loop {
        let event = tokio::time::timeout(PATIENCE, subscriber.recv()).await;
        if let SubscriberEvent::Adu(adu) = event.expect("in time").expect("the stream goes on") {
            assert_eq!(&adu.payload[..], b"through");
            break;
        }
    }
    for node in nodes {
        node.stop().await;
    }
}
