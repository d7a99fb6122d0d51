//! `zenohd`: a Zenoh router between two clients, over TCP.
//!
//! *What it does not do.* Payloads do not go through shared memory, as they would on one machine from 3 KiB on: what is
//! measured is what a network would carry.

use std::process::Command;

use super::install::{Found, Package, Program};
use super::line::{self, Line, Way};
use super::process::Process;
use super::{ANY_BYTES, Peer};

/// An end of its line.
const END: &str = include_str!("../../peers/zenoh_end.py");

pub(super) const PEER: Peer = Peer {
    name: "zenohd",
    carries: "Zenoh over TCP, plain: client, router, client; directly peer to peer",
    programs: &[
        Program {
            name: "zenohd",
            package: Package::Crate {
                name: "zenohd",
                version: "1.10.2",
                flags: &["--locked"],
            },
            version_flag: "--version",
        },
        Program {
            name: "eclipse-zenoh",
            package: Package::Python { version: "1.10.2" },
            version_flag: "",
        },
    ],
    piece_bytes: ANY_BYTES,
    start: |programs, way| line(programs, way, 1),
    fan: Some(|programs, exits| line(programs, Way::Through, exits)),
};

fn line(programs: &[Found], way: Way, exits: usize) -> anyhow::Result<Line> {
    let (router, python) = (&programs[0].path, &programs[1].path);
    let out = line::socket()?;
    let into = line::free_udp()?;
    let (entry_port, exit_port) = (
        into.port().to_string(),
        out.local_addr()?.port().to_string(),
    );
    let endpoint = format!("tcp/{}", line::free_tcp()?);
    let end = |words: [&str; 3], port: &str| {
        let [end, mode, verb] = words;
        let sessions = if end == "exit" { exits } else { 1 }.to_string();
        line::script(python, END, &[end, mode, verb, &endpoint, port, &sessions])
    };
    let line = Line::bare(into, out);
    if way == Way::Direct {
        let exit = end(["exit", "peer", "listen"], &exit_port)?;
        return Ok(line
            .ended(exit)
            .ended(end(["entry", "peer", "connect"], &entry_port)?));
    }
    let relay = Process::start(
        Command::new(router)
            .args(["--listen", &endpoint, "--no-multicast-scouting"])
            .args(["--rest-http-port", "none"])
            .args(["--cfg", "transport/shared_memory/enabled:false"]),
    )?;
    let exit = end(["exit", "client", "connect"], &exit_port)?;
    let entry = end(["entry", "client", "connect"], &entry_port)?;
    Ok(line.relayed(relay).ended(exit).ended(entry))
}
