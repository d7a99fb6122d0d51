//! BM-R3: a copying node in the middle: how often its source sends a stream for two sinks, and how long
//! the sink behind it receives nothing when it leaves.
//!
//! The original's three nodes on the testbed, and around the middle one a path with a lower rate and
//! shorter delays, on which a picture takes equally long:
//!
//! ```text
//! cam (NodeS) ─ 10 Mbit/s, 5 ms ─ hub (NodeR) ─ 5 Mbit/s, 5 ms ─ desk (NodeC)
//!   └────── 3 Mbit/s, 2.5 ms ──── lower ─── 3 Mbit/s, 2.5 ms ─────┘
//! ```
//!
//! The original's intervals are separate runs: no subscriber (1), desk subscribes (2), desk and hub do
//! (3; 4, the same with re-casting, which our node does by itself). The traffic from cam to hub in
//! each, less that of the first, over the second, is the number of copies. Then hub leaves (5): on a
//! signal, or killed; its silence is compared with interval 4, in which it stays, over the same
//! seconds. Two peers with a mesh of routers run on loopback: a chain of three with a more expensive
//! link around the middle one.
//!
//! Copies are not counted for peers: there are no byte counts per link on loopback, and all three send
//! one copy. A peer's middle relay is a process on this machine, so the kernel resets its TCP
//! connections at once; ours is a process too.
//!
//! *Sources.* spec RA-17 to RA-19, B1.3, BM-R3; docs/concepts/continuity.md; docs/guides/testbed.md.

mod chains;
mod left;
#[cfg(test)]
mod tests;
mod worlds;

use anyhow::{Context as _, bail};

use self::left::Left;
use self::worlds::{Leaving, Wanted};
use super::continuity::Testbed;
use crate::report::{Figure, Report};
use crate::sample::Summary;
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-R3";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &[
    "copies_upstream",
    "upstream_kbps",
    "silence_with_notice_ms",
    "silence_without_notice_ms",
    "undisturbed_ms",
    "with_notice_vs_undisturbed",
    "before_with_notice_ms",
    "before_without_notice_ms",
    "longer_with_notice_ms",
    "longer_without_notice_ms",
    "lost_with_notice",
    "lost_without_notice",
    "twice_with_notice",
    "twice_without_notice",
];

/// Silence of the old system. It gives 2.5 s and 3.2 s for the two receivers after re-casting had been
/// switched off; the longer one is that of the node behind.
const SILENT_BEFORE_MS: f64 = 3_200.0;

/// Rounds of each in a full run.
const ROUNDS: usize = 3;

/// One quantity of a run.
type Of = fn(&Left) -> f64;

/// Runs every interval, each way of leaving, and the installed peers.
///
/// Fails   the testbed's program is not beside this one, or a world cannot be run
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    let testbed = Testbed::find()?;
    let rounds = if settings.is_quick { 1 } else { ROUNDS };
    let mut upstream = Wanted::ALL.map(|_| Vec::new());
    let mut undisturbed = Vec::new();
    let mut left = Leaving::ALL.map(|_| Vec::new());
    for round in 0..rounds {
        let seed = round as u64 + 1;
        for (wanted, bits) in Wanted::ALL.into_iter().zip(&mut upstream) {
            progress::show(format_args!(
                "{ID}: interval {}, round {round}",
                wanted.interval()
            ));
            let played = testbed.play(&worlds::interval(wanted), seed)?;
            let line = worlds::upstream(played.report()).context("the line is in the report")?;
            bits.push(line.bytes as f64 * 8.0);
            if wanted == Wanted::Both {
                let stayed = Left::of_notes(&played.given()?, &played.received(0)?)?;
                undisturbed.push(stayed.silence_ms);
            }
        }
        for (leaving, came) in Leaving::ALL.into_iter().zip(&mut left) {
            progress::show(format_args!(
                "{ID}: hub leaves {}, round {round}",
                leaving.name()
            ));
            let played = testbed.play(&worlds::leaving(leaving), seed)?;
            came.push(Left::of_notes(&played.given()?, &played.received(0)?)?);
        }
    }
    report_copies(&upstream, report)?;
    for (leaving, came) in Leaving::ALL.into_iter().zip(&left) {
        report_left(leaving, "thalweg", came, report)?;
    }
    let [with_notice, _] = &left;
    report_undisturbed(&undisturbed, with_notice, report)?;
    peers(settings, rounds, report)
}

/// Returns the number of copies on a line: its traffic relative to that with one sink.
pub(crate) fn copies([idle, one, two]: [f64; 3]) -> f64 {
    (two - idle) / (one - idle)
}

fn report_copies(upstream: &[Vec<f64>; 3], report: &mut Report) -> anyhow::Result<()> {
    let [idle, one, two] = upstream;
    let rounds = idle.iter().zip(one).zip(two);
    let each = rounds.map(|((idle, one), two)| copies([*idle, *one, *two]));
    let value = Summary::of(each.collect());
    report.add(&Figure::new(ID, METRICS[0], "1", value).with_baseline("one", 1.0))?;
    for (wanted, bits) in Wanted::ALL.into_iter().zip(upstream) {
        let kbps = bits
            .iter()
            .map(|bits| bits / 1e3 / worlds::FLOWING.as_secs_f64());
        let metric = format!("{}.interval_{}", METRICS[1], wanted.interval());
        report.add(&Figure::new(
            ID,
            metric,
            "kbit/s",
            Summary::of(kbps.collect()),
        ))?;
    }
    Ok(())
}

fn report_left(
    leaving: Leaving,
    side: &'static str,
    came: &[Left],
    report: &mut Report,
) -> anyhow::Result<()> {
    let measures: [(&str, &'static str, Of); 5] = [
        ("silence", "ms", |left| left.silence_ms),
        ("before", "ms", |left| left.before_ms),
        ("longer", "ms", |left| left.longer_ms),
        ("lost", "1", |left| left.lost),
        ("twice", "1", |left| left.twice),
    ];
    for (what, unit, of) in measures {
        let value = Summary::of(came.iter().map(of).collect());
        let of = if unit == "ms" { "_ms" } else { "" };
        let metric = format!("{what}_{}{of}", leaving.name());
        let metric = match side {
            "thalweg" => metric,
            _ => format!("{metric}.{side}"),
        };
        let figure = Figure::new(ID, metric, unit, value);
        let is_ours = what == "silence" && side == "thalweg";
        report.add(&if is_ours {
            figure.with_baseline("old", SILENT_BEFORE_MS)
        } else {
            figure
        })?;
    }
    Ok(())
}

/// Reports the longest time without an arrival in undisturbed runs, a lower bound for any switch.
fn report_undisturbed(
    undisturbed: &[f64],
    with_notice: &[Left],
    report: &mut Report,
) -> anyhow::Result<()> {
    let value = Summary::of(undisturbed.to_vec());
    report.add(&Figure::new(ID, "undisturbed_ms", "ms", value))?;
    let rounds = with_notice.iter().zip(undisturbed);
    let ratios = rounds.map(|(left, undisturbed)| left.silence_ms / undisturbed);
    let value = Summary::of(ratios.collect());
    report.add(
        &Figure::new(ID, "with_notice_vs_undisturbed", "1", value)
            .with_baseline("undisturbed", 1.0),
    )
}

/// Runs the chains of the installed peers, in turns.
fn peers(settings: &Settings, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for peer in settings.peers.iter().filter(|peer| peer.has_chain()) {
        let Some(ready) = super::relay::find(peer) else {
            continue;
        };
        for leaving in Leaving::ALL {
            let mut came = Vec::new();
            for round in 0..rounds {
                let (name, how) = (peer.name, leaving.name());
                progress::show(format_args!("{ID}: {name}, {how}, round {round}"));
                match chains::play(&ready, leaving) {
                    Ok(left) => came.push(left),
                    Err(error) => failed.push(format!("{name}, {how}: {error:#}")),
                }
            }
            if !came.is_empty() {
                report_left(leaving, peer.name, &came, report)?;
            }
        }
    }
    if !failed.is_empty() {
        bail!("not everything was measured: {}", failed.join("; "));
    }
    Ok(())
}
