//! Our line: two nodes in this process and a relay node in a separate process between them.
//!
//! The relay is this program again, started with a hidden command: assembled like the daemon, in a
//! process with its own processor time. It has no producer and no subscriber, like a relay in the
//! field. Keys come from fixed seeds, so the nodes know each other's without an exchange.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use thalweg_base::adu::{Flags, Importance, MediaTime};
use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::units::Bitrate;
use thalweg_control::session::Part;
use thalweg_net::Identity;
use thalweg_node::config::{Config, Peer};
use thalweg_node::{
    Handle, Node, Outgoing, Publication, Publisher, SubscribeOptions, Subscriber, SubscriberEvent,
};
use tokio::runtime::Runtime;

use super::load;
use crate::peers::line::Way;
use crate::peers::process::Process;

/// The hidden command that runs this program as the relay.
pub(crate) const RELAY: &str = "relay-node";

/// Far above any ADU's latency, so that none expires.
const DEADLINE: thalweg_base::time::Duration = thalweg_base::time::Duration::from_secs(60);

/// The stream.
const STREAM: &str = "bench/relay";

/// How long a plan may take to come into force.
const PLAN_MAX: Duration = Duration::from_secs(20);

/// A node's number, which is also its seed.
type Place = u8;

const DIRECT: [Place; 2] = [1, 2];
const THROUGH: [Place; 3] = [3, RELAY_PLACE, 5];
const RELAY_PLACE: Place = 4;

/// The two ends of a line over our nodes.
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

/// Starts a line.
pub(super) fn line(way: Way, runtime: &Runtime) -> anyhow::Result<Line> {
    match way {
        Way::Direct => open(None, &DIRECT, runtime),
        Way::Through => {
            let mut relay = Process::start_own(RELAY)?;
            let line = relay.first_line()?;
            let address = line
                .parse()
                .with_context(|| format!("the relay printed `{line}`"))?;
            open(Some((relay, address)), &THROUGH, runtime)
        }
    }
}

/// Runs the relay until the process is killed: prints its address on a line, and forwards.
pub(crate) fn relay() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let node = node(RELAY_PLACE, &THROUGH, None).await?;
        println!("{}", address_of(&node.handle())?);
        node.run(std::future::pending()).await?;
        Ok(())
    })
}

fn open(
    relay: Option<(Process, SocketAddr)>,
    places: &[Place],
    runtime: &Runtime,
) -> anyhow::Result<Line> {
    let address = relay.as_ref().map(|(_, address)| *address);
    let (publisher, subscriber) = runtime.block_on(connect(address, places))?;
    let runtime = runtime.handle().clone();
    Ok(Line {
        sender: Sender {
            runtime: runtime.clone(),
            publisher,
        },
        receiver: Receiver {
            runtime,
            subscriber,
        },
        relay: relay.map(|(relay, _)| relay),
    })
}

/// Starts the nodes of this process, and waits until there is a plan.
async fn connect(
    relay: Option<SocketAddr>,
    places: &[Place],
) -> anyhow::Result<(Publisher, Subscriber)> {
    let relay = relay.map(|address| (RELAY_PLACE, address));
    let producer = run(node(places[0], places, relay).await?);
    // Without a relay the subscriber dials the producer.
    let dialled = match relay {
        Some(relay) => relay,
        None => (places[0], address_of(&producer)?),
    };
    let sink = places[places.len() - 1];
    let sink = run(node(sink, places, Some(dialled)).await?);
    let options = SubscribeOptions::new(STREAM.parse()?, false);
    let subscriber = sink.subscribe(options).await;
    // The plan is given, so that the measured path is the intended one.
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
        needs: Needs {
            reliability: Reliability::UntilDeadline,
            deadline: DEADLINE,
            ..Needs::default()
        },
        pack_ratio: None,
        planner: None,
        ..Publication::new(STREAM.parse()?, Bitrate::from_kbps(10_000))
    })
}

/// Assembles a node; its neighbours may dial it, and it dials the one with a given address.
async fn node(
    place: Place,
    places: &[Place],
    dialled: Option<(Place, SocketAddr)>,
) -> anyhow::Result<Node> {
    let mut config = Config::new(name(place).parse()?, "unused.key".into());
    // No transport but the measured one.
    config.reach.packets = thalweg_net::Reach::OwnAddress;
    let others = places.iter().filter(|other| **other != place);
    config.peers = others
        .map(|other| {
            let dialled = dialled.filter(|(place, _)| place == other);
            Ok(Peer {
                name: name(*other).parse()?,
                key: identity(*other).id(),
                addresses: dialled.into_iter().map(|(_, address)| address).collect(),
                tcp_addresses: Vec::new(),
                relays: Vec::new(),
                hosts: Vec::new(),
                tcp_hosts: Vec::new(),
                // In the line through the relay every end has only the relay as its neighbour.
                connect: places.len() == 2 || [place, *other].contains(&RELAY_PLACE),
                trusted: true,
                secure: true,
                rate: None,
            })
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(Node::with_identity(config, identity(place)).await?)
}

/// Runs a node until the runtime ends.
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
        let next = async move { tokio::time::timeout(wait, subscriber.recv()).await };
        let payload = match self.runtime.block_on(next) {
            Err(_) | Ok(Some(SubscriberEvent::Notice(_))) => return Ok(false),
            Ok(Some(SubscriberEvent::Adu(adu))) => Some(adu.payload),
            Ok(None) => None,
        };
        let payload = payload.context("the stream ended early")?;
        piece.clear();
        piece.extend_from_slice(&payload);
        Ok(true)
    }
}
