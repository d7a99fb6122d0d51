//! Files over two hops of 1 Gbit/s, beside `rsync` hop by hop and Magic Wormhole over its own relay.
//!
//! One chain of three namespaces, one file, and the sides in turns. A side's time is from the start of
//! its first program to the end of its last, as a person waits for it. For ours the time without set-up
//! is reported as well. All sides and the line share this machine's cores.
//!
//! ```text
//! thalweg         n0 ═ node ═► n1 ═ node ═► n2                send at n0, receive at n2
//! rsync           n0 ──────► daemon n1, then n1 ──────► daemon n2
//! magic-wormhole  n0 ──────► mailbox, transit relay at n1 ◄────── n2
//! ```

use std::path::Path;
use std::process::Command;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use anyhow::{Context as _, bail};
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_planner::model::NodeName;
use thalweg_testbed::network::{Network, addresses_of};
use thalweg_testbed::system::program;

use super::chain::{Chain, LineKind, SEND_MAX};
use crate::peers::Ready;
use crate::peers::process::Process;
use crate::report::{Figure, Report};
use crate::sample::Summary;
use crate::{Settings, progress};

/// Hops: one relay.
pub(super) const HOPS: usize = 2;

/// A site's backbone; the queue holds 4 ms.
pub(super) const LINE: LineKind = LineKind {
    rate: Bitrate::from_kbps(1_000_000),
    rtt: Duration::from_millis(1),
    queue: DataSize::from_kib(512),
};

/// Bytes of the file, and the same in a quick run.
const BYTES: u64 = 100 << 20;
const BYTES_QUICK: u64 = 1 << 20;

const ROUNDS: usize = 3;

/// Ports of the peers' servers, in namespaces without other programs.
const RSYNC_PORT: u16 = 8_873;
const MAILBOX_PORT: u16 = 8_400;
const TRANSIT_PORT: u16 = 8_401;

/// How long a server may take to become reachable.
const READY_MAX: StdDuration = StdDuration::from_secs(30);

/// The peers' names, and those of their metrics.
const SIDES: [(&str, &str); 2] = [
    (RSYNC, "gigabit_vs_rsync"),
    ("magic-wormhole", "gigabit_vs_wormhole"),
];
const RSYNC: &str = "rsync";

/// Sends over the chain with ours and the installed peers in turns.
pub(super) fn measure(
    chain: &Chain<'_>,
    network: &Network,
    settings: &Settings,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (bytes, rounds) = if settings.is_quick {
        (BYTES_QUICK, 1)
    } else {
        (BYTES, ROUNDS)
    };
    let mut sides = Vec::new();
    for (name, metric) in SIDES {
        let meant = settings.peers.iter().find(|peer| peer.name == name);
        if let Some(ready) = meant.and_then(|peer| crate::benches::relay::find(peer)) {
            sides.push((ready, metric, Vec::new()));
        }
    }
    let (mut ours, mut carried) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        progress::show(format_args!("BM-R1: 1 Gbit/s, round {round}: thalweg"));
        let sent = chain.send(bytes, None)?;
        ours.push(sent.set_up_seconds + sent.seconds);
        carried.push(sent.seconds);
        for (ready, _, seconds) in &mut sides {
            let name = ready.peer.name;
            progress::show(format_args!("BM-R1: 1 Gbit/s, round {round}: {name}"));
            let files = Files::make(network, bytes)?;
            let took = if name == RSYNC {
                by_rsync(network, ready, &files)
            } else {
                by_wormhole(network, ready, &files)
            };
            seconds.push(took.with_context(|| format!("{name} failed"))?);
            files.compare()?;
        }
    }
    let ours = Summary::of(ours);
    let median = ours.median;
    report.add(&Figure::new(super::ID, "gigabit_s", "s", ours))?;
    report.add(&Figure::new(
        super::ID,
        "gigabit_s.without_set_up",
        "s",
        Summary::of(carried),
    ))?;
    for (ready, metric, seconds) in sides {
        // Below 1 we are faster.
        let theirs = Summary::of(seconds);
        let figure = Figure::new(super::ID, metric, "s", Summary::exact(median));
        report.add(&figure.with_baseline(ready.peer.name, theirs.median))?;
    }
    Ok(())
}

/// A file to send, and its destination.
struct Files {
    folder: tempfile::TempDir,
    content: Vec<u8>,
}

impl Files {
    fn make(network: &Network, bytes: u64) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir_in(network.folder())?;
        let content = super::chain::noise(bytes);
        std::fs::write(folder.path().join("file"), &content)?;
        for name in ["relay", "in"] {
            std::fs::create_dir(folder.path().join(name))?;
        }
        Ok(Self { folder, content })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn compare(&self) -> anyhow::Result<()> {
        if std::fs::read(self.path().join("in").join("file"))? != self.content {
            bail!("the file that arrived is different");
        }
        Ok(())
    }
}

fn node(place: usize) -> NodeName {
    format!("n{place}").parse().expect("a letter and a digit")
}

/// Sends to a daemon at the relay, and from there to one at the end.
fn by_rsync(network: &Network, ready: &Ready, files: &Files) -> anyhow::Result<f64> {
    let text = |path: &Path| path.display().to_string();
    let mut daemons = Vec::new();
    for (place, name) in [(1, "relay"), (2, "in")] {
        let config = files.path().join(format!("{name}.conf"));
        let into = text(&files.path().join(name));
        let said = format!(
            "use chroot = no\nuid = root\ngid = root\n[to]\npath = {into}\nread only = no\n"
        );
        std::fs::write(&config, said)?;
        let mut daemon = network.command(&node(place), &text(ready.program()))?;
        daemon.args(["--daemon", "--no-detach", "--port", &RSYNC_PORT.to_string()]);
        daemon.arg(format!("--config={}", config.display()));
        daemons.push(Process::start(&daemon)?);
        wait(network, place - 1, RSYNC_PORT)?;
    }
    let begun = StdInstant::now();
    for (place, from) in [(0, "file"), (1, "relay/file")] {
        let mut send = network.command(&node(place), &text(ready.program()))?;
        let to = addresses_of(place).ends[1];
        // Noise does not compress, and there is no old file for a delta.
        send.args(["--whole-file", "--inplace"]);
        send.arg(files.path().join(from));
        send.arg(format!("rsync://{to}:{RSYNC_PORT}/to/"));
        run(send)?;
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// Sends by a code through a mailbox and a transit relay on the node in the middle.
fn by_wormhole(network: &Network, ready: &Ready, files: &Files) -> anyhow::Result<f64> {
    let python = ready.program_at(1).display().to_string();
    let server = |words: &[&str], port: u16| -> anyhow::Result<Process> {
        let mut server = network.command(&node(1), &python)?;
        server
            .args(["-m", "twisted", "--log-level=warn"])
            .args(words);
        server.arg(format!("--port=tcp:{port}"));
        server.current_dir(files.path());
        Process::start(&server)
    };
    let _servers = [
        server(&["wormhole-mailbox", "--channel-db=:memory:"], MAILBOX_PORT)?,
        server(&["transitrelay"], TRANSIT_PORT)?,
    ];
    for port in [MAILBOX_PORT, TRANSIT_PORT] {
        wait(network, 0, port)?;
    }
    let code = "7-otter-lantern";
    let end =
        |place: usize, relay: std::net::Ipv4Addr, words: &[&str]| -> anyhow::Result<Command> {
            let program = ready.program().display().to_string();
            let mut end = network.command(&node(place), &program)?;
            end.arg(format!("--relay-url=ws://{relay}:{MAILBOX_PORT}/v1"));
            end.arg(format!("--transit-helper=tcp:{relay}:{TRANSIT_PORT}"));
            end.args(words);
            // A listening end could not be reached: the only path is the relay.
            end.args(["--hide-progress", "--no-listen"]);
            Ok(end)
        };
    let mut send = end(
        0,
        addresses_of(0).ends[1],
        &["send", "--no-qr", "--code", code],
    )?;
    send.arg(files.path().join("file"));
    let mut receive = end(2, addresses_of(1).ends[0], &["receive", "--accept-file"])?;
    receive.arg(code).current_dir(files.path().join("in"));
    let begun = StdInstant::now();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| run(send));
        let received = run(receive);
        let sent = sending.join().expect("it returns the error");
        sent.and(received)
    })?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Waits until a port of the next node is reachable from a node.
fn wait(network: &Network, from: usize, port: u16) -> anyhow::Result<()> {
    let to = addresses_of(from).ends[1];
    let begun = StdInstant::now();
    loop {
        let mut reach = network.command(&node(from), "bash")?;
        reach.args(["-c", &format!("exec 3<>/dev/tcp/{to}/{port}")]);
        match program::run(&mut reach, "") {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > READY_MAX => return Err(error),
            Err(_) => std::thread::sleep(StdDuration::from_millis(100)),
        }
    }
}

fn run(command: Command) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(program::run_within(command, SEND_MAX))
}
