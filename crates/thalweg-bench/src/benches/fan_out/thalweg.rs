//! Our tree: a relay, a source and sinks, each a program with nodes assembled like the daemon's.
//!
//! The programs are this one again, started with hidden commands. Each sink is a node with its own key,
//! socket and link. Keys come from fixed seeds, so the nodes know each other's without an exchange. The
//! source plans its paths itself.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use thalweg_base::adu::{Flags, Importance, MediaTime};
use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::units::Bitrate;
use thalweg_net::{Endpoint, Identity, Link, Transport};
use thalweg_node::config::{Config, Peer};
use thalweg_node::program::LOG;
use thalweg_node::{Node, Outgoing, Publication, SubscribeOptions, SubscriberEvent};
use thalweg_testbed::system::clock;
use tokio::runtime::Runtime;
use tokio::time::sleep;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::{AGE_MAX, LENGTH_BYTES};
use crate::peers::process::Process;
use crate::peers::tree::{Load, Record, Tree};

/// The hidden command that runs this program as the relay.
pub(crate) const RELAY: &str = "fan-relay";
/// As [`RELAY`], for the source.
pub(crate) const SOURCE: &str = "fan-source";
/// As [`RELAY`], for the sinks.
pub(crate) const SINKS: &str = "fan-sinks";

/// The sink of the record that says that all sinks begin to dial.
pub(super) const BEGUN: u32 = u32::MAX;

/// The stream, and its rate: the payload's plus headers.
const STREAM: &str = "bench/fan";
const RATE: Bitrate = Bitrate::from_kbps(1_100);

/// Buffer size for records on standard output.
const WRITE_BYTES: usize = 64 << 10;

/// Interval between two checks whether a sink's link goes over the engine.
const LOOK: Duration = Duration::from_millis(20);

/// The transport of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// QUIC, one stream per ADU.
    Quic,
    /// The same over the engine.
    Engine,
    /// TCP with TLS.
    Tcp,
    /// TCP, in the clear after the handshake.
    Plain,
    /// The same, by one thread's loop at the relay.
    PlainLoop,
}

/// A node's number: the relay, the source, and then the sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u32);

const RELAY_PLACE: Place = Place(0);
const SOURCE_PLACE: Place = Place(1);

/// A handle to the thread that writes records.
#[derive(Clone, Debug)]
pub(super) struct Notes(mpsc::Sender<Record>);

/// The moments at which ADUs are due, in order.
#[derive(Debug)]
pub(super) struct Beat {
    pace_nanos: u64,
    due_nanos: u64,
    number: u32,
}

impl Over {
    pub(super) const ALL: [Self; 5] = [
        Self::Quic,
        Self::Engine,
        Self::Tcp,
        Self::Plain,
        Self::PlainLoop,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Quic => "thalweg_quic",
            Self::Engine => "thalweg_engine",
            Self::Tcp => "thalweg_tcp",
            Self::Plain => "thalweg_plain",
            Self::PlainLoop => "thalweg_plain_loop",
        }
    }

    pub(super) const fn carries(self) -> &'static str {
        match self {
            Self::Quic => "QUIC, encrypted: until-deadline, a stream for each ADU",
            Self::Engine => "the same over the engine's port",
            Self::Tcp => "TCP, encrypted: until-deadline, chunks by importance",
            Self::Plain => "the same in the clear",
            Self::PlainLoop => "the same by one thread's loop at the relay",
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Quic => "quic",
            Self::Engine => "engine",
            Self::Tcp => "tcp",
            Self::Plain => "plain",
            Self::PlainLoop => "plain-loop",
        }
    }
}

impl std::str::FromStr for Over {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> anyhow::Result<Self> {
        let named = Self::ALL.into_iter().find(|over| over.word() == word);
        named.with_context(|| format!("links have no transport `{word}`"))
    }
}

/// Starts a tree; with `at_once`, all sinks are assembled before the first dials, and [`BEGUN`] is
/// recorded then.
pub(super) fn grow(over: Over, load: &Load, at_once: bool) -> anyhow::Result<Tree> {
    let (over, sinks) = (over.word(), load.sinks);
    let mut relay = Process::start_own(&format!("{RELAY}:{over}:{sinks}"))?;
    let port = relay.first_line()?;
    let pace = load.pace.as_micros();
    let end = |word: &str| Process::start_own(word);
    Tree::grow(
        relay,
        || end(&format!("{SINKS}:{over}:{sinks}:{port}:{at_once}")),
        || end(&format!("{SOURCE}:{over}:{sinks}:{port}:{pace}")),
    )
}

/// Runs the relay until the process is killed: prints its port on a line, and forwards.
pub(crate) fn relay(over: Over, sinks: u32) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let others = places(sinks).filter(|place| *place != RELAY_PLACE);
        let node = node(RELAY_PLACE, over, others, None).await?;
        let handle = node.handle();
        let addresses = match over {
            Over::Quic | Over::Engine => handle.addresses(),
            Over::Tcp | Over::Plain | Over::PlainLoop => handle.tcp_addresses(),
        };
        let address = addresses.first().context("a relay listens")?;
        println!("{}", address.port());
        node.run(std::future::pending()).await?;
        Ok(())
    })
}

/// Runs the source until the process is killed: it sends an ADU each `pace_micros`.
pub(crate) fn source(over: Over, sinks: u32, port: u16, pace_micros: u64) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let others = places(sinks).filter(|place| *place != SOURCE_PLACE);
        let node = node(SOURCE_PLACE, over, others, Some(port)).await?;
        let handle = node.handle();
        tokio::spawn(node.run(std::future::pending()));
        let mut publisher = handle.publish(publication()?).await?;
        publisher.wanted().await?;
        let mut adu = vec![0; LENGTH_BYTES];
        let mut beats = beat(Duration::from_micros(pace_micros));
        loop {
            let (due, number) = beats.next().await;
            Load::stamp(&mut adu, due, number);
            let outgoing = Outgoing {
                media_time: MediaTime::from_micros(u64::from(number) * pace_micros),
                importance: Importance(128),
                layer: 0,
                flags: Flags::NONE,
                depends_on: 0,
                payload: Bytes::copy_from_slice(&adu),
            };
            publisher.send(outgoing).await?;
        }
    })
}

/// Runs the sinks until the process is killed: each as soon as it is assembled, or all at once.
pub(crate) fn sinks(over: Over, sinks: u32, port: u16, at_once: bool) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let notes = Notes::begin();
        let mut tasks = tokio::task::JoinSet::new();
        let mut assembled = Vec::new();
        for sink in 0..sinks {
            let place = Place(SOURCE_PLACE.0 + 1 + sink);
            let known = [RELAY_PLACE, SOURCE_PLACE].into_iter();
            let node = node(place, over, known, Some(port)).await?;
            if at_once {
                assembled.push((sink, node));
            } else {
                tasks.spawn(run(node, over, sink, notes.clone()));
            }
        }
        if at_once {
            notes.note(BEGUN, &[0; LENGTH_BYTES]);
        }
        for (sink, node) in assembled {
            tasks.spawn(run(node, over, sink, notes.clone()));
        }
        tasks.join_next().await;
        bail!("a sink's stream has ended")
    })
}

/// Returns whether the node's link goes over the engine.
fn is_direct(endpoint: &Endpoint) -> bool {
    let is_direct = |link: &Link| link.transport() == Transport::Engine;
    endpoint.links().iter().any(is_direct)
}

/// Runs a sink and records what it receives.
async fn run(node: Node, over: Over, sink: u32, notes: Notes) {
    let options = SubscribeOptions::new(STREAM.parse().expect("it is a name"), false);
    let (handle, endpoint) = (node.handle(), node.endpoint());
    tokio::spawn(node.run(std::future::pending()));
    while over == Over::Engine && !is_direct(&endpoint) {
        sleep(LOOK).await;
    }
    let mut subscriber = handle.subscribe(options).await;
    while let Some(event) = subscriber.recv().await {
        if let SubscriberEvent::Adu(adu) = event {
            notes.note(sink, &adu.payload);
        }
    }
}

/// Returns a runtime with a thread per processor, and sets up logging like the daemon's.
pub(super) fn runtime() -> std::io::Result<Runtime> {
    let filter: Targets = LOG.parse().expect("the daemon starts with it");
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        // Format log lines as a daemon does, and discard them: standard error is for this program's errors.
        .with_writer(std::io::sink)
        .with_filter(filter);
    tracing_subscriber::registry().with(lines).init();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
}

fn places(sinks: u32) -> impl Iterator<Item = Place> {
    (RELAY_PLACE.0..=SOURCE_PLACE.0 + sinks).map(Place)
}

fn publication() -> anyhow::Result<Publication> {
    let deadline = u64::try_from(AGE_MAX.as_millis())?;
    Ok(Publication {
        needs: Needs {
            reliability: Reliability::UntilDeadline,
            deadline: thalweg_base::time::Duration::from_millis(deadline),
            ..Needs::default()
        },
        pack_ratio: None,
        planner: None,
        ..Publication::new(STREAM.parse()?, RATE)
    })
}

/// Assembles a node; all but the relay dial the relay and have no other neighbour.
async fn node(
    place: Place,
    over: Over,
    known: impl Iterator<Item = Place>,
    relay_port: Option<u16>,
) -> anyhow::Result<Node> {
    let mut config = Config::new(place.name().parse()?, "unused.key".into());
    // No transport but the measured one.
    config.reach.packets = thalweg_net::Reach::OwnAddress;
    let loopback = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let is_plain = matches!(over, Over::Plain | Over::PlainLoop);
    let is_tcp = is_plain || over == Over::Tcp;
    if is_tcp && place == RELAY_PLACE {
        config.tcp.listen = vec![loopback(0)];
    }
    config.engine = (over == Over::Engine).then_some(loopback(0));
    let peer = |other: Place| {
        let is_dialled = other == RELAY_PLACE;
        let dialled: Vec<SocketAddr> = relay_port
            .filter(|_| is_dialled)
            .map(loopback)
            .into_iter()
            .collect();
        let (addresses, tcp_addresses) = match over {
            Over::Quic | Over::Engine => (dialled, Vec::new()),
            Over::Tcp | Over::Plain | Over::PlainLoop => (Vec::new(), dialled),
        };
        Ok(Peer {
            name: other.name().parse()?,
            key: other.identity().id(),
            addresses,
            tcp_addresses,
            relays: Vec::new(),
            hosts: Vec::new(),
            tcp_hosts: Vec::new(),
            connect: place == RELAY_PLACE || is_dialled,
            trusted: true,
            secure: true,
            rate: None,
        })
    };
    config.peers = known.map(peer).collect::<anyhow::Result<_>>()?;
    if is_plain {
        config.tcp.plain = config.peers.iter().map(|peer| peer.key).collect();
    }
    // Sinks share the machine: a thread for each of them would be a load of its own.
    config.tcp.clear_loop = over == Over::PlainLoop && place == RELAY_PLACE;
    Ok(Node::with_identity(config, place.identity()).await?)
}

impl Place {
    fn name(self) -> String {
        format!("n{}", self.0)
    }

    fn identity(self) -> Identity {
        let mut seed = [0xfa; 32];
        seed[..4].copy_from_slice(&self.0.to_be_bytes());
        Identity::from_seed(seed)
    }
}

impl Notes {
    /// Starts a thread that writes to standard output, and flushes whenever it has caught up.
    pub(super) fn begin() -> Self {
        let (sender, records) = mpsc::channel::<Record>();
        std::thread::spawn(move || {
            let mut out = std::io::BufWriter::with_capacity(WRITE_BYTES, std::io::stdout());
            while let Ok(first) = records.recv() {
                let all = std::iter::once(first).chain(records.try_iter());
                for record in all {
                    if out.write_all(&record.to_bytes()).is_err() {
                        return;
                    }
                }
                if out.flush().is_err() {
                    return;
                }
            }
        });
        Self(sender)
    }

    /// Records that a sink has received an ADU now.
    pub(super) fn note(&self, sink: u32, adu: &[u8]) {
        if let Some(record) = Record::of(sink, adu, clock::now().as_nanos()) {
            // Without a receiver the process is ending.
            let _ = self.0.send(record);
        }
    }
}

/// Returns a beat that begins now.
pub(super) fn beat(pace: Duration) -> Beat {
    Beat {
        pace_nanos: u64::try_from(pace.as_nanos()).expect("an interval is shorter than 584 years"),
        due_nanos: clock::now().as_nanos(),
        number: 0,
    }
}

impl Beat {
    /// Waits until an ADU is due; returns that time and the ADU's number.
    pub(super) async fn next(&mut self) -> (u64, u32) {
        let due = (self.due_nanos, self.number);
        self.due_nanos += self.pace_nanos;
        self.number += 1;
        let wait = due.0.saturating_sub(clock::now().as_nanos());
        sleep(Duration::from_nanos(wait)).await;
        due
    }
}
