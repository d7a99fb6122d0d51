//! The path over our nodes: a chain on loopback, with a publisher on the first and a subscriber on another.
//!
//! Four nodes, each assembled like the daemon's, stay up for the whole run, and each path is its own
//! stream through as many of them as it has hops. The plan is given rather than made, so that null
//! adapters stand where the experiment wants them: all on one node, as in the original, which is the
//! relay of two hops.

use std::collections::BTreeMap;
use std::time::Duration as StdDuration;

use anyhow::Context as _;
use bytes::Bytes;
use thalweg_base::adu::{Flags, Importance, MediaTime};
use thalweg_base::limits::ADAPTERS_PER_NODE_MAX;
use thalweg_base::needs::{Needs, Order, Reliability};
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_control::session::Part;
use thalweg_net::Identity;
use thalweg_node::config::{Config, Peer};
use thalweg_node::{
    Handle, Node, Outgoing, Publication, Publisher, SubscribeOptions, Subscriber, SubscriberEvent,
};
use tokio::task::JoinSet;

use super::way::{self, Message};

/// Far above any ADU's latency, so that none expires.
const DEADLINE: Duration = Duration::from_secs(60);

/// How long a plan may take to come into force.
const PLAN_MAX: StdDuration = StdDuration::from_secs(20);

/// The nodes, from first to last.
pub(super) struct Chain(Vec<Handle>);

pub(super) struct Sender(Publisher);

pub(super) struct Receiver(Subscriber);

/// The parameters of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) hops: usize,
    /// Null adapters on the node after the first, or on the only one.
    pub(super) adapters: usize,
    pub(super) reliability: Reliability,
}

impl Shape {
    /// Returns the name of its stream.
    fn name(self) -> String {
        format!("{:?}/{}/{}", self.reliability, self.hops, self.adapters)
    }
}

impl Chain {
    /// Starts nodes in a chain; they run until the tasks are dropped.
    pub(super) async fn start(nodes: usize, tasks: &mut JoinSet<()>) -> anyhow::Result<Self> {
        let mut handles: Vec<Handle> = Vec::new();
        for place in 0..nodes {
            let mut config = Config::new(format!("n{place}").parse()?, "unused.key".into());
            config.slots = u32::try_from(ADAPTERS_PER_NODE_MAX)?;
            let others = (0..nodes).filter(|other| *other != place);
            config.peers = others
                .map(|other| {
                    // Each dials its predecessor, which has an address by now.
                    let dialled = (other + 1 == place).then(|| handles[other].addresses());
                    peer(other, dialled.unwrap_or_default().to_vec())
                })
                .collect::<anyhow::Result<_>>()?;
            let node = Node::with_identity(config, identity(place)).await?;
            handles.push(node.handle());
            tasks.spawn(async move {
                // It does not fail on loopback, and there is nothing to clean up.
                let _ = node.run(std::future::pending()).await;
            });
        }
        Ok(Self(handles))
    }

    /// Opens a path through the first nodes.
    pub(super) async fn way(&self, shape: Shape) -> anyhow::Result<(Sender, Receiver)> {
        let name = shape.name();
        let needs = needs(shape.reliability);
        let options = SubscribeOptions::new(name.parse()?, needs.order == Order::Sequence);
        let subscriber = self.0[shape.hops].subscribe(options).await;
        let publication = Publication {
            needs,
            pack_ratio: None,
            planner: None,
            ..Publication::new(name.parse()?, Bitrate::from_kbps(1_000))
        };
        let plan = self.0[..=shape.hops].iter().enumerate();
        let plan = plan.map(|(place, node)| Part {
            node: node.id(),
            adapters: if place == shape.hops.min(1) {
                vec!["null".to_owned(); shape.adapters]
            } else {
                Vec::new()
            },
            plaintext: true,
        });
        let mut publisher = self.0[0].publish_by(publication, plan.collect()).await?;
        tokio::time::timeout(PLAN_MAX, publisher.wanted())
            .await
            .with_context(|| format!("no plan for `{name}` in {PLAN_MAX:?}"))??;
        Ok((Sender(publisher), Receiver(subscriber)))
    }

    /// Returns how many of a path's ADUs the nodes have dropped so far, by cause.
    pub(super) async fn dropped(
        &self,
        shape: Shape,
    ) -> anyhow::Result<BTreeMap<&'static str, u64>> {
        let name = shape.name();
        let mut sums = BTreeMap::new();
        for node in &self.0 {
            let status = node.status().await.context("a node stopped")?;
            let streams = status.streams.into_iter();
            for stream in streams.filter(|stream| stream.name.as_str() == name) {
                for (cause, count) in stream.counts.dropped {
                    *sums.entry(cause).or_default() += count;
                }
            }
        }
        Ok(sums)
    }
}

fn identity(place: usize) -> Identity {
    Identity::from_seed([place as u8; 32])
}

fn peer(place: usize, addresses: Vec<std::net::SocketAddr>) -> anyhow::Result<Peer> {
    Ok(Peer {
        name: format!("n{place}").parse()?,
        key: identity(place).id(),
        addresses,
        tcp_addresses: Vec::new(),
        relays: Vec::new(),
        hosts: Vec::new(),
        tcp_hosts: Vec::new(),
        connect: true,
        trusted: true,
        secure: true,
        rate: None,
    })
}

fn needs(reliability: Reliability) -> Needs {
    match reliability {
        // As a QUIC stream: everything, in order.
        Reliability::Full => Needs {
            reliability,
            order: Order::Sequence,
            ..Needs::default()
        },
        _ => Needs {
            reliability,
            deadline: DEADLINE,
            ..Needs::default()
        },
    }
}

impl way::Sender for Sender {
    async fn send(&mut self, message: Bytes) -> anyhow::Result<()> {
        let outgoing = Outgoing {
            media_time: MediaTime::from_micros(0),
            importance: Importance(128),
            layer: 0,
            flags: Flags::NONE,
            depends_on: 0,
            payload: message,
        };
        self.0.send(outgoing).await?;
        Ok(())
    }
}

impl way::Receiver for Receiver {
    async fn recv(&mut self, length_bytes: usize) -> anyhow::Result<Message> {
        loop {
            match self.0.recv().await.context("the stream ended early")? {
                // An ADU of another length is a straggler of the previous batch.
                SubscriberEvent::Adu(adu) if adu.payload.len() != length_bytes => {}
                SubscriberEvent::Adu(adu) => return way::read(&adu.payload, length_bytes),
                SubscriberEvent::Notice(_) => {}
            }
        }
    }
}
