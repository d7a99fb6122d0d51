//! RF, the fan-out: what a relay's core forwards when one producer has many subscribers.
//!
//! *The idea.* A producer sends 1 Mbit/s, thirty ADUs a second, through a relay to as many subscribers as connections, and
//! the relay's processor time stands against what arrived. Relays take turns, as in RC. Peers are those that serve many
//! by themselves, without a line set up for each.
//!
//! ```text
//! Mbit/s per core = bits that arrived, all subscribers together / what the relay computed
//! ```
//!
//! *What it does not do.* It does not saturate a relay: at saturation the clients, which share the cores, would be what is
//! measured. Ours sends a copy for each subscriber from the producer on, as its plans are made for one sink each; the
//! others take one in and multiply it.

use std::time::Duration;

use anyhow::bail;

use super::load::{Load, Taken};
use super::side::Side;
use crate::peers::line::Way;
use crate::report::{Figure, Report};
use crate::sample::Summary;
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "RF";

/// What its metrics are called.
pub(crate) const METRICS: &[&str] = &["fan_mbps_per_core", "fan_loss"];

/// How many subscribers, full and quick.
const SUBSCRIBERS: [u8; 2] = [50, 5];
const LENGTH_BYTES: usize = 4_167;
const RATE_BPS: f64 = 1e6;
const LASTING: [Duration; 2] = [Duration::from_secs(5), Duration::from_millis(600)];

const ROUNDS_MIN: usize = 3;
/// Samples of the other benchmarks that take as long as a round here.
const SAMPLES_A_ROUND: usize = 40;

/// A relay, and of each round what it forwarded a core and what was lost.
struct Row {
    side: Side,
    mbps_per_core: Vec<f64>,
    lost: Vec<f64>,
}

/// Measures and reports everything of RF.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    let runtime = super::runtime()?;
    let quick = usize::from(settings.is_quick);
    let subscribers = SUBSCRIBERS[quick];
    let mut failed = Vec::new();
    let ours = Side::thalweg_fan(&std::env::current_exe()?, subscribers, &runtime)?;
    let mut rows = vec![Row::new(ours)];
    for peer in settings.peers.iter().filter(|peer| peer.fans_out()) {
        progress::show(format_args!("{ID}: starting {}", peer.name));
        let Some(ready) = super::find(peer) else {
            continue;
        };
        match Side::peer_fan(&ready, subscribers) {
            Some(Ok(side)) => rows.push(Row::new(side)),
            Some(Err(error)) => failed.push(format!("{error:#}")),
            None => {}
        }
    }
    let rounds = (settings.samples / SAMPLES_A_ROUND).max(ROUNDS_MIN);
    // One round more than asked for: the first warms up and is not counted.
    for round in 0..=rounds {
        for row in &mut rows {
            let name = row.side.named.name;
            progress::show(format_args!("{ID}: {name}, round {round} of {rounds}"));
            let load = Load::of(
                LENGTH_BYTES,
                row.side.named.piece_bytes,
                RATE_BPS,
                LASTING[quick],
            );
            let taken = row.side.carry(Way::Through, load)?;
            if round > 0 {
                row.add(&taken);
            }
        }
        rows.reverse();
    }
    rows.sort_by_key(|row| row.side.named.place);
    tell(&rows, subscribers, report)?;
    drop(rows);
    runtime.shutdown_timeout(Duration::from_secs(1));
    if !failed.is_empty() {
        bail!("not everything was measured: {}", failed.join("; "));
    }
    Ok(())
}

impl Row {
    fn new(side: Side) -> Self {
        Self {
            side,
            mbps_per_core: Vec::new(),
            lost: Vec::new(),
        }
    }

    fn add(&mut self, taken: &Taken) {
        let arrived = taken.latencies_us.len() as f64;
        let mbit = arrived * LENGTH_BYTES as f64 * 8.0 / 1e6;
        let cpu = taken.relay_cpu.map_or(f64::NAN, |cpu| cpu.as_secs_f64());
        self.mbps_per_core.push(mbit / cpu);
        self.lost.push(1.0 - arrived / f64::from(taken.due));
    }

    /// Returns the summaries of the metrics, in their order.
    fn summaries(&self) -> [Summary; 2] {
        [&self.mbps_per_core, &self.lost].map(|samples| Summary::of(samples.clone()))
    }
}

fn tell(rows: &[Row], subscribers: u8, report: &mut Report) -> anyhow::Result<()> {
    let Some((ours, peers)) = rows.split_first() else {
        return Ok(());
    };
    for (at, unit) in ["Mbit/s", "share"].into_iter().enumerate() {
        let name = format!("{}.subscribers_{subscribers}", METRICS[at]);
        let figure = Figure::new(ID, name, unit, ours.summaries()[at]);
        if peers.is_empty() {
            report.add(&figure)?;
        }
        for peer in peers {
            let theirs = peer.summaries()[at].median;
            report.add(&figure.clone().beside(peer.side.named.name, theirs))?;
        }
    }
    Ok(())
}
