//! Nodes for tests, on loopback addresses, with keys from seeds.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use thalweg_base::adu::{Flags, Importance, MediaTime};
use thalweg_base::needs::Needs;
use thalweg_base::units::Bitrate;
use thalweg_net::{Endpoint, Identity};
use thalweg_node::config::{Config, Peer};
use thalweg_node::{
    Handle, Node, Outgoing, Publication, Publisher, Report, SubscribeOptions, Subscriber,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long a test waits for an event that must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// One node of a test.
pub struct Running {
    pub handle: Handle,
    pub address: SocketAddr,
    pub api: Option<SocketAddr>,
    pub endpoint: Endpoint,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Report>,
}

/// What one node's configuration says about another.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub name: &'a str,
    pub trusted: bool,
    pub secure: bool,
    pub address: Option<SocketAddr>,
}

/// Returns the key of the test's node of this name.
pub fn identity(name: &str) -> Identity {
    let mut seed = [7; 32];
    seed[..name.len()].copy_from_slice(name.as_bytes());
    Identity::from_seed(seed)
}

/// Publishes a stream of one layer on one node and subscribes to it on another.
pub async fn stream(source: &Running, sink: &Running) -> (Publisher, Subscriber) {
    let name = "truck/cam".parse().expect("a name");
    let options = SubscribeOptions::new(name, true);
    let subscriber = sink.handle.subscribe(options).await;
    let publication = Publication {
        needs: Needs::default(),
        pack_ratio: None,
        planner: None,
        ..Publication::new(
            "truck/cam".parse().expect("a name"),
            Bitrate::from_kbps(500),
        )
    };
    let publisher = source.handle.publish(publication).await.expect("it is");
    (publisher, subscriber)
}

/// Returns an ADU without dependencies and with some importance.
pub fn outgoing(payload: &'static [u8]) -> Outgoing {
    Outgoing {
        media_time: MediaTime::from_micros(0),
        importance: Importance(200),
        layer: 0,
        flags: Flags::NONE,
        depends_on: 0,
        payload: Bytes::from_static(payload),
    }
}

/// Starts a node that knows these others.
pub async fn start(name: &str, known: &[Known<'_>]) -> Running {
    start_with(name, known, |_| {}).await
}

/// Starts a node that knows these others, with a changed configuration.
pub async fn start_with(
    name: &str,
    known: &[Known<'_>],
    change: impl FnOnce(&mut Config),
) -> Running {
    let mut config = Config::new(name.parse().expect("a name"), "unused.key".into());
    config.peers = known.iter().map(peer).collect();
    change(&mut config);
    let node = Node::with_identity(config, identity(name))
        .await
        .expect("it starts");
    let handle = node.handle();
    let api = node.api_address();
    let endpoint = node.endpoint();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(async move {
        let shutdown = async {
            // A test that ends without stopping its nodes drops the sender.
            let _ = stopped.await;
        };
        node.run(shutdown).await.expect("it stops")
    });
    let address = handle.addresses()[0];
    Running {
        handle,
        address,
        api,
        endpoint,
        stop: Some(stop),
        task,
    }
}

impl Running {
    /// Stops the node and returns its report.
    pub async fn stop(mut self) -> Report {
        drop(self.stop.take());
        tokio::time::timeout(PATIENCE, self.task)
            .await
            .expect("in time")
            .expect("no panic")
    }
}

/// Returns the configuration entry of a trusted node.
pub fn trusted(name: &str, address: Option<SocketAddr>) -> Known<'_> {
    Known {
        name,
        trusted: true,
        secure: true,
        address,
    }
}

fn peer(known: &Known<'_>) -> Peer {
    Peer {
        name: known.name.parse().expect("a name"),
        key: identity(known.name).id(),
        addresses: known.address.into_iter().collect(),
        tcp_addresses: Vec::new(),
        relays: Vec::new(),
        hosts: Vec::new(),
        tcp_hosts: Vec::new(),
        connect: true,
        trusted: known.trusted,
        secure: known.secure,
        rate: None,
    }
}

/// Starts nodes of these names in a chain; each trusts those for which `trusted` holds.
pub async fn chain(names: &[&str], trusted: impl Fn(&str) -> bool) -> Vec<Running> {
    let mut nodes: Vec<Running> = Vec::new();
    for (place, name) in names.iter().enumerate() {
        // Each is dialled by the one after it, which knows its address.
        let others = names
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != place);
        let known: Vec<Known<'_>> = others
            .map(|(other, name)| Known {
                name,
                trusted: trusted(name),
                secure: true,
                address: (other + 1 == place).then(|| nodes[other].address),
            })
            .collect();
        nodes.push(start(name, &known).await);
    }
    nodes
}

/// Waits until `condition` holds.
pub async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("not in time: {what}"));
}
