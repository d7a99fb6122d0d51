//! Peers' relays, to be measured beside ours: what they are, and how each is found, installed, started
//! and stopped.
//!
//! One small file per peer lists the programs it needs and starts a [`Line`] with them, on loopback, on
//! free ports. Everything else (finding, installing, watching, stopping, sending, receiving) is shared.
//! A peer with missing programs is always named, with the command to install them.
//!
//! | file | what it does |
//! |---|---|
//! | `socat`, `srt`, `zenoh`, `moq`, `mediamtx`, `nats`, `rsync`, `wormhole` | the peers |
//! | `install` | programs: where, which version, how to get them |
//! | `line` | from UDP to UDP, over a peer |
//! | `tree` | a peer with one source and many sinks |
//! | `chain` | three relays of a peer, of which the middle one leaves |
//! | `process` | a program that never outlives the bench |
//!
//! Peers are not tuned: they run as their documents start them, plus what an isolated loopback line
//! needs; each file says what that is. peers/README.md explains how to add one.

pub(crate) mod chain;
mod install;
pub(crate) mod line;
mod mediamtx;
mod moq;
pub(crate) mod nats;
pub(crate) mod process;
mod rsync;
mod socat;
mod srt;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
mod wormhole;
mod zenoh;

use std::path::Path;

use anyhow::{Context as _, ensure};

use self::chain::Chain;
use self::install::{Found, Package, Program};
use self::line::{Line, Way};
use self::tree::{Fan, Load, Tree};

/// Pieces as large as any ADU that is sent.
const ANY_BYTES: usize = 60_000;

/// Starts a line.
type Start = fn(&[Found], Way) -> anyhow::Result<Line>;

/// Starts a chain.
type StartChain = fn(&[Found], &Load) -> anyhow::Result<Chain>;

/// A peer's relay.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its name, here and in figures.
    pub(crate) name: &'static str,
    /// Its transport and settings.
    pub(crate) carries: &'static str,
    /// The programs it needs; the first is the relay, and its version is the peer's.
    programs: &'static [Program],
    /// The largest datagram that its line takes; a longer ADU is split.
    pub(crate) piece_bytes: usize,
    /// Starts a line; `None` if it relays no datagrams.
    start: Option<Start>,
    /// How it serves many sinks by itself, without a line for each.
    fans: &'static [Fan],
    /// Starts three relays with a source and a sink; `None` if its relays do not route by themselves.
    chain: Option<StartChain>,
}

/// Every peer, in the order of the output.
pub(crate) const PEERS: &[Peer] = &[
    socat::PEER,
    srt::PEER,
    zenoh::PEER,
    moq::PEER,
    mediamtx::PEER,
    nats::PEER,
    rsync::PEER,
    wormhole::PEER,
];

/// A peer with all its programs installed.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    pub(crate) peer: &'static Peer,
    programs: Vec<Found>,
}

impl Peer {
    /// Finds its programs; if any is missing, returns a sentence that names it and how to install it.
    pub(crate) fn find(&'static self) -> Result<Ready, String> {
        let found: Vec<_> = self.programs.iter().map(Program::find).collect();
        let missing = self.programs.iter().zip(&found);
        let missing: Vec<String> = missing
            .filter(|(_, found)| found.is_none())
            .map(|(program, _)| format!("{} ({})", program.name, program.advice()))
            .collect();
        if missing.is_empty() {
            let programs = found.into_iter().flatten().collect();
            return Ok(Ready {
                peer: self,
                programs,
            });
        }
        Err(format!("{} is missing: {}", self.name, missing.join(", ")))
    }

    /// Returns whether it relays datagrams.
    pub(crate) const fn has_line(&self) -> bool {
        self.start.is_some()
    }

    /// Returns whether its relays route by themselves.
    pub(crate) const fn has_chain(&self) -> bool {
        self.chain.is_some()
    }

    /// Returns how it serves many sinks by itself.
    pub(crate) const fn fans(&self) -> &'static [Fan] {
        self.fans
    }

    /// Returns its index in [`PEERS`].
    pub(crate) fn place(&self) -> usize {
        let place = PEERS.iter().position(|peer| peer.name == self.name);
        place.unwrap_or(PEERS.len())
    }
}

impl Ready {
    /// Returns its relay's program.
    pub(crate) fn program(&self) -> &Path {
        &self.programs[0].path
    }

    /// Returns another of its programs, by index; for a Python package, the interpreter.
    pub(crate) fn program_at(&self, place: usize) -> &Path {
        &self.programs[place].path
    }

    /// Returns the version of its relay.
    pub(crate) fn version(&self) -> &str {
        &self.programs[0].version
    }

    /// Starts a line. Call it from a thread that outlives the line.
    pub(crate) fn start(&self, way: Way) -> anyhow::Result<Line> {
        let name = self.peer.name;
        let start = self.peer.start;
        let start = start.with_context(|| format!("{name} relays no datagrams"))?;
        start(&self.programs, way).with_context(|| format!("{name} cannot be started"))
    }

    /// Starts three relays with a source and a sink. Call it from a thread that outlives them.
    pub(crate) fn link(&self, load: &Load) -> anyhow::Result<Chain> {
        let name = self.peer.name;
        let start = self.peer.chain;
        let start = start.with_context(|| format!("relays of {name} find no routes"))?;
        start(&self.programs, load).with_context(|| format!("{name} cannot be started"))
    }

    /// Starts a relay with a source and sinks. Call it from a thread that outlives them.
    pub(crate) fn grow(&self, fan: &Fan, load: &Load) -> anyhow::Result<Tree> {
        (fan.start)(&self.programs, load).with_context(|| format!("{} cannot be started", fan.name))
    }
}

/// Returns the peers of these names, or all if none is named.
///
/// Fails   an unknown name: the message lists the known ones
pub(crate) fn named(names: &[String]) -> anyhow::Result<Vec<&'static Peer>> {
    if names.is_empty() {
        return Ok(PEERS.iter().collect());
    }
    let peer = |name: &String| {
        let known = || PEERS.iter().map(|peer| peer.name).collect::<Vec<_>>();
        PEERS
            .iter()
            .find(|peer| peer.name == name)
            .with_context(|| {
                format!(
                    "there is no peer `{name}`; there are {}",
                    known().join(", ")
                )
            })
    };
    names.iter().map(peer).collect()
}

/// Installs what these peers lack. A failure is printed and the others go on.
///
/// Fails   at the end, if one that has a package could not be installed
pub(crate) fn install(peers: &[&'static Peer]) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for peer in peers {
        for program in peer.programs.iter().filter(|p| p.find().is_none()) {
            if let Package::Unpackaged = program.package {
                eprintln!("thalweg-bench: {}: {}", program.name, program.advice());
                continue;
            }
            let installed = program.install();
            if let Err(error) = installed {
                failed.push(format!("{error:#}"));
            } else if program.find().is_none() {
                let name = program.name;
                failed.push(format!("{name} was installed but still does not run"));
            }
        }
    }
    ensure!(
        failed.is_empty(),
        "not all peers are installed: {}",
        failed.join("; ")
    );
    Ok(())
}

/// Returns a line for each peer: its name, its version or what is missing, and its transport.
pub(crate) fn list(peers: &[&'static Peer]) -> String {
    let line = |peer: &&'static Peer| match peer.find() {
        Ok(ready) => format!(
            "{:<18} {:<12} {}\n",
            peer.name,
            ready.version(),
            peer.carries
        ),
        Err(missing) => format!("{:<18} {:<12} {missing}\n", peer.name, "missing"),
    };
    peers.iter().map(line).collect()
}
