//! Proves that two nodes without a direct path connect through a relay, and how they report the
//! relay's end.
//!
//! *How.* The relay is the program `iroh-relay` on loopback; `cargo xtask relay` installs it. Each
//! node is confined to a loopback address of its own, from which no UDP packet reaches the other,
//! so only TCP to the relay is left. `camera` knows the relay from its ticket only.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use thalweg_base::time::Duration;
use thalweg_control::admission::Rights;
use thalweg_node::InviteRequest;
use thalweg_node::config::{Config, Owner};
use thalweg_node::fabric::{join, ticket};

use crate::fabric::{Running, identity, outgoing, start_with, stream, until};

/// The relay's process, killed with the test.
struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Relay {
    async fn start(address: SocketAddr, folder: &Path) -> Self {
        let program = std::env::var_os("THALWEG_TEST_RELAY").expect(
            "this test needs a relay: run `cargo xtask test`, or `cargo xtask relay` and set THALWEG_TEST_RELAY to the \
             program that it names",
        );
        let file = folder.join("relay.toml");
        let text = format!("http_bind_addr = \"{address}\"\nenable_metrics = false\n");
        std::fs::write(&file, text).expect("ours");
        let mut command = Command::new(program);
        command.arg("--dev").arg("--config-path").arg(&file);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let relay = Self(child.expect("it starts"));
        until("the relay listens", || async {
            TcpStream::connect(address).is_ok()
        })
        .await;
        relay
    }
}

/// Confines a node to an address from which no UDP packet reaches the others, and sets its state
/// file.
pub fn confined(config: &mut Config, last: u8, file: &Path) {
    config.listen = vec![(Ipv4Addr::new(127, 93, 0, last), 0).into()];
    config.reach.packets = thalweg_net::Reach::OwnAddress;
    config.fabric.state = Some(file.into());
}

/// Returns the remote addresses of a node's links that are up.
pub async fn remote_addresses(node: &Running) -> Vec<String> {
    let status = node.handle.status().await.expect("it runs");
    let links = status.links.into_iter();
    links.flat_map(|link| link.addresses).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_connect_through_a_relay() {
    let site = tempfile::tempdir().expect("a directory for the test");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.expect("a free port");
    let relay = Relay::start(address, site.path()).await;
    let url = format!("http://{address}/");
    let owner = start_with("owner", &[], |config| {
        confined(config, 1, &site.path().join("owner.json"));
        config.fabric.owner = Owner::Own;
        config.reach.relays = vec![url.parse().expect("a relay")];
    })
    .await;
    let request = InviteRequest {
        rights: Rights::MEMBER,
        uses: 1,
        open_for: Duration::from_secs(600),
        lasts: Duration::NEVER,
        addresses: Vec::new(),
        tcp_addresses: Vec::new(),
    };
    let text = owner.handle.invite(request).await.expect("it may invite");
    let ticket = ticket::parse(&text).expect("whole");
    assert_eq!(ticket.relays, std::slice::from_ref(&url));
    let file = site.path().join("camera.json");
    // The owner may not be registered at the relay yet.
    let key = identity("camera");
    until("the camera joins", || async {
        join(&ticket, &key, Owner::Kept, &file).await.is_ok()
    })
    .await;
    let camera = start_with("camera", &[], |config| confined(config, 2, &file)).await;
    let by_relay = vec![format!("relay {url}")];
    for node in [&owner, &camera] {
        until("they are linked, by the relay", || async {
            remote_addresses(node).await == by_relay
        })
        .await;
    }
    let (publisher, mut subscriber) = stream(&camera, &owner).await;
    publisher_reaches(publisher, &mut subscriber).await;
    drop(relay);
    for node in [&owner, &camera] {
        until("the link is down with its relay", || async {
            remote_addresses(node).await.is_empty()
        })
        .await;
    }
    let _relay = Relay::start(address, site.path()).await;
    for node in [&owner, &camera] {
        until("the link is back with its relay", || async {
            remote_addresses(node).await == by_relay
        })
        .await;
    }
}

/// Publishes one ADU once there is a plan, and waits for its arrival.
pub async fn publisher_reaches(
    mut publisher: thalweg_node::Publisher,
    subscriber: &mut thalweg_node::Subscriber,
) {
    let mut plans = publisher.plans();
    let planned = plans.wait_for(|plans| !plans.is_empty());
    let planned = tokio::time::timeout(crate::fabric::PATIENCE, planned).await;
    planned.expect("in time").expect("it runs");
    publisher.send(outgoing(b"hello")).await.expect("it goes");
    let heard = async {
        loop {
            match subscriber.recv().await.expect("it comes") {
                thalweg_node::SubscriberEvent::Adu(adu) => return adu.payload,
                thalweg_node::SubscriberEvent::Notice(_) => {}
            }
        }
    };
    let heard = tokio::time::timeout(crate::fabric::PATIENCE, heard).await;
    assert_eq!(&heard.expect("in time")[..], b"hello");
}
