//! `mediamtx`: RTSP in, RTSP out, RTP packets of a private format in TCP connections.
//!
//! It is a media server and rejects streams of unknown codecs, but forwards RTP of a private format
//! packet by packet. No registry has it, so it is measured only where it is on the PATH.
//!
//! *Sources.* The server's own configuration file: every key is an environment variable too.

use std::process::Command;

use super::Peer;
use super::install::{Found, Package, Program};
use super::line::{self, Line, Way};
use super::process::Process;

/// An end of its line.
const END: &str = include_str!("../../peers/rtsp_end.py");

/// Below the 1,460 bytes up to which it takes RTP packets unchanged.
const PIECE_BYTES: usize = 1_316;

/// Servers that it would start besides, on ports that may be taken.
const OFF: [&str; 8] = [
    "MTX_RTMP",
    "MTX_HLS",
    "MTX_WEBRTC",
    "MTX_SRT",
    "MTX_MOQ",
    "MTX_API",
    "MTX_METRICS",
    "MTX_PLAYBACK",
];

pub(super) const PEER: Peer = Peer {
    name: "mediamtx",
    carries: "RTSP with RTP in TCP, plain: pieces of a private format",
    programs: &[
        Program {
            name: "mediamtx",
            package: Package::Unpackaged,
            version_flag: "--version",
        },
        Program {
            name: "python3",
            package: Package::Debian("python3"),
            version_flag: "--version",
        },
    ],
    piece_bytes: PIECE_BYTES,
    start: Some(start),
    fans: &[],
    chain: None,
};

fn start(programs: &[Found], way: Way) -> anyhow::Result<Line> {
    let (server, python) = (&programs[0].path, &programs[1].path);
    let out = line::socket()?;
    let into = line::free_udp()?;
    let (entry_port, exit_port) = (
        into.port().to_string(),
        out.local_addr()?.port().to_string(),
    );
    let address = line::free_tcp()?.to_string();
    let word = match way {
        Way::Direct => "direct",
        Way::Through => "through",
    };
    let end = |end: &str, port: &str| line::script(python, END, &[end, word, &address, port]);
    let mut line = Line::bare(into, out);
    if way == Way::Through {
        let relay = Process::start(
            Command::new(server)
                .env("MTX_RTSPADDRESS", &address)
                .env("MTX_RTSPTRANSPORTS", "tcp")
                // It disconnects a producer that is silent for ten seconds, and a line idles while
                // others are measured.
                .env("MTX_READTIMEOUT", "1h")
                .env("MTX_PATHS_BENCH_SOURCE", "publisher")
                .envs(OFF.map(|key| (key, "no")))
                // A folder without a stray configuration file.
                .current_dir(std::env::temp_dir()),
        )?;
        line = line.relayed(relay);
    }
    let exit = end("exit", &exit_port)?;
    Ok(line.ended(exit).ended(end("entry", &entry_port)?))
}
