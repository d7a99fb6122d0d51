//! BM-L2: latency by importance.
//!
//! Paceline's figure 6, from the recording of BM-L1: median, 99.9th percentile and maximum of the
//! one-way latency of the arrived ADUs, over all and by tenths of the importance scale. The top tenth
//! holds exactly the videos' base layers; the path's own delay is such an ADU's latency over the empty
//! line. Ratios are computed within a round, against a TCP program that sends the most important ADU
//! first and drops late ones: the best that a program without T-modules can do.
//!
//! A quantile covers only ADUs that arrived; their share is reported beside it.
//!
//! *Sources.* spec B2.2 and BM-L2; PL-23, PL-24.

use thalweg_base::time::Duration;

use super::condition::Condition;
use super::recorded::{Recorded, recorded};
use super::recording::Recording;
use super::sides::{OURS, TCP};
use crate::Settings;
use crate::report::{Figure, Report, short, table};
use crate::sample::{Summary, quantile};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-L2";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &[
    "p50_vs_tcp",
    "p999_vs_tcp",
    "max_vs_tcp",
    "top_class_p999_vs_path",
    "top_class_delivered_share",
    "p50_ms",
    "p999_ms",
    "max_ms",
    "delivered_share",
    "importance_p50_ms",
    "importance_p999_ms",
];

/// The quantiles of the first three metrics, and of `p50_ms` and its neighbours.
const SHARES: [f64; 3] = [0.5, 0.999, 1.0];

/// Index of the top tenth of the importance scale.
const TOP: usize = 9;

/// Runs what has not been run yet, and reports BM-L2.
///
/// Fails   as [`recorded`], or a side could not be run
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    let recorded = recorded(ID, settings)?;
    headlines(recorded, report)?;
    for condition in &recorded.conditions {
        lines(recorded, *condition, report)?;
    }
    if !report.is_json() {
        for condition in &recorded.conditions {
            show(recorded, *condition);
        }
    }
    recorded.check()
}

/// Returns the tenth of the importance scale, from 0.
pub(super) fn tenth(importance: u8) -> usize {
    (usize::from(importance) * 10 / 255).min(TOP)
}

/// The arrivals of a class of ADUs.
struct Came {
    /// Latency of each, ms.
    millis: Vec<f64>,
    /// Number of ADUs due.
    due: usize,
}

impl Came {
    fn quantile(&self, at: f64) -> f64 {
        quantile(&self.millis, at)
    }

    fn share(&self) -> f64 {
        self.millis.len() as f64 / self.due.max(1) as f64
    }
}

/// Returns the arrivals of one tenth, or of all.
fn came_of(recorded: &Recorded, recording: &Recording, of: Option<usize>) -> Came {
    let judged = recorded.videos.judged();
    let meant = judged.filter(|(_, due)| of.is_none_or(|of| tenth(due.importance) == of));
    let latencies = meant.map(|(number, _)| recording.latency(number));
    let latencies: Vec<Option<Duration>> = latencies.collect();
    let came = latencies.iter().flatten();
    Came {
        millis: came.map(|came| came.as_millis_f64()).collect(),
        due: latencies.len(),
    }
}

fn headlines(recorded: &Recorded, report: &mut Report) -> anyhow::Result<()> {
    let cases = recorded.conditions.iter();
    let cases = cases.map(|condition| (format!(".{}", condition.name()), vec![*condition]));
    let all = (String::new(), recorded.conditions.clone());
    for (case, conditions) in std::iter::once(all).chain(cases) {
        let mut ratios = [const { Vec::new() }; 3];
        let (mut top, mut came) = (Vec::new(), Vec::new());
        for condition in &conditions {
            let ours = recorded.of(*condition, OURS.name());
            let theirs = recorded.of(*condition, TCP.name());
            for (our, their) in ours.zip(theirs) {
                let our_all = came_of(recorded, our, None);
                let their_all = came_of(recorded, their, None);
                for (ratios, at) in ratios.iter_mut().zip(SHARES) {
                    ratios.push(our_all.quantile(at) / their_all.quantile(at));
                }
                let of_top = came_of(recorded, our, Some(TOP));
                let path = idle_ms(recorded, *condition);
                top.push(of_top.quantile(SHARES[1]) / path);
                came.push(of_top.share());
            }
        }
        for (metric, ratios) in METRICS.iter().zip(ratios) {
            let metric = format!("{metric}{case}");
            report.add(&Figure::new(ID, metric, "1", Summary::of(ratios)))?;
        }
        for (metric, values) in [(METRICS[3], top), (METRICS[4], came)] {
            let metric = format!("{metric}{case}");
            report.add(&Figure::new(ID, metric, "1", Summary::of(values)))?;
        }
    }
    Ok(())
}

/// Returns the latency over the empty line of an ADU with the top tenth's mean length, ms.
fn idle_ms(recorded: &Recorded, condition: Condition) -> f64 {
    let judged = recorded.videos.judged();
    let top = judged.filter(|(_, due)| tenth(due.importance) == TOP);
    let bytes: Vec<usize> = top.map(|(_, due)| due.bytes).collect();
    let mean = bytes.iter().sum::<usize>() / bytes.len().max(1);
    condition.idle(mean).as_millis_f64()
}

/// Reports each side over a line; the figures by importance are for programs only.
fn lines(recorded: &Recorded, condition: Condition, report: &mut Report) -> anyhow::Result<()> {
    let line = condition.name();
    let quantiles = |side: &str, of: Option<usize>, at: f64| {
        let recordings = recorded.of(condition, side);
        let each = recordings.map(|recording| came_of(recorded, recording, of).quantile(at));
        Summary::of(each.collect())
    };
    for side in &recorded.sides {
        let name = side.name();
        for (metric, at) in METRICS[5..8].iter().zip(SHARES) {
            let metric = format!("{metric}.{name}.{line}");
            let figure = Figure::new(ID, metric, "ms", quantiles(name, None, at));
            let figure = match quantiles(TCP.name(), None, at) {
                tcp if tcp.n > 0 && name != TCP.name() => {
                    figure.with_baseline(TCP.name(), tcp.median)
                }
                _ => figure,
            };
            report.add(&figure)?;
        }
        let shares = recorded.of(condition, name);
        let shares = shares.map(|recording| came_of(recorded, recording, None).share());
        let metric = format!("{}.{name}.{line}", METRICS[8]);
        report.add(&Figure::new(ID, metric, "1", Summary::of(shares.collect())))?;
        if !report.is_json() {
            continue;
        }
        for (metric, at) in METRICS[9..].iter().zip(SHARES) {
            for of in 0..=TOP {
                let value = quantiles(name, Some(of), at);
                // Skip a tenth without any arrival.
                if value.median.is_finite() {
                    let metric = format!("{metric}.{name}.{line}.tenth_{of}");
                    report.add(&Figure::new(ID, metric, "ms", value))?;
                }
            }
        }
    }
    Ok(())
}

/// Prints latencies and shares by tenth of importance, for people.
fn show(recorded: &Recorded, condition: Condition) {
    let mut header = vec!["importance".to_owned()];
    header.extend((1..=TOP).rev().map(|of| format!("0.{of}")));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let print = |what: &str, cell: fn(&Came) -> f64| {
        let row = |name: &str| {
            let cells = (1..=TOP).rev().map(|of| {
                let recordings = recorded.of(condition, name);
                let each =
                    recordings.map(|recording| cell(&came_of(recorded, recording, Some(of))));
                let value = Summary::of(each.collect()).median;
                if value.is_finite() {
                    short(value)
                } else {
                    "–".to_owned()
                }
            });
            std::iter::once(name.to_owned()).chain(cells).collect()
        };
        let rows: Vec<Vec<String>> = recorded.sides.iter().map(|side| row(side.name())).collect();
        table(&format!("{what}, {}", condition.name()), &header, &rows);
    };
    print("median latency by importance, ms", |came| {
        came.quantile(SHARES[0])
    });
    print("99.9th percentile by importance, ms", |came| {
        came.quantile(SHARES[1])
    });
    print("share that came, by importance", Came::share);
}
