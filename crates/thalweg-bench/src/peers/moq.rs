//! `moq-relay`: Media over QUIC, one group per ADU, so one QUIC stream each, as Thalweg sends it.

use std::path::Path;
use std::process::Command;

use super::chain::{Chain, JOINED, LISTENING};
use super::install::{Found, Package, Program};
use super::line::{self, Line, Way};
use super::process::Process;
use super::tree::{Fan, Load, Tree};
use super::{ANY_BYTES, Peer};

/// An end of its line.
const END: &str = include_str!("../../peers/moq_end.py");

/// The source or the sinks of its tree.
const FAN: &str = include_str!("../../peers/moq_fan.py");

pub(super) const PEER: Peer = Peer {
    name: "moq-relay",
    carries: "moq-lite over QUIC, encrypted: a group of one frame for each ADU",
    programs: &[
        Program {
            name: "moq-relay",
            // Without its lock file, which names versions that the registry does not serve.
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
    start: Some(line),
    fans: &[Fan {
        name: "moq_quic",
        carries: "moq-lite over QUIC, encrypted: a stream for each ADU",
        start: tree,
    }],
    chain: Some(chain),
};

fn line(programs: &[Found], way: Way) -> anyhow::Result<Line> {
    let (relay, python) = (&programs[0].path, &programs[1].path);
    let out = line::socket()?;
    let into = line::free_udp()?;
    let (entry_port, exit_port) = (
        into.port().to_string(),
        out.local_addr()?.port().to_string(),
    );
    let address = line::free_udp()?.to_string();
    let end =
        |end: &str, verb: &str, port: &str| line::script(python, END, &[end, verb, &address, port]);
    let line = Line::bare(into, out);
    if way == Way::Direct {
        let entry = end("entry", "listen", &entry_port)?;
        return Ok(line.ended(entry).ended(end("exit", "connect", &exit_port)?));
    }
    let relay = Process::start(&listening(relay, &address))?;
    let entry = end("entry", "connect", &entry_port)?;
    let exit = end("exit", "connect", &exit_port)?;
    Ok(line.relayed(relay).ended(entry).ended(exit))
}

/// Returns the relay's command.
fn listening(relay: &Path, address: &str) -> Command {
    let mut command = Command::new(relay);
    command
        .args(["--listen", address])
        .args(["--listen-tls-generate", "localhost"])
        .args(["--auth-public", "**"]);
    command
}

fn tree(programs: &[Found], load: &Load) -> anyhow::Result<Tree> {
    let (relay, python) = (&programs[0].path, &programs[1].path);
    let address = line::free_udp()?.to_string();
    let relay = Process::start(&listening(relay, &address))?;
    let end = |end: &str| fan_end(python, end, &address, load);
    Tree::grow(relay, || end("sinks"), || end("source"))
}

/// Starts three relays: the cost to the last is 1 through the middle one, and 10 from the first.
fn chain(programs: &[Found], load: &Load) -> anyhow::Result<Chain> {
    let (relay, python) = (&programs[0].path, &programs[1].path);
    let addresses = [line::free_udp()?, line::free_udp()?, line::free_udp()?];
    let [first, middle, last] = addresses.map(|address| address.to_string());
    let start = |address: &str, dialled: &[(&str, u8)]| {
        let mut command = listening(relay, address);
        command.arg("--connect-tls-insecure");
        for (address, cost) in dialled {
            command.args([
                "--cluster-connect",
                &format!("https://{address}/?cost={cost}"),
            ]);
        }
        let relay = Process::start(&command)?;
        std::thread::sleep(LISTENING);
        anyhow::Ok(relay)
    };
    let relays = [
        start(&first, &[])?,
        start(&middle, &[(&first, 1)])?,
        start(&last, &[(&middle, 1), (&first, 10)])?,
    ];
    std::thread::sleep(JOINED);
    let sink = fan_end(python, "sinks", &last, load)?;
    Chain::of(relays, sink, fan_end(python, "source", &first, load)?)
}

/// Starts a source or sinks at a relay.
fn fan_end(python: &Path, end: &str, address: &str, load: &Load) -> anyhow::Result<Process> {
    let numbers = [
        load.length_bytes.to_string(),
        load.pace.as_nanos().to_string(),
        load.age_max.as_micros().to_string(),
    ];
    let [length, pace, age] = &numbers;
    let sinks = load.sinks.to_string();
    line::script(python, FAN, &[end, address, &sinks, length, pace, age])
}
