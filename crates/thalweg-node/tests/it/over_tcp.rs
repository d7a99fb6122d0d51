//! Proves that a node whose peer can be reached over TCP alone carries every reliability to it and on over QUIC, and says
//! over what its link goes.

use thalweg_core::needs::{Needs, Order, Reliability};
use thalweg_core::pace::Pacing;
use thalweg_core::time::Duration;

use crate::chain::{crossed, sequences};
use crate::fabric::{Running, start_with, trusted};

/// Returns three nodes in a row: over TCP from the first to the second, over QUIC from there on.
async fn row(pace: Pacing) -> Vec<Running> {
    let known = [trusted("n1", None), trusted("n2", None)];
    let first = start_with("n0", &known, |config| {
        config.tcp.listen = vec![([127, 0, 0, 1], 0).into()];
        config.tcp.pace = pace;
    })
    .await;
    let known = [trusted("n0", None), trusted("n2", None)];
    let second = start_with("n1", &known, |config| {
        config.peers[0].tcp_addresses = first.handle.tcp_addresses().to_vec();
        config.tcp.pace = pace;
    })
    .await;
    let known = [trusted("n0", None), trusted("n1", Some(second.address))];
    let third = start_with("n2", &known, |_| {}).await;
    vec![first, second, third]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reliability_crosses_a_hop_of_tcp_and_one_of_quic() {
    for pace in [Pacing::Kernel, Pacing::Acked] {
        let nodes = row(pace).await;
        let deadline = Duration::from_secs(20);
        let until_deadline = Needs {
            deadline,
            ..Needs::default()
        };
        let adus = crossed(&nodes, until_deadline, None, 21).await;
        let mut all = sequences(&adus);
        all.sort_unstable();
        assert_eq!(all, (0..21).collect::<Vec<_>>());
        let status = nodes[1].handle.status().await.expect("it runs");
        let to_first = status.links.iter().find(|link| link.name == "n0");
        let to_first = to_first.expect("they are linked");
        let address = format!("tcp:{}", nodes[0].handle.tcp_addresses()[0]);
        assert!(to_first.addresses.contains(&address), "{to_first:?}");
        // How many is a matter of the machine's load: a wait of 200 ms is taken for a stall.
        assert!(to_first.failovers.is_some());
        for node in nodes {
            assert_eq!(node.stop().await.unacknowledged, 0);
        }
        let full = Needs {
            reliability: Reliability::Full,
            order: Order::Sequence,
            ..Needs::default()
        };
        let adus = crossed(&row(pace).await, full, None, 40).await;
        assert_eq!(sequences(&adus), (0..40).collect::<Vec<_>>());
        let unreliable = Needs {
            reliability: Reliability::None,
            deadline,
            ..Needs::default()
        };
        let adus = crossed(&row(pace).await, unreliable, None, 20).await;
        assert!(!adus.is_empty(), "an idle loopback carries datagrams");
    }
}
