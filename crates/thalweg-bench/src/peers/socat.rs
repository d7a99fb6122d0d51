//! `socat`: the simplest relay, UDP datagrams from one socket to another.

use std::process::Command;

use super::install::{Found, Package, Program};
use super::line::{self, Line, Way};
use super::process::Process;
use super::{ANY_BYTES, Peer};

pub(super) const PEER: Peer = Peer {
    name: "socat",
    carries: "UDP, plain: nothing is resent, nobody held back",
    programs: &[Program {
        name: "socat",
        package: Package::Debian("socat"),
        version_flag: "-V",
    }],
    piece_bytes: ANY_BYTES,
    start: Some(start),
    fans: &[],
    chain: None,
};

fn start(programs: &[Found], way: Way) -> anyhow::Result<Line> {
    let out = line::socket()?;
    let to = out.local_addr()?;
    if way == Way::Direct {
        return Ok(Line::bare(to, out));
    }
    let into = line::free_udp()?;
    let relay = Process::start(
        Command::new(&programs[0].path)
            // One direction, and a buffer that holds any datagram.
            .args(["-u", "-b", "65536"])
            .arg(format!("UDP4-RECV:{},bind={}", into.port(), into.ip()))
            .arg(format!("UDP4-SENDTO:{to}")),
    )?;
    Ok(Line::bare(into, out).relayed(relay))
}
