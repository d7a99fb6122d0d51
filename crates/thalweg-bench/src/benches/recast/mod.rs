//! BM-R3: a re-caster in the middle: how often its source sends a stream that two want, and for how long the one behind it
//! gets nothing when it leaves.
//!
//! *The idea.* The original's three nodes on the testbed, and around the middle one a way of less rate and shorter lines, on which
//! a picture takes as long:
//!
//! ```text
//! cam (NodeS) ─ 10 Mbit/s, 5 ms ─ hub (NodeR) ─ 5 Mbit/s, 5 ms ─ desk (NodeC)
//!   └────── 3 Mbit/s, 2.5 ms ──── lower ─── 3 Mbit/s, 2.5 ms ─────┘
//! ```
//!
//! Its intervals are plays of their own: nobody wants the stream (1), desk does (2), desk and hub do (3; 4, the same with
//! re-casting, is what a node does by itself). What the line from cam to hub carried in each, less the first, over the second,
//! is the number of copies. Then hub leaves (5): asked to end, or killed; what is silence there is read beside interval 4, in which
//! it stays, for the same seconds. Two peers of which routers form a mesh are played
//! on loopback, a chain of three with a dearer link around the middle one.
//!
//! *What it does not do.* Of peers no copies are counted: on loopback nobody counts bytes by link, and all three send one.
//! A peer's middle relay is a process that ends on this machine, whose kernel says so to TCP at once; ours is one too.
//!
//! *Sources.* spec RA-17 to RA-19, B1.3, BM-R3; docs/continuity.md; docs/testbed.md.

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

/// What its metrics are called.
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

/// What the old system was silent for, in the order of [`Leaving::ALL`]. It gives 2.5 s and 3.2 s for the two receivers
/// after re-casting had been switched off; the longer one is that of the node behind.
const SILENT_BEFORE_MS: f64 = 3_200.0;

/// How often each is played, in full.
const ROUNDS: usize = 3;

/// One number of what came.
type Of = fn(&Left) -> f64;

/// Plays every interval, each way of leaving, and the peers that are here.
///
/// Fails   the testbed's program is not beside this one, or a world cannot be played
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
    tell_copies(&upstream, report)?;
    for (leaving, came) in Leaving::ALL.into_iter().zip(&left) {
        tell_left(leaving, "thalweg", came, report)?;
    }
    let [with_notice, _] = &left;
    tell_undisturbed(&undisturbed, with_notice, report)?;
    peers(settings, rounds, report)
}

/// Returns how many copies a line carried of what it carried when one was wanted.
pub(crate) fn copies([idle, one, two]: [f64; 3]) -> f64 {
    (two - idle) / (one - idle)
}

fn tell_copies(upstream: &[Vec<f64>; 3], report: &mut Report) -> anyhow::Result<()> {
    let [idle, one, two] = upstream;
    let rounds = idle.iter().zip(one).zip(two);
    let each = rounds.map(|((idle, one), two)| copies([*idle, *one, *two]));
    let value = Summary::of(each.collect());
    report.add(&Figure::new(ID, METRICS[0], "1", value).beside("one", 1.0))?;
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

fn tell_left(
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
            figure.beside("old", SILENT_BEFORE_MS)
        } else {
            figure
        })?;
    }
    Ok(())
}

/// Tells the longest time in which nothing came though nobody left, which no switch can be better than.
fn tell_undisturbed(
    undisturbed: &[f64],
    with_notice: &[Left],
    report: &mut Report,
) -> anyhow::Result<()> {
    let value = Summary::of(undisturbed.to_vec());
    report.add(&Figure::new(ID, "undisturbed_ms", "ms", value))?;
    let rounds = with_notice.iter().zip(undisturbed);
    let ratios = rounds.map(|(left, undisturbed)| left.silence_ms / undisturbed);
    let value = Summary::of(ratios.collect());
    report
        .add(&Figure::new(ID, "with_notice_vs_undisturbed", "1", value).beside("undisturbed", 1.0))
}

/// Plays the chains of peers that are here, in turns.
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
                tell_left(leaving, peer.name, &came, report)?;
            }
        }
    }
    if !failed.is_empty() {
        bail!("not everything was measured: {}", failed.join("; "));
    }
    Ok(())
}
