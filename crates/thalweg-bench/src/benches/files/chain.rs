//! A chain of nodes, and file transfers from the first to the last.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use anyhow::{Context as _, bail};
use serde_json::Value;
use thalweg_base::random::SplitMix;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_planner::model::{Link, Node, NodeName, World};
use thalweg_testbed::fabric::Fabric;
use thalweg_testbed::network::{Network, addresses_of};
use thalweg_testbed::system::program;
use tokio::runtime::Runtime;

use crate::benches::live;

/// The parameters of a chain's lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineKind {
    pub(super) rate: Bitrate,
    /// Round-trip time of one hop.
    pub(super) rtt: Duration,
    pub(super) queue: DataSize,
}

/// The original's rate; the RTT of a wireless LAN or a site; a queue of 50 ms, more than the RTT.
pub(super) const SLOW: LineKind = LineKind {
    rate: Bitrate::from_kbps(2_000),
    rtt: Duration::from_millis(20),
    queue: DataSize::from_bytes(12_500),
};

/// How long the nodes may take to know each other.
const FOUND_MAX: StdDuration = StdDuration::from_secs(30);

/// How long a transfer may take: 10 MiB at a quarter of the rate.
pub(super) const SEND_MAX: StdDuration = StdDuration::from_mins(3);

/// Seconds for which `iperf3` sends, and how many of its first and last are not counted, until the line
/// is full.
const TCP_SECONDS: usize = 14;
const TCP_UNCOUNTED: usize = 2;

/// How long its server may take to listen.
const LISTENING: StdDuration = StdDuration::from_millis(500);

/// A chain of nodes that know each other.
pub(super) struct Chain<'n> {
    fabric: Fabric<'n>,
    network: &'n Network,
    names: Vec<NodeName>,
    thalweg: PathBuf,
    runtime: Runtime,
}

/// One transferred file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Transfer {
    /// From the first part of the manifest until the file is in its place.
    pub(super) seconds: f64,
    /// From the start of the program until the first part of the manifest.
    pub(super) set_up_seconds: f64,
    bytes: u64,
    bytes_sent: u64,
}

impl Transfer {
    /// Returns the resent bytes as a share of the file.
    pub(super) fn resent_share(&self) -> f64 {
        (self.bytes_sent as f64 - self.bytes as f64) / self.bytes as f64
    }

    /// Parses the JSON of the two programs. They run on one machine, so their times of day compare.
    pub(super) fn read(sent: &str, received: &str, started_unix: f64) -> anyhow::Result<Self> {
        let sent: Value = serde_json::from_str(sent).context("`thalweg send --json`")?;
        let received: Value = serde_json::from_str(received).context("`thalweg receive --json`")?;
        let number =
            |value: &Value, key: &str| value[key].as_f64().with_context(|| format!("no {key}"));
        let began = number(&sent, "began_unix")?;
        Ok(Self {
            seconds: number(&received, "ended_unix")? - began,
            set_up_seconds: began - started_unix,
            bytes: number(&sent, "bytes")? as u64,
            bytes_sent: number(&sent, "bytes_sent")? as u64,
        })
    }
}

/// Returns the world of a chain with such lines.
pub(super) fn world(names: &[NodeName], line: LineKind) -> World {
    let mut world = World::default();
    for name in names {
        world.nodes.insert(name.clone(), Node::default());
    }
    for ends in names.windows(2) {
        let mut link = Link::new([ends[0].clone(), ends[1].clone()], line.rate);
        link.delay = Duration::from_nanos(line.rtt.as_nanos() / 2);
        link.queue = line.queue;
        world.links.push(link);
    }
    world
}

/// Returns the names of the nodes of this many hops.
pub(super) fn names(hops: usize) -> Vec<NodeName> {
    let name = |place| format!("n{place}").parse().expect("a letter and a digit");
    (0..=hops).map(name).collect()
}

/// Builds the lines of a chain of this many hops.
///
/// Fails   the network cannot be built
pub(super) fn build_network(hops: usize, line: LineKind) -> anyhow::Result<Network> {
    live::build_network(&world(&names(hops), line), 1).context("the links cannot be built")
}

impl<'n> Chain<'n> {
    /// Starts the nodes, and waits until they know each other.
    ///
    /// Fails   `thalweg` is not beside this program, or does not run
    pub(super) fn start(network: &'n Network) -> anyhow::Result<Self> {
        let thalweg = std::env::current_exe()?.with_file_name("thalweg");
        if !thalweg.is_file() {
            let path = thalweg.display();
            bail!("{path} is missing: `cargo xtask bench` builds it");
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let mut fabric = Fabric::lay_out(network, &thalweg)?;
        runtime.block_on(fabric.start_all())?;
        let chain = Self {
            fabric,
            names: network.world().nodes.keys().cloned().collect(),
            network,
            thalweg,
            runtime,
        };
        chain.wait()?;
        Ok(chain)
    }

    fn wait(&self) -> anyhow::Result<()> {
        let begun = StdInstant::now();
        loop {
            let status = self.runtime.block_on(self.fabric.status());
            let knows = |status: &Value| status["nodes"].as_array().map_or(0, Vec::len);
            if status.len() == self.names.len()
                && status
                    .values()
                    .all(|status| knows(status) == self.names.len())
            {
                return Ok(());
            }
            if begun.elapsed() > FOUND_MAX {
                bail!(
                    "the nodes do not know each other after {} s",
                    FOUND_MAX.as_secs()
                );
            }
            std::thread::sleep(StdDuration::from_millis(100));
        }
    }

    /// Returns the number of hops.
    pub(super) const fn hops(&self) -> usize {
        self.names.len() - 1
    }

    /// Sends a file of noise from the first node to the last.
    ///
    /// Fails   an end reports an error, it takes longer than three minutes, or the received file differs
    pub(super) fn send(&self, bytes: u64, block: Option<u64>) -> anyhow::Result<Transfer> {
        let last = self.names.len() - 1;
        self.send_to(&self.names[last..], bytes, block)
    }

    /// Sends a file to all nodes behind the first; returns the transfer of the last to have it.
    ///
    /// Fails   as [`Chain::send`]
    pub(super) fn send_to_all(&self, bytes: u64) -> anyhow::Result<Transfer> {
        self.send_to(&self.names[1..], bytes, None)
    }

    fn send_to(
        &self,
        receivers: &[NodeName],
        bytes: u64,
        block: Option<u64>,
    ) -> anyhow::Result<Transfer> {
        let folder = tempfile::tempdir_in(self.network.folder())?;
        let file = folder.path().join("file");
        let content = noise(bytes);
        std::fs::write(&file, &content)?;
        let mut send = self.command("send", &self.names[0]);
        if let Some(block) = block {
            send.args(["--block-size", &block.to_string()]);
        }
        let (first, others) = receivers.split_first().context("somebody receives")?;
        send.arg(&file).arg(first.as_str());
        for other in others {
            send.args(["--also", other.as_str()]);
        }
        let into = |name: &NodeName| folder.path().join(format!("in-{name}"));
        let started_unix = unix_now();
        let (sent, received) = self.runtime.block_on(async {
            let receiving = receivers.iter().map(|name| {
                std::fs::create_dir(into(name))?;
                let mut receive = self.command("receive", name);
                receive.arg("--to").arg(into(name));
                Ok(tokio::spawn(program::run_within(receive, SEND_MAX)))
            });
            let receiving: Vec<_> = receiving.collect::<anyhow::Result<_>>()?;
            let sent = program::run_within(send, SEND_MAX).await?;
            let mut received = Vec::new();
            for received_there in receiving {
                received.push(received_there.await??);
            }
            anyhow::Ok((sent, received))
        })?;
        for name in receivers {
            if std::fs::read(into(name).join("file"))? != content {
                bail!("the file that arrived at {name} is different");
            }
        }
        let read = |received: &String| Transfer::read(&sent, received, started_unix);
        let transfers: Vec<_> = received.iter().map(read).collect::<anyhow::Result<_>>()?;
        let last = transfers.into_iter();
        let last = last.max_by(|one, other| one.seconds.total_cmp(&other.seconds));
        last.context("somebody received")
    }

    fn command(&self, verb: &str, node: &NodeName) -> Command {
        let mut command = Command::new(&self.thalweg);
        command.args([verb, "--json", "--node"]);
        command.arg(self.fabric.socket(node));
        command
    }

    /// Measures TCP's goodput over the first line, in the seconds in which the line is full.
    pub(super) fn goodput_bps(&self) -> anyhow::Result<f64> {
        let mut server = self.network.command(&self.names[1], "iperf3")?;
        server.args(["--server", "--one-off", "--json"]);
        let mut client = self.network.command(&self.names[0], "iperf3")?;
        let target = addresses_of(0).ends[1].to_string();
        client.args(["--client", &target, "--time", &TCP_SECONDS.to_string()]);
        // The machine's default may be BBR, which probes below the rate.
        client.args([
            "--congestion",
            "cubic",
            "--connect-timeout",
            "5000",
            "--json",
        ]);
        let (said, _) = self.runtime.block_on(async {
            let calling = async {
                tokio::time::sleep(LISTENING).await;
                program::run_within(client, SEND_MAX).await
            };
            tokio::try_join!(program::run_within(server, SEND_MAX), calling)
        })?;
        goodput_bps(&said)
    }

    /// Stops the nodes.
    pub(super) fn stop(mut self) {
        self.runtime.block_on(self.fabric.stop_all());
    }
}

/// Parses the goodput from an `iperf3` server's JSON, without its first and last seconds.
pub(super) fn goodput_bps(said: &str) -> anyhow::Result<f64> {
    let said: Value = serde_json::from_str(said).context("iperf3 printed no JSON")?;
    let intervals = said["intervals"]
        .as_array()
        .context("iperf3 reports no intervals")?;
    let inner = intervals.get(TCP_UNCOUNTED..intervals.len().saturating_sub(TCP_UNCOUNTED));
    let sum = |key: &str| -> f64 {
        let sums = inner.unwrap_or_default().iter();
        sums.filter_map(|interval| interval["sum"][key].as_f64())
            .sum()
    };
    let (bytes, seconds) = (sum("bytes"), sum("seconds"));
    if bytes <= 0.0 || seconds <= 0.0 {
        bail!("iperf3 received nothing");
    }
    Ok(bytes * 8.0 / seconds)
}

/// Returns this much noise, different each time, because a receiver is not sent again what it has.
pub(super) fn noise(bytes: u64) -> Vec<u8> {
    let mut noise = SplitMix::new(unix_now().to_bits());
    let mut content = vec![0; bytes as usize];
    for piece in content.chunks_mut(8) {
        piece.copy_from_slice(&noise.next_u64().to_be_bytes()[..piece.len()]);
    }
    content
}

fn unix_now() -> f64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
    since.map_or(0.0, |since| since.as_secs_f64())
}
