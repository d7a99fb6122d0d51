//! `zenohd`: a Zenoh router between clients, over TCP; with many sinks over QUIC too.
//!
//! Shared memory, which Zenoh uses on one machine from 3 KiB on, is off: the measurement is of what a
//! network would carry.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use super::chain::{Chain, JOINED, LISTENING};
use super::install::{Found, Package, Program};
use super::line::{self, Line, Way};
use super::process::Process;
use super::tree::{Fan, Load, Tree};
use super::{ANY_BYTES, Peer};

/// An end of its line.
const END: &str = include_str!("../../peers/zenoh_end.py");

/// The source or the sinks of its tree.
const FAN: &str = include_str!("../../peers/zenoh_fan.py");

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
    start: Some(line),
    fans: &[
        Fan {
            name: "zenoh_quic",
            carries: "Zenoh over QUIC, encrypted: one stream for all",
            start: quic,
        },
        Fan {
            name: "zenoh_tcp",
            carries: "Zenoh over TCP, plain",
            start: |programs, load| tree(programs, load, "tcp", None),
        },
    ],
    chain: Some(chain),
};

fn line(programs: &[Found], way: Way) -> anyhow::Result<Line> {
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
        line::script(python, END, &[end, mode, verb, &endpoint, port])
    };
    let line = Line::bare(into, out);
    if way == Way::Direct {
        let exit = end(["exit", "peer", "listen"], &exit_port)?;
        return Ok(line
            .ended(exit)
            .ended(end(["entry", "peer", "connect"], &entry_port)?));
    }
    let relay = Process::start(&listening(router, &endpoint))?;
    let exit = end(["exit", "client", "connect"], &exit_port)?;
    let entry = end(["entry", "client", "connect"], &entry_port)?;
    Ok(line.relayed(relay).ended(exit).ended(entry))
}

/// Returns the router's command.
fn listening(router: &Path, endpoint: &str) -> Command {
    let mut command = Command::new(router);
    command
        .args(["--listen", endpoint, "--no-multicast-scouting"])
        .args(["--rest-http-port", "none"])
        .args(["--cfg", "transport/shared_memory/enabled:false"]);
    command
}

/// Starts a tree over QUIC, with a certificate for the router that the clients get.
fn quic(programs: &[Found], load: &Load) -> anyhow::Result<Tree> {
    let made = rcgen::generate_simple_self_signed(["localhost".into(), "127.0.0.1".into()]);
    let made = made.context("no certificate could be made")?;
    let folder = tempfile::tempdir()?;
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
    std::fs::write(&certificate, pem("CERTIFICATE", made.cert.der()))?;
    let secret = pem("PRIVATE KEY", made.signing_key.serialized_der());
    std::fs::write(&key, secret)?;
    let files = [certificate, key].map(|path| path.display().to_string());
    Ok(tree(programs, load, "quic", Some(&files))?.keeping(folder))
}

fn tree(
    programs: &[Found],
    load: &Load,
    transport: &str,
    files: Option<&[String; 2]>,
) -> anyhow::Result<Tree> {
    let (router, python) = (&programs[0].path, &programs[1].path);
    let address = if transport == "tcp" {
        line::free_tcp()?
    } else {
        line::free_udp()?
    };
    let endpoint = format!("{transport}/{address}");
    let mut command = listening(router, &endpoint);
    if let Some([certificate, key]) = files {
        for (name, file) in [("certificate", certificate), ("private_key", key)] {
            let key = format!("transport/link/tls/listen_{name}:\"{file}\"");
            command.args(["--cfg", &key]);
        }
    }
    let relay = Process::start(&command)?;
    let certificate = files.map_or("", |[certificate, _]| certificate);
    let end = |end: &str| fan_end(python, end, &endpoint, certificate, load);
    Tree::grow(relay, || end("sinks"), || end("source"))
}

/// Starts three routers over TCP; the first and the last give the link between them a large weight.
fn chain(programs: &[Found], load: &Load) -> anyhow::Result<Chain> {
    const IDS: [&str; 3] = ["a1", "b2", "c3"];
    let (router, python) = (&programs[0].path, &programs[1].path);
    let endpoint = || anyhow::Ok(format!("tcp/{}", line::free_tcp()?));
    let [first, middle, last] = [endpoint()?, endpoint()?, endpoint()?];
    let start = |place: usize, own: &str, dialled: &[&str], heavy: Option<usize>| {
        let mut command = listening(router, own);
        command.args(["--id", IDS[place]]);
        for endpoint in dialled {
            command.args(["--connect", endpoint]);
        }
        if let Some(heavy) = heavy {
            let id = IDS[heavy];
            let weights = format!("[{{dst_zid:\"{id}\",weight:1000}}]");
            let key = "routing/router/linkstate/transport_weights";
            command.args(["--cfg", &format!("{key}:{weights}")]);
        }
        let router = Process::start(&command)?;
        std::thread::sleep(LISTENING);
        anyhow::Ok(router)
    };
    let routers = [
        start(0, &first, &[], Some(2))?,
        start(1, &middle, &[&first], None)?,
        start(2, &last, &[&middle, &first], Some(0))?,
    ];
    std::thread::sleep(JOINED);
    let sink = fan_end(python, "sinks", &last, "", load)?;
    Chain::of(routers, sink, fan_end(python, "source", &first, "", load)?)
}

/// Starts a source or sinks at a router.
fn fan_end(
    python: &Path,
    end: &str,
    endpoint: &str,
    certificate: &str,
    load: &Load,
) -> anyhow::Result<Process> {
    let (length, pace) = (
        load.length_bytes.to_string(),
        load.pace.as_nanos().to_string(),
    );
    let sinks = load.sinks.to_string();
    let words = [end, endpoint, &sinks, &length, &pace, certificate];
    line::script(python, FAN, &words)
}

/// Returns bytes as PEM text (RFC 7468), as the router reads it: base64 between two lines.
pub(super) fn pem(label: &str, bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut letters = Vec::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| {
            bits << 8 | u32::from(*three.get(at).unwrap_or(&0))
        });
        let letter = |at| LETTERS[(bits >> (18 - 6 * at)) as usize & 63] as char;
        letters.extend((0..4).map(|at| if at <= three.len() { letter(at) } else { '=' }));
    }
    let lines = letters
        .chunks(64)
        .map(|line| line.iter().chain(&['\n']).collect());
    let body: Vec<String> = lines.collect();
    format!(
        "-----BEGIN {label}-----\n{}-----END {label}-----\n",
        body.concat()
    )
}
