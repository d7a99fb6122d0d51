//! Proves that a link's status reports its queue, the latency of ADUs, and its flows by stream.

use thalweg_node::status::OutboxStatus;

use crate::fabric::{self, PATIENCE, Running};

const ADUS: u64 = 20;

async fn outbox(node: &Running) -> OutboxStatus {
    let status = node.handle.status().await.expect("it runs");
    status.links[0].outbox.clone().expect("its link is up")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn link_reports_queue_and_latency() {
    let nodes = fabric::chain(&["n0", "n1"], |_| true).await;
    let (mut publisher, _subscriber) = fabric::stream(&nodes[0], &nodes[1]).await;
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("a plan in time").expect("the node runs");
    assert!(outbox(&nodes[0]).await.latency_ms.is_none());
    for _ in 0..ADUS {
        let sent = publisher.send(fabric::outgoing(&[1; 5_000])).await;
        sent.expect("the node runs");
    }
    fabric::until("all are acknowledged", || async {
        let latency = outbox(&nodes[0]).await.latency_ms;
        latency.is_some_and(|latency| latency.adus == ADUS)
    })
    .await;
    let outbox = outbox(&nodes[0]).await;
    let latency = outbox.latency_ms.expect("as above");
    assert!(latency.p50 > 0.0 && latency.p50 <= latency.max);
    assert_eq!((outbox.waiting_adus, outbox.waiting_bytes), (0, 0));
    assert_eq!(outbox.by_importance.len(), 8);
    assert!(outbox.dropped.is_empty(), "{:?}", outbox.dropped);
    let names: Vec<&str> = outbox
        .flows
        .iter()
        .map(|flow| flow.stream.as_str())
        .collect();
    assert_eq!(names, ["truck/cam"]);
}
