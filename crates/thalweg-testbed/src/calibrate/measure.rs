//! Runs the external programs that measure a link, and parses their output.

use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use thalweg_base::units::DataSize;
use thalweg_planner::model::NodeName;
use tokio::task::LocalSet;

use super::{Figure, Quantity, Subject};
use crate::network::{Network, addresses_of};
use crate::system::program;

/// Bytes of the IPv4 and UDP headers.
const UDP_HEADER_BYTES: f64 = 28.0;

/// The payload's share of a full TCP packet of 1,500 bytes: IPv4, TCP and its time stamps take 52.
const TCP_SHARE: f64 = 1_448.0 / 1_500.0;

/// At this rate and above TCP is used: unlike UDP it fills the line without a sender that wakes every
/// millisecond.
const TCP_KBPS_MIN: u64 = 50_000;

/// Size of an echo of `ping`: 56 bytes of payload, 8 of ICMP, 20 of IPv4.
const ECHO: DataSize = DataSize::from_bytes(84);

/// Number of echoes, ten a second.
const ECHOES: usize = 50;

/// How long `iperf3` sends, s.
const SECONDS: u32 = 10;

/// How long each program may take: its own time and a few round trips by satellite, or the queue of a
/// slow link.
const PATIENCE: Duration = Duration::from_secs(25);

/// A program's measurement.
type Measured = anyhow::Result<Figure>;

/// How long an `iperf3` server may take to listen.
const LISTENING: Duration = Duration::from_millis(500);

/// Measures some of the subjects in parallel: first on idle links, then under load; each may fail separately.
///
/// Fails   no program can be started in the network
pub async fn all(
    network: &Network,
    subjects: &[&'static Subject],
) -> anyhow::Result<Vec<Measured>> {
    let mut pings = Vec::new();
    for subject in subjects {
        pings.push(ping(
            measuring(network, &subject.ends()[0], "ping")?,
            subject,
        ));
    }
    let mut figures = at_once(pings).await?;
    let mut loads = Vec::new();
    for subject in subjects {
        let [client, server] = subject.ends();
        let server = measuring(network, &server, "iperf3")?;
        let client = measuring(network, &client, "iperf3")?;
        loads.push(iperf3(server, client, subject));
    }
    figures.extend(at_once(loads).await?);
    Ok(figures)
}

/// Returns a command with a high priority, for accurate timing. The programs share the machine as
/// ordinary processes, because `iperf3` waits by busy-polling the clock.
fn measuring(network: &Network, node: &NodeName, program: &str) -> anyhow::Result<Command> {
    let mut command = network.command(node, "nice")?;
    command.args(["-n", "-20", program]);
    Ok(command)
}

/// Waits for all; dropping this drops, and so kills, what still runs.
async fn at_once(
    all: Vec<impl Future<Output = Measured> + 'static>,
) -> anyhow::Result<Vec<Measured>> {
    let local = LocalSet::new();
    let tasks: Vec<_> = all.into_iter().map(|one| local.spawn_local(one)).collect();
    let figures = local.run_until(async {
        let mut figures = Vec::new();
        for task in tasks {
            figures.push(task.await?);
        }
        Ok(figures)
    });
    figures.await
}

impl Subject {
    /// Returns the address of the second end.
    fn target(&self) -> String {
        let mut subjects = super::SUBJECTS.iter();
        let place = subjects.position(|other| other.name == self.name);
        let place = place.expect("every subject is in the list");
        addresses_of(place).ends[1].to_string()
    }

    const fn is_by_tcp(&self) -> bool {
        self.kbps >= TCP_KBPS_MIN
    }

    /// Returns the payload of each datagram: large on fast links; small, so that there are many, where
    /// losses are counted.
    const fn payload_bytes(&self) -> u64 {
        match (self.kbps, self.loss) {
            (0..1_000, _) => 400,
            (_, 0) => 1_200,
            _ => 300,
        }
    }

    /// Returns the payload rate to send, bit/s: a little above the link's rate, or half of it where
    /// losses are counted.
    const fn payload_bps(&self) -> u64 {
        let payload = self.kbps * 1_000 * self.payload_bytes() / (self.payload_bytes() + 28);
        if self.loss == 0 {
            payload / 20 * 21
        } else {
            payload / 2
        }
    }
}

async fn ping(mut command: Command, subject: &'static Subject) -> Measured {
    let count = ECHOES.to_string();
    command.args(["-n", "-i", "0.1", "-W", "2", "-c", &count]);
    command.arg(subject.target());
    delay(subject, &program::run_within(command, PATIENCE).await?)
}

/// Runs server and client, and parses the server's output, since it counts what arrived.
async fn iperf3(mut server: Command, mut client: Command, subject: &'static Subject) -> Measured {
    server.args(["--server", "--one-off", "--json"]);
    let [seconds, bitrate, length] = [
        u64::from(SECONDS),
        subject.payload_bps(),
        subject.payload_bytes(),
    ]
    .map(|number| number.to_string());
    client.args(["--client", &subject.target(), "--time", &seconds]);
    client.args(["--connect-timeout", "5000", "--json"]);
    if subject.is_by_tcp() {
        // The machine's default may be BBR, which probes below the rate.
        client.args(["--congestion", "cubic"]);
    } else {
        client.args(["--udp", "--bitrate", &bitrate, "--length", &length]);
    }
    let calling = async {
        tokio::time::sleep(LISTENING).await;
        program::run_within(client, PATIENCE).await
    };
    let (output, _) = tokio::try_join!(program::run_within(server, PATIENCE), calling)?;
    let output: Value = serde_json::from_str(&output).context("iperf3 printed no JSON")?;
    if subject.loss == 0 {
        rate(subject, &output)
    } else {
        loss(subject, &output)
    }
}

/// Parses the times of `ping`'s echoes.
fn delay(subject: &Subject, output: &str) -> Measured {
    let mut times: Vec<f64> = output
        .lines()
        .filter_map(|line| {
            line.split_once("time=")?
                .1
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2);
    let median =
        median.with_context(|| format!("no echo was received on `{}`: {output}", subject.name))?;
    let own = subject.rate().time_for(ECHO).as_millis_f64();
    Ok(Figure::new(
        subject.name,
        Quantity::Delay,
        subject.delay_ms as f64,
        median / 2.0 - own,
    ))
}

/// Parses what arrived, without the first and last seconds, in which the line was not full.
fn rate(subject: &Subject, output: &Value) -> Measured {
    let intervals = output["intervals"]
        .as_array()
        .context("iperf3 reports no intervals")?;
    let inner = intervals
        .get(2..intervals.len().saturating_sub(2))
        .unwrap_or_default();
    let sum = |key: &str| {
        inner
            .iter()
            .filter_map(|interval| interval["sum"][key].as_f64())
            .sum::<f64>()
    };
    let (bytes, seconds) = (sum("bytes"), sum("seconds"));
    let payload = subject.payload_bytes() as f64;
    let share = if subject.is_by_tcp() {
        TCP_SHARE
    } else {
        payload / (payload + UDP_HEADER_BYTES)
    };
    let kbps = bytes / share * 8.0 / seconds / 1e3;
    Ok(Figure::new(
        subject.name,
        Quantity::Rate,
        subject.kbps as f64,
        kbps,
    ))
}

fn loss(subject: &Subject, output: &Value) -> Measured {
    let sum = &output["end"]["sum"];
    let count = |key: &str| {
        sum[key]
            .as_f64()
            .with_context(|| format!("iperf3 reports no {key}"))
    };
    let percent = count("lost_packets")? / count("packets")? * 100.0;
    Ok(Figure::new(
        subject.name,
        Quantity::Loss,
        f64::from(subject.loss) / 10.0,
        percent,
    ))
}
