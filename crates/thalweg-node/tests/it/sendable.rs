//! Proves that a publisher can follow the rate of its stream's first links until they or the node
//! are gone.

use thalweg_base::units::Bitrate;
use thalweg_node::PublishError;

use crate::fabric::{self, PATIENCE};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publisher_follows_sendable_rate() {
    let mut nodes = fabric::chain(&["n0", "n1"], |_| true).await;
    let (mut publisher, _subscriber) = fabric::stream(&nodes[0], &nodes[1]).await;
    // Before a plan exists, so the follower must notice that one comes into force.
    let mut sendable = publisher.sendable();
    let first = tokio::spawn(async move {
        let first = sendable.changed().await;
        (first, sendable)
    });
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("a plan in time").expect("the node runs");
    for _ in 0..20 {
        let sent = publisher.send(fabric::outgoing(&[1; 5_000])).await;
        sent.expect("the node runs");
    }
    let first = tokio::time::timeout(PATIENCE, first).await;
    let (first, mut sendable) = first.expect("in time").expect("no panic");
    assert!(first.expect("the node runs") > Some(Bitrate::ZERO));

    nodes.remove(1).stop().await;
    let gone = async { while sendable.changed().await.expect("the node runs").is_some() {} };
    tokio::time::timeout(PATIENCE, gone).await.expect("in time");
    nodes.remove(0).stop().await;
    let stopped = tokio::time::timeout(PATIENCE, sendable.changed()).await;
    assert_eq!(stopped.expect("in time"), Err(PublishError::Stopped));
}
