//! `srt-live-transmit`: SRT in, SRT out, each hop with a receiver's buffer that releases packets after
//! a fixed delay.
//!
//! It is not set to its minimum: SRT resends losses within its latency, and the latency that a user
//! sets is what a hop adds. Ours is far below SRT's own 120 ms, and is printed in the output.
//!
//! *Sources.* SRT's documents on live transmission: the packet size of live mode, and that a relay adds
//! its latency.

use std::net::SocketAddr;
use std::process::Command;

use super::Peer;
use super::install::{Found, Package, Program};
use super::line::{self, Line, Way};
use super::process::Process;

/// Latency of each SRT link: enough to resend a loss on a local network, and a sixth of SRT's default.
const LATENCY_MS: u32 = 20;

/// Seven packets of a transport stream: live mode's payload size.
const PIECE_BYTES: usize = 1_316;

pub(super) const PEER: Peer = Peer {
    name: "srt-live-transmit",
    carries: "SRT, live mode with latency=20 ms on each link, not encrypted",
    programs: &[Program {
        name: "srt-live-transmit",
        package: Package::Debian("srt-tools"),
        version_flag: "-version",
    }],
    piece_bytes: PIECE_BYTES,
    start: Some(start),
    fans: &[],
    chain: None,
};

fn start(programs: &[Found], way: Way) -> anyhow::Result<Line> {
    let program = &programs[0];
    let out = line::socket()?;
    let into = line::free_udp()?;
    let first = line::free_udp()?;
    let entry = [udp(into), srt(first, "caller")];
    let line = Line::bare(into, out);
    let to = udp(line.out.local_addr()?);
    if way == Way::Direct {
        let exit = transmit(program, &[srt(first, "listener"), to])?;
        return Ok(line.ended(exit).ended(transmit(program, &entry)?));
    }
    let second = line::free_udp()?;
    let relay = [srt(first, "listener"), srt(second, "listener")];
    let relay = transmit(program, &relay)?;
    let exit = transmit(program, &[srt(second, "caller"), to])?;
    Ok(line
        .relayed(relay)
        .ended(exit)
        .ended(transmit(program, &entry)?))
}

fn transmit(program: &Found, ends: &[String; 2]) -> anyhow::Result<Process> {
    Process::start(
        Command::new(&program.path)
            .args(["-q", "-chunk:1456"])
            .args(ends),
    )
}

fn udp(address: SocketAddr) -> String {
    format!("udp://{address}")
}

fn srt(address: SocketAddr, mode: &str) -> String {
    format!("srt://{address}?mode={mode}&latency={LATENCY_MS}")
}
