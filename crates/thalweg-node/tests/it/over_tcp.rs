//! Proves that a node with a TCP-only peer carries every reliability over TCP and on over QUIC, and
//! reports the transport of its links; and that a node without UDP joins, is introduced and carries
//! streams.

use std::net::UdpSocket;

use thalweg_base::needs::{Needs, Order, Reliability};
use thalweg_base::time::Duration;
use thalweg_control::admission::Rights;
use thalweg_link::tcp_mux::Pacing;

use thalweg_net::Unreachable;
use thalweg_node::InviteRequest;
use thalweg_node::config::{Config, Owner};
use thalweg_node::fabric::{JoinError, join, ticket};

use crate::chain::{crossed, sequences};
use crate::fabric::{Running, identity, start_with, stream, trusted, until};
use crate::relayed::{confined, publisher_reaches, remote_addresses};

/// Returns three nodes in a row: TCP from the first to the second, encrypted or in the clear by the loop
/// of one thread each, and QUIC to the third.
async fn row(pace: Pacing, is_clear: bool) -> Vec<Running> {
    let tcp = |config: &mut Config, peer: &str| {
        config.tcp.pace = pace;
        config.tcp.clear_loop = is_clear;
        config.tcp.plain = is_clear.then(|| identity(peer).id()).into_iter().collect();
    };
    let known = [trusted("n1", None), trusted("n2", None)];
    let first = start_with("n0", &known, |config| {
        config.tcp.listen = vec![([127, 0, 0, 1], 0).into()];
        tcp(config, "n1");
    })
    .await;
    let known = [trusted("n0", None), trusted("n2", None)];
    let second = start_with("n1", &known, |config| {
        config.peers[0].tcp_addresses = first.handle.tcp_addresses().to_vec();
        tcp(config, "n0");
    })
    .await;
    let known = [trusted("n0", None), trusted("n1", Some(second.address))];
    let third = start_with("n2", &known, |_| {}).await;
    vec![first, second, third]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reliabilities_cross_tcp_and_quic() {
    for (pace, is_clear) in [
        (Pacing::Kernel, false),
        (Pacing::Acked, false),
        (Pacing::Kernel, true),
        (Pacing::Acked, true),
    ] {
        let nodes = row(pace, is_clear).await;
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
        // The count depends on the machine's load: a pause of 200 ms counts as a stall.
        assert!(to_first.failovers.is_some());
        for node in nodes {
            assert_eq!(node.stop().await.unacknowledged, 0);
        }
        let full = Needs {
            reliability: Reliability::Full,
            order: Order::Sequence,
            ..Needs::default()
        };
        let adus = crossed(&row(pace, is_clear).await, full, None, 40).await;
        assert_eq!(sequences(&adus), (0..40).collect::<Vec<_>>());
        let unreliable = Needs {
            reliability: Reliability::None,
            deadline,
            ..Needs::default()
        };
        let adus = crossed(&row(pace, is_clear).await, unreliable, None, 20).await;
        assert!(!adus.is_empty(), "an idle loopback carries datagrams");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_without_udp_joins_by_ticket() {
    let site = tempfile::tempdir().expect("a directory for the test");
    let file = |name: &str| site.path().join(name);
    let owner = start_with("owner", &[], |config| {
        confined(config, 11, &file("owner"));
        config.fabric.owner = Owner::Own;
        config.tcp.listen = vec![([127, 0, 0, 1], 0).into()];
    })
    .await;
    let request = InviteRequest {
        rights: Rights::MEMBER,
        uses: 2,
        open_for: Duration::from_secs(600),
        lasts: Duration::NEVER,
        addresses: Vec::new(),
        tcp_addresses: Vec::new(),
    };
    let text = owner.handle.invite(request).await.expect("it may invite");
    let mut ticket = ticket::parse(&text).expect("whole");
    assert_eq!(ticket.tcp_addresses, owner.handle.tcp_addresses());
    // A socket that receives every packet and is never read.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
    let silent = silent.local_addr().map(|address| (address, silent));
    let (silent, _socket) = silent.expect("it is bound");
    ticket.addresses = vec![silent];
    let mut without = ticket.clone();
    without.tcp_addresses.clear();
    let keys = ["base", "camera", "other"].map(identity);
    let files = ["base", "camera", "other"].map(file);
    let (base, camera, other) = tokio::join!(
        join(&ticket, &keys[0], Owner::Kept, &files[0]),
        join(&ticket, &keys[1], Owner::Kept, &files[1]),
        join(&without, &keys[2], Owner::Kept, &files[2]),
    );
    base.expect("it joins over TCP");
    camera.expect("it joins over TCP");
    assert!(
        matches!(
            other,
            Err(JoinError::Unreachable(Unreachable::TimedOut { .. }))
        ),
        "no packet of UDP gets through: {other:?}"
    );
    // No other node is left that could introduce the two.
    owner.stop().await;
    let base = start_with("base", &[], |config| {
        confined(config, 12, &files[0]);
        config.tcp.listen = vec![([127, 0, 0, 1], 0).into()];
    })
    .await;
    let camera = start_with("camera", &[trusted("base", Some(silent))], |config| {
        confined(config, 13, &files[1]);
        config.peers[0].tcp_addresses = base.handle.tcp_addresses().to_vec();
    })
    .await;
    let over_tcp = format!("tcp:{}", base.handle.tcp_addresses()[0]);
    until("they are linked over TCP", || async {
        remote_addresses(&camera).await.contains(&over_tcp)
    })
    .await;
    let (publisher, mut subscriber) = stream(&camera, &base).await;
    publisher_reaches(publisher, &mut subscriber).await;
}
