//! One fabric: every node of a world in this process, every link a QUIC connection through its own shaper.
//!
//! *The idea.* Nodes are built from a configuration, as in the daemon, and each is bound to a
//! loopback address of its own (Linux has 127.0.0.0/8). The near end of a line has the address of
//! the dialling node, so the only path between two nodes is through the shaper. A node dials those
//! started before it, so every address is known in time. The demo runs two fabrics: on a single one
//! the two streams would share the slow link, and neither would show its own effect.
//!
//! ```text
//! node at 127.81.0.2 ─► 127.81.0.2 │ shaper: rate, delay, loss, queue │ 127.81.0.1 ─► node at 127.81.0.1
//! ```
//!
//! *What it does not do.* It does not plan: the publishing node does, from the links in its configuration.

mod wiretap;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use thalweg_base::units::Bitrate;
use thalweg_net::shaper::Direction;
use thalweg_net::{Identity, Impairment, Shaper, ShaperOptions};
use thalweg_node::config::Peer;
use thalweg_node::{Config, Handle, Node, Publication, Publisher, SubscribeOptions, Subscriber};
use thalweg_planner::model::{Link, NodeName, Stream, World};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use wiretap::Wiretap;

/// How long links, records and the plan may take before the stream can flow.
const START_MAX: Duration = Duration::from_secs(20);

/// How long nodes may take to close; a backlog is useless by then.
const STOP_MAX: Duration = Duration::from_secs(1);

/// The running nodes of a world, with shaped links between them.
pub struct Fabric {
    nodes: BTreeMap<NodeName, Handle>,
    lines: Vec<Line>,
    stop: watch::Sender<bool>,
    running: JoinSet<()>,
}

/// A link of the world and its shaper.
struct Line {
    /// The link.
    link: Link,
    /// Its index in the world's links.
    at: usize,
    shaper: Shaper,
    /// Whether the shaper's end A is the link's first end.
    forward: bool,
}

/// Totals of one direction of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Bytes delivered, headers included.
    pub bytes: u64,
    /// Packets dropped by the queue or lost.
    pub dropped: u64,
}

impl Fabric {
    /// Starts every node and link of a world; `place` separates the address ranges of two fabrics.
    pub async fn start(world: &World, stream: &Stream, place: u8) -> anyhow::Result<Self> {
        let keys: BTreeMap<NodeName, Identity> = world
            .nodes
            .keys()
            .map(|name| (name.clone(), Identity::ephemeral()))
            .collect();
        let mut fabric = Self {
            nodes: BTreeMap::new(),
            lines: Vec::new(),
            stop: watch::channel(false).0,
            running: JoinSet::new(),
        };
        for (at, (name, identity)) in (0..).zip(&keys) {
            let own = address(place, at);
            let mut peers = peers(world, stream, name, &keys);
            fabric.lay_lines(world, name, own, &mut peers).await?;
            let mut config = Config::new(name.clone(), std::path::PathBuf::new());
            config.listen = vec![own];
            config.slots = world.nodes[name].slots;
            config.reach.packets = thalweg_net::Reach::OwnAddress;
            config.weights = world.weights;
            config.peers = peers.into_values().collect();
            fabric.run(config, identity.clone()).await?;
        }
        Ok(fabric)
    }

    /// Publishes the stream, subscribes at its sink, and waits until it can flow.
    pub async fn connect(
        &self,
        stream: &Stream,
        publication: Publication,
    ) -> anyhow::Result<(Publisher, Subscriber)> {
        let [sink] = &stream.to[..] else {
            anyhow::bail!(
                "stream `{}` has {} sinks; the demo needs a stream with one",
                stream.name,
                stream.to.len()
            );
        };
        let options = SubscribeOptions::new(stream.name.clone(), false);
        let subscriber = self.node(sink).subscribe(options).await;
        let source = self.node(&stream.from);
        let mut publisher = source.publish(publication).await?;
        match tokio::time::timeout(START_MAX, publisher.wanted()).await {
            Ok(wanted) => wanted?,
            Err(_) => anyhow::bail!(
                "the stream did not start within {} s: {}",
                START_MAX.as_secs(),
                missing_plan_reason(source).await
            ),
        }
        Ok((publisher, subscriber))
    }

    /// Returns the handle of a node of the world.
    pub fn node(&self, name: &NodeName) -> &Handle {
        &self.nodes[name]
    }

    /// Returns the totals of the link with this index, in the direction away from `from`.
    pub fn passed(&self, at: usize, from: &NodeName) -> Passed {
        let line = self.lines.iter().find(|line| line.at == at);
        line.map(|line| line.passed(from)).unwrap_or_default()
    }

    /// Returns the bytes delivered by each direction of each link, as `"from->to"`.
    pub fn link_bytes(&self) -> BTreeMap<String, u64> {
        let mut bytes = BTreeMap::new();
        for line in &self.lines {
            let [a, b] = &line.link.ends;
            for (from, to) in [(a, b), (b, a)] {
                // Parallel links share an entry.
                *bytes.entry(format!("{from}->{to}")).or_default() += line.passed(from).bytes;
            }
        }
        bytes
    }

    /// Changes every line to its link in `world`, which must have the same links as the world at the start.
    pub fn change(&self, world: &World) {
        for line in &self.lines {
            let impairment = Impairment::from(&world.links[line.at]);
            line.shaper.set(Direction::AToB, impairment);
            line.shaper.set(Direction::BToA, impairment);
        }
    }

    /// Stops every node and drops what is still queued.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let ended = async { while self.running.join_next().await.is_some() {} };
        // By default nodes drain for a few seconds, which is futile with a backlog.
        let _ = tokio::time::timeout(STOP_MAX, ended).await;
        self.running.abort_all();
    }

    /// Creates a line to every running neighbour, and writes its address into the configuration.
    async fn lay_lines(
        &mut self,
        world: &World,
        name: &NodeName,
        own: SocketAddr,
        peers: &mut BTreeMap<NodeName, Peer>,
    ) -> anyhow::Result<()> {
        for (at, link) in world.links.iter().enumerate() {
            let Some(other) = far_end(link, name) else {
                continue;
            };
            let Some(target) = self.nodes.get(other).map(Handle::addresses) else {
                continue;
            };
            let towards = *target.first().context("a node listens on no address")?;
            let options = ShaperOptions {
                from: own,
                towards,
                a_to_b: Impairment::from(link),
                b_to_a: Impairment::from(link),
                // Equal seeds lose the same packets in every run and in both fabrics.
                seed: at as u64,
            };
            let shaper = Shaper::start(options)
                .await
                .with_context(|| format!("cannot create a line from {name} to {other}"))?;
            let peer = peers
                .get_mut(other)
                .expect("every node of the world is a peer");
            peer.addresses.push(shaper.address());
            let forward = link.ends[0] == *name;
            self.lines.push(Line {
                link: link.clone(),
                at,
                shaper,
                forward,
            });
        }
        Ok(())
    }

    async fn run(&mut self, config: Config, identity: Identity) -> anyhow::Result<()> {
        let name = config.name.clone();
        let node = Node::with_identity(config, identity)
            .await
            .with_context(|| format!("node {name} cannot start"))?;
        self.nodes.insert(name, node.handle());
        let mut stop = self.stop.subscribe();
        self.running.spawn(async move {
            // If the sender of the signal is gone, so is the demo: the node stops too.
            let shutdown = async move {
                let _ = stop.wait_for(|stop| *stop).await;
            };
            if let Err(error) = node.run(shutdown).await {
                tracing::warn!(%error, "a node of the demo failed");
            }
        });
        Ok(())
    }
}

impl Line {
    fn passed(&self, from: &NodeName) -> Passed {
        let along = self.link.ends[0] == *from;
        let direction = if along == self.forward {
            Direction::AToB
        } else {
            Direction::BToA
        };
        let counters = self.shaper.counters(direction);
        Passed {
            bytes: counters.bytes,
            dropped: counters.lost + counters.overflowed,
        }
    }
}

/// Returns a node's peers: neighbours with the rate of their link, other nodes for their trust only.
fn peers(
    world: &World,
    stream: &Stream,
    name: &NodeName,
    keys: &BTreeMap<NodeName, Identity>,
) -> BTreeMap<NodeName, Peer> {
    let others = keys.iter().filter(|(other, _)| *other != name);
    others
        .map(|(other, identity)| {
            let link = world
                .links
                .iter()
                .find(|link| far_end(link, name) == Some(other));
            // Trust is limited to nodes that may see this stream's plaintext.
            let trusted = world.nodes[other].trusted || !stream.needs.confidential;
            let peer = Peer {
                name: other.clone(),
                key: identity.id(),
                addresses: Vec::new(),
                tcp_addresses: Vec::new(),
                relays: Vec::new(),
                hosts: Vec::new(),
                tcp_hosts: Vec::new(),
                connect: link.is_some(),
                trusted,
                secure: link.is_none_or(|link| link.secure),
                rate: link
                    .map(|link| link.rate)
                    .filter(|rate| *rate != Bitrate::ZERO),
            };
            (other.clone(), peer)
        })
        .collect()
}

fn far_end<'a>(link: &'a Link, name: &NodeName) -> Option<&'a NodeName> {
    match &link.ends {
        [a, b] if a == name => Some(b),
        [a, b] if b == name => Some(a),
        _ => None,
    }
}

/// Returns a loopback address for a node, with a free port; unique in this process.
fn address(place: u8, at: u16) -> SocketAddr {
    // The last byte is never 0 or 255, which may be taken for network and broadcast addresses.
    let [third, fourth] = [at / 200, at % 200 + 1].map(|byte| byte as u8);
    SocketAddr::from((Ipv4Addr::new(127, 81 + place, third, fourth), 0))
}

/// Returns why a publisher has no plan, as far as its node knows.
async fn missing_plan_reason(source: &Handle) -> String {
    let Some(status) = source.status().await else {
        return "its node has stopped".into();
    };
    let reasons: Vec<String> = status
        .plans
        .iter()
        .map(|plan| match &plan.reason {
            Some(reason) => reason.clone(),
            None => format!("its plan for {} is {}", plan.sink, plan.state),
        })
        .collect();
    if reasons.is_empty() {
        "its node knows no subscriber".into()
    } else {
        reasons.join("; ")
    }
}
