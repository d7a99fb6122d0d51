//! A fan-out tree with nothing but its transport: the cost of a relay that does no more than send.
//!
//! The relay has no streams, needs, plans, deadlines or accounts. From one loop it hands each ADU of
//! the source to the transport once per sink. Over QUIC each ADU has a stream, with the nodes' library
//! and ciphers; over TCP it is one write, and sinks acknowledge every third ADU, about as often as ours
//! do. Our relay's cost above this is our own; where this already exceeds a target, no work on the
//! relay can reach it.
//!
//! ```text
//! aim (us an ADU and sink) − bare (us an ADU and sink) = what is left for being a relay
//! ```
//!
//! It is no usable relay: a slow sink is silently skipped.

mod quic;
mod tcp;

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail};
use iroh::Endpoint;
use iroh::endpoint::Connection;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::thalweg::{Notes, beat, runtime};
use super::{LENGTH_BYTES, PACE};
use crate::peers::process::Process;
use crate::peers::tree::{Load, Tree};

/// The hidden command that runs this program as the bare relay.
pub(crate) const RELAY: &str = "bare-relay";
/// As [`RELAY`], for the source.
pub(crate) const SOURCE: &str = "bare-source";
/// As [`RELAY`], for the sinks.
pub(crate) const SINKS: &str = "bare-sinks";

/// First byte of a connection (over QUIC: its ALPN), which tells whether its other end is the source or
/// a sink.
const FROM_SOURCE: &[u8] = b"s";
const TO_SINK: &[u8] = b"t";

/// The transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bare {
    /// QUIC, one stream per ADU.
    Quic,
    /// TCP in the clear.
    Tcp,
}

impl Bare {
    pub(super) const ALL: [Self; 2] = [Self::Quic, Self::Tcp];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Quic => "bare_quic",
            Self::Tcp => "bare_tcp",
        }
    }

    pub(super) const fn carries(self) -> &'static str {
        match self {
            Self::Quic => "no relay but its QUIC alone: a stream for each ADU, encrypted",
            Self::Tcp => {
                "no relay but TCP alone, in the clear: a write for each ADU, a word back for three"
            }
        }
    }
}

impl std::str::FromStr for Bare {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> anyhow::Result<Self> {
        let named = Self::ALL.into_iter().find(|bare| bare.name() == word);
        named.with_context(|| format!("there is no bare transport `{word}`"))
    }
}

/// Starts a tree.
pub(super) fn grow(bare: Bare, load: &Load) -> anyhow::Result<Tree> {
    let (bare, sinks) = (bare.name(), load.sinks);
    let mut relay = Process::start_own(&format!("{RELAY}:{bare}"))?;
    let port = relay.first_line()?;
    let sinks = format!("{SINKS}:{bare}:{sinks}:{port}");
    let source = format!("{SOURCE}:{bare}:{port}");
    Tree::grow(
        relay,
        || Process::start_own(&sinks),
        || Process::start_own(&source),
    )
}

/// Runs the relay until the process is killed: prints its port on a line, and forwards.
pub(crate) fn relay(bare: Bare) -> anyhow::Result<()> {
    // On a thread of the runtime, like a node's loop.
    runtime()?.block_on(async {
        tokio::spawn(async move {
            match bare {
                Bare::Quic => quic::relay().await,
                Bare::Tcp => tcp::relay().await,
            }
        })
        .await?
    })
}

/// Runs the source until the process is killed.
pub(crate) fn source(bare: Bare, port: u16) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let mut source = match bare {
            Bare::Quic => quic::source(port).await?,
            Bare::Tcp => Source::Tcp(tcp::connect(port, FROM_SOURCE).await?),
        };
        let mut adu = vec![0; LENGTH_BYTES];
        let mut beats = beat(PACE);
        loop {
            let (due, number) = beats.next().await;
            Load::stamp(&mut adu, due, number);
            source.give(&adu).await?;
        }
    })
}

/// Runs the sinks until the process is killed.
pub(crate) fn sinks(bare: Bare, sinks: u32, port: u16) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let notes = Notes::begin();
        let mut tasks = tokio::task::JoinSet::new();
        for sink in 0..sinks {
            let notes = notes.clone();
            match bare {
                Bare::Quic => {
                    let (endpoint, connection) = quic::connect(1 + sink, port, TO_SINK).await?;
                    tasks
                        .spawn(async move { quic::take(sink, endpoint, connection, &notes).await });
                }
                Bare::Tcp => {
                    let stream = tcp::connect(port, TO_SINK).await?;
                    tasks.spawn(async move { tcp::take(sink, stream, &notes).await });
                }
            }
        }
        let ended = tasks.join_next().await;
        ended.context("there is a sink")??.context("of a sink")?;
        bail!("a sink's connection has ended")
    })
}

/// The source's connection.
enum Source {
    Quic {
        connection: Connection,
        /// The endpoint that owns the socket.
        _endpoint: Endpoint,
    },
    Tcp(TcpStream),
}

impl Source {
    async fn give(&mut self, adu: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Quic { connection, .. } => {
                let mut stream = connection.open_uni().await?;
                stream.write_all(adu).await?;
                stream.finish()?;
            }
            Self::Tcp(stream) => stream.write_all(adu).await?,
        }
        Ok(())
    }
}

/// The connected sinks; more connect during the run.
type Sinks<T> = Arc<Mutex<Vec<T>>>;

/// Adds a sink.
fn add<T>(sinks: &Sinks<T>, sink: T) {
    let mut sinks = sinks.lock().unwrap_or_else(PoisonError::into_inner);
    sinks.push(sink);
}

/// Hands something to each sink, and removes sinks with a broken connection.
fn each<T>(sinks: &Sinks<T>, give: impl FnMut(&mut T) -> bool) {
    let mut sinks = sinks.lock().unwrap_or_else(PoisonError::into_inner);
    sinks.retain_mut(give);
}
