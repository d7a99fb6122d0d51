//! The table, as Markdown.

use std::fmt::Write as _;

use thalweg_sim::report::{Report, StreamReport};

use super::{Rung, stem};

/// Maximum difference between simulator and testbed that needs no explanation, in percent.
pub const AGREEMENT_PERCENT: f64 = 10.0;

/// Returns one line for each stream and sink of each world: medians over the runs.
///
/// Differences are relative to the simulator's value, in percent; those above [`AGREEMENT_PERCENT`] are
/// in bold.
pub fn table(rungs: &[Rung]) -> String {
    let mut text = String::from(
        "| world | stream | sent | delivered, sim | testbed | diff. | median latency, sim | testbed | diff. |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for rung in rungs {
        let Some(first) = rung.testbed.first() else {
            continue;
        };
        for real in &first.streams {
            let share = |stream: &StreamReport| Some(stream.delivered_share() * 100.0);
            let latency = |stream: &StreamReport| stream.latency_ms.p50;
            let both = |figure: &dyn Fn(&StreamReport) -> Option<f64>| {
                [&rung.simulator, &rung.testbed].map(|reports| median(reports, real, figure))
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                stem(first),
                real.stream,
                real.sent,
                columns(both(&share), "%"),
                columns(both(&latency), "ms"),
            );
        }
    }
    text
}

/// Returns the median of a figure of a stream over some runs; the lower one of an even number.
fn median(
    reports: &[Report],
    of: &StreamReport,
    figure: &dyn Fn(&StreamReport) -> Option<f64>,
) -> Option<f64> {
    let streams = reports.iter().flat_map(|report| &report.streams);
    let mut figures: Vec<f64> = streams
        .filter(|stream| stream.stream == of.stream && stream.sink == of.sink)
        .filter_map(figure)
        .collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().saturating_sub(1) / 2).copied()
}

/// Returns both values and their difference.
fn columns([simulator, testbed]: [Option<f64>; 2], unit: &str) -> String {
    let cell =
        |value: Option<f64>| value.map_or_else(|| "–".into(), |value| format!("{value:.1} {unit}"));
    let difference = match (simulator, testbed) {
        (Some(a), Some(b)) => {
            // If neither delivers anything, 0/0 is no difference.
            let percent = if a == 0.0 && b == 0.0 {
                0.0
            } else {
                (b - a) / a * 100.0
            };
            if percent.abs() <= AGREEMENT_PERCENT {
                format!("{percent:+.1} %")
            } else {
                format!("**{percent:+.1} %**")
            }
        }
        _ => "–".into(),
    };
    format!("{} | {} | {difference}", cell(simulator), cell(testbed))
}
