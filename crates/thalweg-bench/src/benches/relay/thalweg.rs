//! Our line: two nodes in this process and, between them, a relay that is a node in a process of its own.
//!
//! *The idea.* The relay is this program again, started with a hidden word: the same assembly as the daemon's, in a
//! process whose processor time can be read. It has no producer and no subscriber, as a relay of the field. Keys come
//! from fixed seeds, so each knows the other's without being told.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use thalweg_core::adu::{Flags, Importance, MediaTime};
use thalweg_core::model::Layer;
use thalweg_core::needs::{Needs, Reliability};
use thalweg_core::session::Part;
use thalweg_core::units::Bitrate;
use thalweg_net::Identity;
use thalweg_node::config::{Config, Peer};
use thalweg_node::{
    Handle, Node, Outgoing, Publication, Publisher, SubscribeOptions, Subscriber, SubscriberEvent,
};
use tokio::runtime::Runtime;

use super::load;
use crate::peers::line::Way;
use crate::peers::process::Process;

/// What this program is told to be the relay.
pub(crate) const RELAY: &str = "relay-node";

/// Far above what any ADU takes, so that none expires.
const DEADLINE: thalweg_core::time::Duration = thalweg_core::time::Duration::from_secs(60);

/// How long a plan may take to come into force.
const PLAN_MAX: Duration = Duration::from_secs(20);

/// A node's place, which is its seed too.
type Place = u8;

const DIRECT: &[Place] = &[1, 2];
const THROUGH: &[Place] = &[3, 4, 5];
const RELAY_PLACE: Place = THROUGH[1];

/// What carries over Thalweg.
pub(super) struct Line {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) relay: Option<Process>,
}

pub(super) struct Sender {
    runtime: tokio::runtime::Handle,
    publisher: Publisher,
}

pub(super) struct Receiver {
    runtime: tokio::runtime::Handle,
    subscriber: Subscriber,
}

/// Starts a line; `program` is this one.
pub(super) fn line(program: &Path, way: Way, runtime: &Runtime) -> anyhow::Result<Line> {
    let mut relay = match way {
        Way::Direct => None,
        Way::Through => Some(Process::start(
            Command::new(program).args(["--workload", RELAY]),
        )?),
    };
    let address = relay.as_mut().map(|relay| -> anyhow::Result<SocketAddr> {
        let line = relay.first_line()?;
        line.parse()
            .with_context(|| format!("the relay said `{line}`"))
    });
    let address = address.transpose()?;
    let (publisher, subscriber) = runtime.block_on(open(way, address))?;
    let runtime = runtime.handle().clone();
    let sender = Sender {
        runtime: runtime.clone(),
        publisher,
    };
    let receiver = Receiver {
        runtime,
        subscriber,
    };
    Ok(Line {
        sender,
        receiver,
        relay,
    })
}

/// Is the relay, until the process is ended: says its address on a line, and forwards.
pub(crate) fn relay() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let node = node(RELAY_PLACE, THROUGH, |_| Vec::new()).await?;
        println!("{}", address_of(&node.handle())?);
        node.run(std::future::pending()).await?;
        Ok(())
    })
}

async fn open(way: Way, relay: Option<SocketAddr>) -> anyhow::Result<(Publisher, Subscriber)> {
    let places = match way {
        Way::Direct => DIRECT,
        Way::Through => THROUGH,
    };
    let (first, last) = (places[0], places[places.len() - 1]);
    let to_relay = |place| {
        let addresses = relay.filter(|_| place == RELAY_PLACE);
        addresses.into_iter().collect()
    };
    let producer = run(node(first, places, to_relay).await?);
    let dialled = address_of(&producer)?;
    let to_producer = |place| match relay {
        Some(_) => to_relay(place),
        None if place == first => vec![dialled],
        None => Vec::new(),
    };
    let sink = run(node(last, places, to_producer).await?);
    let name = "bench/relay".parse()?;
    let subscriber = sink
        .subscribe(SubscribeOptions {
            name,
            in_sequence: false,
        })
        .await;
    let plan = places.iter().map(|place| Part {
        node: identity(*place).id(),
        adapters: Vec::new(),
        plaintext: true,
    });
    let mut publisher = producer.publish_by(publication()?, plan.collect()).await?;
    tokio::time::timeout(PLAN_MAX, publisher.wanted())
        .await
        .with_context(|| format!("no plan in {PLAN_MAX:?}"))??;
    Ok((publisher, subscriber))
}

fn publication() -> anyhow::Result<Publication> {
    Ok(Publication {
        name: "bench/relay".parse()?,
        needs: Needs {
            reliability: Reliability::UntilDeadline,
            deadline: DEADLINE,
            ..Needs::default()
        },
        layers: vec![Layer {
            rate: Bitrate::from_kbps(10_000),
            utility: 1.0,
        }],
        pack_ratio: None,
        planner: None,
    })
}

/// Assembles the node of a place, which may be dialled by its neighbours and dials those that have an address.
async fn node(
    place: Place,
    places: &[Place],
    addresses: impl Fn(Place) -> Vec<SocketAddr>,
) -> anyhow::Result<Node> {
    let mut config = Config::new(name(place).parse()?, "unused.key".into());
    // No way but the one that is measured.
    config.reach.confined = true;
    let others = places.iter().filter(|other| **other != place);
    config.peers = others
        .map(|other| {
            Ok(Peer {
                name: name(*other).parse()?,
                key: identity(*other).id(),
                addresses: addresses(*other),
                // Places are in the order of the line.
                connect: other.abs_diff(place) == 1,
                trusted: true,
                secure: true,
                rate: None,
            })
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(Node::with_identity(config, identity(place)).await?)
}

/// Lets a node run until the run-time ends.
fn run(node: Node) -> Handle {
    let handle = node.handle();
    tokio::spawn(node.run(std::future::pending()));
    handle
}

fn name(place: Place) -> String {
    format!("n{place}")
}

fn identity(place: Place) -> Identity {
    Identity::from_seed([place; 32])
}

fn address_of(node: &Handle) -> anyhow::Result<SocketAddr> {
    let address = node.addresses().first().copied();
    address.context("a node listens on an address")
}

impl load::Sender for Sender {
    fn send(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        let outgoing = Outgoing {
            media_time: MediaTime::from_micros(0),
            importance: Importance(128),
            layer: 0,
            flags: Flags::NONE,
            depends_on: 0,
            payload: Bytes::copy_from_slice(piece),
        };
        self.runtime.block_on(self.publisher.send(outgoing))?;
        Ok(())
    }
}

impl load::Receiver for Receiver {
    fn recv(&mut self, piece: &mut Vec<u8>, wait: Duration) -> anyhow::Result<bool> {
        let subscriber = &mut self.subscriber;
        let event = self
            .runtime
            .block_on(async move { tokio::time::timeout(wait, subscriber.recv()).await });
        match event {
            Err(_) | Ok(Some(SubscriberEvent::Notice(_))) => Ok(false),
            Ok(None) => anyhow::bail!("the stream ended early"),
            Ok(Some(SubscriberEvent::Adu(adu))) => {
                piece.clear();
                piece.extend_from_slice(&adu.payload);
                Ok(true)
            }
        }
    }
}
