//! A line: UDP datagrams go in at one port, travel over the peer, and come out at another.
//!
//! Every peer is measured by the bench's own two sockets and clock. The clients of a peer's protocol
//! stand between: in the direct line they talk to each other, in the other line through the relay. So
//! they are on both sides of the subtraction.
//!
//! ```text
//! direct    bench ─udp─► entry ════════════════► exit ─udp─► bench
//! through   bench ─udp─► entry ════► relay ════► exit ─udp─► bench
//! ```

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::process::Process;

/// Whether the relay is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Direct,
    Through,
}

/// A line that is up, or coming up.
#[derive(Debug)]
pub(crate) struct Line {
    /// Where datagrams go in.
    pub(crate) into: SocketAddr,
    /// Where they come out.
    pub(crate) out: UdpSocket,
    relay: Option<Process>,
    ends: Vec<Process>,
}

impl Line {
    /// Returns a line with the bench's own sockets as its ends.
    pub(super) fn bare(into: SocketAddr, out: UdpSocket) -> Self {
        Self {
            into,
            out,
            relay: None,
            ends: Vec::new(),
        }
    }

    /// Adds the relay.
    pub(super) fn relayed(mut self, relay: Process) -> Self {
        self.relay = Some(relay);
        self
    }

    /// Adds a program at an end.
    pub(super) fn ended(mut self, end: Process) -> Self {
        self.ends.push(end);
        self
    }

    /// Fails if one of its programs has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let mut programs = self.relay.iter_mut().chain(&mut self.ends);
        programs.try_for_each(Process::check)
    }

    /// Returns the last output of its programs.
    pub(crate) fn said(&self) -> String {
        let programs = self.relay.iter().chain(&self.ends);
        let said: Vec<String> = programs.map(Process::said).collect();
        said.join("; ")
    }

    /// Returns the processor time of its relay so far, if it has one.
    pub(crate) fn relay_cpu(&self) -> anyhow::Result<Option<Duration>> {
        self.relay.as_ref().map(Process::cpu).transpose()
    }
}

/// Returns a socket on a free loopback port.
pub(super) fn socket() -> anyhow::Result<UdpSocket> {
    Ok(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?)
}

/// Returns a loopback port that was free for UDP a moment ago, for a program that needs a port number.
pub(super) fn free_udp() -> anyhow::Result<SocketAddr> {
    Ok(socket()?.local_addr()?)
}

/// Returns a loopback port that was free for TCP a moment ago.
pub(super) fn free_tcp() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?)
}

/// Starts a script of ours under an interpreter.
pub(super) fn script(python: &Path, text: &str, arguments: &[&str]) -> anyhow::Result<Process> {
    Process::start(Command::new(python).args(["-c", text]).args(arguments))
}
