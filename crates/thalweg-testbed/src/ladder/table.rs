//! The table, as Markdown.

use std::fmt::Write as _;

use thalweg_sim::report::StreamReport;

use super::Rung;

/// How far simulator and testbed may be apart without an explanation, in percent.
pub const AGREEMENT_PERCENT: f64 = 10.0;

/// Returns one line for each stream and sink of each world.
///
/// Differences are the testbed's from the simulator's, in percent of the simulator's; those above
/// [`AGREEMENT_PERCENT`] are in bold.
pub fn table(rungs: &[Rung]) -> String {
    let mut text = String::from(
        "| world | stream | sent | delivered, sim | testbed | diff. | median latency, sim | testbed | diff. |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for rung in rungs {
        for real in &rung.testbed.streams {
            let streams = rung.simulator.iter().flat_map(|report| &report.streams);
            let mut same = streams.filter(|one| one.stream == real.stream && one.sink == real.sink);
            let share = |stream: &StreamReport| Some(stream.delivered_share() * 100.0);
            let median = |stream: &StreamReport| stream.latency_ms.p50;
            let virtual_ = same.next();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                rung.testbed.world,
                real.stream,
                real.sent,
                columns(virtual_.and_then(share), share(real), "%"),
                columns(virtual_.and_then(median), median(real), "ms"),
            );
        }
    }
    text
}

/// Returns what both say and how far they are apart.
fn columns(simulator: Option<f64>, testbed: Option<f64>, unit: &str) -> String {
    let cell =
        |value: Option<f64>| value.map_or_else(|| "–".into(), |value| format!("{value:.1} {unit}"));
    let difference = match (simulator, testbed) {
        (Some(a), Some(b)) => {
            // Of nothing delivered by either there is no share, and no difference.
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
