//! BM-P8: what a viewer sees over a slow link, by what is done to the stream on its way.
//!
//! *The idea.* Panda's experiment: a layered video crosses four nodes, one link of which has 150, 800, 2,000 or
//! 5,000 kbit/s. The quality of what is on the viewer's screen (PSNR against what was sent, luma and Cb, a late frame
//! leaves the one before it) is taken for each way of treating it:
//!
//! | case | the stream | what the planner is told of the link |
//! |---|---|---|
//! | `nothing` | may be read by all | that it is fast: nothing is done |
//! | `drop` | may be read by all | its rate: layers are dropped |
//! | `drop_seal` | confidential, the first link insecure | its rate: layers are dropped, then sealed |
//! | `seal` | the same | that it is fast: all layers are sealed, none is dropped |
//! | `incremental` | the same | its rate, but each node plans for the next link only: sealed first, dropped later |
//!
//! The baseline of `incremental` is `drop_seal`, which is the whole path planned at once, of all others `nothing`.
//! Worlds are played by the testbed: real nodes, namespaces, one process each. Cases take turns in every round.
//!
//! *What it does not do.* It needs root and the testbed's tools, and says so; it judges no picture but by PSNR.
//!
//! *Sources.* spec BM-P8, Figs 6.41–6.51; docs/testbed.md.

mod played;
#[cfg(test)]
mod tests;
mod worlds;

use crate::Settings;
use crate::progress;
use crate::report::{Figure, Report};
use crate::sample::Summary;

use played::{Quality, Testbed};
use worlds::{Case, RATES_KBPS};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-P8";

/// What its metrics are called.
pub(crate) const METRICS: &[&str] = &["psnr_y_db", "psnr_cb_db", "frames_in_time_share"];

/// How often each case is played, in full.
const ROUNDS: usize = 2;

/// Plays every case at every rate and reports what the viewer saw.
///
/// Fails   the testbed's program is not beside this one, or a world cannot be played
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let testbed = Testbed::find()?;
    let (rates, rounds) = if settings.is_quick {
        (&RATES_KBPS[..1], 1)
    } else {
        (&RATES_KBPS[..], ROUNDS)
    };
    for kbps in rates {
        let mut seen: Vec<Vec<Quality>> = vec![Vec::new(); Case::ALL.len()];
        for round in 0..rounds {
            for turn in 0..Case::ALL.len() {
                // The other order every second round, so that nothing is always first.
                let at = match round % 2 {
                    0 => turn,
                    _ => Case::ALL.len() - 1 - turn,
                };
                let case = Case::ALL[at];
                progress::show(format!("{ID} {kbps} kbit/s: {}", case.name()));
                let world = worlds::text(case, *kbps, settings.is_quick);
                seen[at].push(testbed.play(&world, round as u64 + 1)?);
            }
        }
        for (at, case) in Case::ALL.into_iter().enumerate() {
            let beside = case.baseline();
            let place = Case::ALL.iter().position(|other| *other == beside);
            let baseline = &seen[place.unwrap_or(at)];
            for (metric, unit, value) in MEASURES {
                let of = |qualities: &[Quality]| Summary::of(qualities.iter().map(value).collect());
                let metric = format!("{metric}.{}.kbps_{kbps}", case.name());
                let figure = Figure::new(ID, metric, unit, of(&seen[at]));
                let figure = if beside == case {
                    figure
                } else {
                    figure.beside(beside.name(), of(baseline).median)
                };
                report.add(&figure)?;
            }
        }
    }
    Ok(())
}

/// A metric, its unit, and what it is of what a viewer saw.
type Measure = (&'static str, &'static str, fn(&Quality) -> f64);

const MEASURES: [Measure; 3] = [
    (METRICS[0], "dB", |quality| quality.y_db),
    (METRICS[1], "dB", |quality| quality.cb_db),
    (METRICS[2], "1", |quality| quality.in_time),
];
