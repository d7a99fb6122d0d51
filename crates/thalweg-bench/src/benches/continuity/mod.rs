//! BM-R2: the way of a live video is cut, and another is there: what is lost, what comes twice, what comes late, for how long
//! nothing comes, and how soon the failure is found and another way taken.
//!
//! *The idea.* A diamond on the testbed, real nodes in namespaces; 25 pictures a second take the upper way, which breaks in
//! the middle of the world, in one of three manners. Each manner is played with the stream as it is, and with the same
//! stream that its source does not keep (`reliability = "none"`): then another way is taken as soon, and nothing is sent
//! again. The two take turns in every round.
//!
//! ```text
//! cut ──► silence noticed ──► new plan in force ──► the next picture comes
//!  ├─ detection_ms ─┤├── repath_ms ──┤
//! ├──────────── gap_ms: between two pictures that come ───────────┤
//! ```
//!
//! A picture is **delayed** if it takes more than an interval of the stream longer than the median before the cut. The old
//! system delayed 7 (spec BM-R2), which is the baseline of `adus_delayed`.
//!
//! *What it does not do.* It needs root and the testbed's tools, and says so. A picture that comes after its deadline is
//! given up on the way, so it is lost and not delayed.
//!
//! *Sources.* spec RA-12, RA-13, BM-R2; docs/continuity.md; docs/testbed.md.

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

use cut::{Cut, Said};
use worlds::{Manner, NAMES};

pub(super) use cut::longest_gap;
pub(super) use played::Testbed;
pub(super) use worlds::{BREAK, INTERVAL, diamond};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-R2";

/// What its metrics are called.
pub(crate) const METRICS: &[&str] = &[
    "adus_lost",
    "adus_twice",
    "adus_delayed",
    "gap_ms",
    "detection_ms",
    "repath_ms",
];

/// How many pictures the old system delayed.
const DELAYED_BEFORE: f64 = 7.0;

/// How often each manner is played, in full.
const ROUNDS: usize = 5;

/// Plays every manner and reports what came of the stream.
///
/// Fails   the testbed's program is not beside this one, or a world cannot be played
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
            // The other order every second round, so that neither is always first.
            let order = [round % 2 == 0, round % 2 != 0];
            for is_kept in order {
                progress::show(format_args!("{ID} {}: round {round}", manner.name()));
                let played = play(*manner, is_kept, round as u64 + 1)?;
                let side = if is_kept { &mut kept } else { &mut unkept };
                side.push(played);
            }
        }
        tell(*manner, &kept, &unkept, report)?;
    }
    Ok(())
}

fn tell(manner: Manner, kept: &[Cut], unkept: &[Cut], report: &mut Report) -> anyhow::Result<()> {
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
            figure.beside("old", DELAYED_BEFORE)
        } else {
            figure.beside("unkept", of(unkept).median)
        };
        report.add(&figure)?;
    }
    Ok(())
}

/// Plays a world and reads what its roles and nodes wrote down.
fn play(manner: Manner, is_kept: bool, seed: u64) -> anyhow::Result<Cut> {
    let played = Testbed::find()?.play(&worlds::text(manner, is_kept), seed)?;
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let unix_at_zero_s = unix.as_secs_f64() - clock::now().as_nanos() as f64 / 1e9;
    let said = |place| Ok(Said::read(&played.log(place)?, unix_at_zero_s));
    let said: Vec<Said> = (0..NAMES.len()).map(said).collect::<anyhow::Result<_>>()?;
    Cut::new(&played.given()?, &played.received(0)?, &said)
}
