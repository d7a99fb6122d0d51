//! BM-R2: the path of a live video is cut while another exists. Measured are lost, duplicate and
//! delayed pictures, the gap without any arrival, and how soon the failure is detected and another path
//! is taken.
//!
//! The world is a diamond on the testbed, with real nodes in namespaces. 25 pictures a second take the
//! upper path, which breaks in the middle of the world in one of three modes. Each mode is run with the
//! stream as it is, and with `reliability = "none"`, where the source keeps nothing: then another path
//! is taken just as soon, but nothing is resent. The two alternate in every round.
//!
//! ```text
//! cut ──► silence noticed ──► new plan in force ──► the next picture comes
//!  ├─ detection_ms ─┤├── repath_ms ──┤
//! ├──────────── gap_ms: between two pictures that come ───────────┤
//! ```
//!
//! A picture is *delayed* if it takes more than one interval of the stream longer than the median
//! before the cut. The old system delayed 7 (spec BM-R2), which is the baseline of `adus_delayed`. A
//! picture past its deadline is dropped on the path, so it counts as lost, not as delayed.
//!
//! The benchmark needs root and the testbed's tools, and fails with a message without them.
//!
//! *Sources.* spec RA-12, RA-13, BM-R2; docs/concepts/continuity.md; docs/guides/testbed.md.

mod cut;
mod played;
#[cfg(test)]
pub(super) mod tests;
mod worlds;

use std::time::SystemTime;

use thalweg_testbed::system::clock;

use crate::Settings;
use crate::progress;
use crate::report::{Figure, Report};
use crate::sample::Summary;

use cut::{Cut, NodeLog};
use worlds::{Manner, NAMES};

pub(super) use cut::longest_gap;
pub(super) use played::Testbed;
pub(super) use worlds::{BREAK, INTERVAL, diamond};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-R2";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &[
    "adus_lost",
    "adus_twice",
    "adus_delayed",
    "gap_ms",
    "detection_ms",
    "repath_ms",
];

/// Number of pictures that the old system delayed.
const DELAYED_BEFORE: f64 = 7.0;

/// Rounds of each mode in a full run.
const ROUNDS: usize = 5;

/// Runs every mode and reports the results.
///
/// Fails   the testbed's program is not beside this one, or a world cannot be run
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    let (manners, rounds) = if settings.is_quick {
        (&Manner::ALL[..1], 1)
    } else {
        (&Manner::ALL[..], ROUNDS)
    };
    for manner in manners {
        let (mut kept, mut unkept) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            // The order alternates between rounds, so that neither is always first.
            let order = [round % 2 == 0, round % 2 != 0];
            for is_kept in order {
                progress::show(format_args!("{ID} {}: round {round}", manner.name()));
                let played = play(*manner, is_kept, round as u64 + 1)?;
                let side = if is_kept { &mut kept } else { &mut unkept };
                side.push(played);
            }
        }
        report_cuts(*manner, &kept, &unkept, report)?;
    }
    Ok(())
}

fn report_cuts(
    manner: Manner,
    kept: &[Cut],
    unkept: &[Cut],
    report: &mut Report,
) -> anyhow::Result<()> {
    let measures: [fn(&Cut) -> f64; 6] = [
        |cut| cut.lost,
        |cut| cut.twice,
        |cut| cut.delayed,
        |cut| cut.gap_ms,
        |cut| cut.detection_ms,
        |cut| cut.repath_ms,
    ];
    for (metric, value) in METRICS.iter().zip(measures) {
        let of = |cuts: &[Cut]| Summary::of(cuts.iter().map(value).collect());
        let unit = if metric.ends_with("ms") { "ms" } else { "1" };
        let metric = format!("{metric}.{}", manner.name());
        let figure = Figure::new(ID, metric.clone(), unit, of(kept));
        let figure = if metric.starts_with("adus_delayed") {
            figure.with_baseline("old", DELAYED_BEFORE)
        } else {
            figure.with_baseline("unkept", of(unkept).median)
        };
        report.add(&figure)?;
    }
    Ok(())
}

/// Runs a world and evaluates the notes and logs of its roles and nodes.
fn play(manner: Manner, is_kept: bool, seed: u64) -> anyhow::Result<Cut> {
    let played = Testbed::find()?.play(&worlds::text(manner, is_kept), seed)?;
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let unix_at_zero_s = unix.as_secs_f64() - clock::now().as_nanos() as f64 / 1e9;
    let read_log = |place| Ok(NodeLog::read(&played.log(place)?, unix_at_zero_s));
    let logs: Vec<NodeLog> = (0..NAMES.len())
        .map(read_log)
        .collect::<anyhow::Result<_>>()?;
    Cut::new(&played.given()?, &played.received(0)?, &logs)
}
