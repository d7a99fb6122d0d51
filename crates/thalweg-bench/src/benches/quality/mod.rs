//! BM-P8: a viewer's picture quality over a slow link, by the treatment of the stream on its path.
//!
//! Panda's experiment: a layered video crosses four nodes, with one link of 150, 800, 2,000 or 5,000
//! kbit/s. The quality of the picture on the viewer's screen (PSNR against the original, luma and Cb; a
//! late frame leaves the previous one) is measured for each treatment:
//!
//! | case | the stream | the link as the planner sees it |
//! |---|---|---|
//! | `nothing` | may be read by all | fast: nothing is done |
//! | `drop` | may be read by all | its rate: layers are dropped |
//! | `drop_seal` | confidential, the first link insecure | its rate: layers are dropped, then sealed |
//! | `seal` | the same | fast: all layers are sealed, none is dropped |
//! | `incremental` | the same | its rate, but each node plans its next link only: sealed first |
//!
//! The baseline of `incremental` is `drop_seal`, where the whole path is planned at once; of all others
//! `nothing`. The testbed runs the worlds: real nodes, namespaces, one process each. Cases alternate in
//! every round.
//!
//! The benchmark needs root and the testbed's tools, and fails with a message without them.
//!
//! *Sources.* spec BM-P8, Figs 6.41–6.51; docs/guides/testbed.md.

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

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &["psnr_y_db", "psnr_cb_db", "frames_in_time_share"];

/// Rounds of each case in a full run.
const ROUNDS: usize = 2;

/// Runs every case at every rate and reports the viewer's quality.
///
/// Fails   the testbed's program is not beside this one, or a world cannot be run
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
                // The order alternates between rounds, so that nothing is always first.
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
                    figure.with_baseline(beside.name(), of(baseline).median)
                };
                report.add(&figure)?;
            }
        }
    }
    Ok(())
}

/// A metric, its unit, and its value.
type Measure = (&'static str, &'static str, fn(&Quality) -> f64);

const MEASURES: [Measure; 3] = [
    (METRICS[0], "dB", |quality| quality.y_db),
    (METRICS[1], "dB", |quality| quality.cb_db),
    (METRICS[2], "1", |quality| quality.in_time),
];
