//! `moq-relay`: Media over QUIC, an ADU a group, so a QUIC stream each, as Thalweg sends it.

use std::process::Command;

use super::install::{Found, Package, Program};
use super::line::{self, Line, Way};
use super::process::Process;
use super::{ANY_BYTES, Peer};

/// An end of its line.
const END: &str = include_str!("../../peers/moq_end.py");

pub(super) const PEER: Peer = Peer {
    name: "moq-relay",
    carries: "moq-lite over QUIC, encrypted: a group of one frame for each ADU",
    programs: &[
        Program {
            name: "moq-relay",
            // Without its lock file: that names versions which the registry does not serve.
            package: Package::Crate {
                name: "moq-relay",
                version: "0.17.10",
                flags: &["--no-default-features", "--features", "noq,websocket"],
            },
            version_flag: "--version",
        },
        Program {
            name: "moq-rs",
            package: Package::Python { version: "0.5.1" },
            version_flag: "",
        },
    ],
    piece_bytes: ANY_BYTES,
    start: |programs, way| line(programs, way, 1),
    fan: Some(|programs, exits| line(programs, Way::Through, exits)),
};

fn line(programs: &[Found], way: Way, exits: usize) -> anyhow::Result<Line> {
    let (relay, python) = (&programs[0].path, &programs[1].path);
    let out = line::socket()?;
    let into = line::free_udp()?;
    let (entry_port, exit_port) = (
        into.port().to_string(),
        out.local_addr()?.port().to_string(),
    );
    let address = line::free_udp()?.to_string();
    let end = |end: &str, verb: &str, port: &str| {
        let sessions = if end == "exit" { exits } else { 1 }.to_string();
        line::script(python, END, &[end, verb, &address, port, &sessions])
    };
    let line = Line::bare(into, out);
    if way == Way::Direct {
        let entry = end("entry", "listen", &entry_port)?;
        return Ok(line.ended(entry).ended(end("exit", "connect", &exit_port)?));
    }
    let relay = Process::start(
        Command::new(relay)
            .args(["--listen", &address])
            .args(["--listen-tls-generate", "localhost"])
            .args(["--auth-public", "**"]),
    )?;
    let entry = end("entry", "connect", &entry_port)?;
    let exit = end("exit", "connect", &exit_port)?;
    Ok(line.relayed(relay).ended(entry).ended(exit))
}
