//! As Paceline's figures 5 and 6: a viewer's figures by the maximum age of an ADU, and latency by importance.

use super::Measured;
use super::plots::{SPREADS, lines};
use thalweg_chart::{Chart, Plot, Point, Scale, Series};

const THRESHOLD: &str = "BM-L1";
const IMPORTANCE: &str = "BM-L2";

/// The sides' names in metrics and for readers; unknown ones follow.
const SIDES: [(&str, &str); 10] = [
    ("thalweg", "Thalweg"),
    ("thalweg_cubic", "Thalweg, CUBIC"),
    ("tcp_priority_cubic", "TCP by importance, CUBIC"),
    ("tcp_priority_bbr", "TCP by importance, BBR"),
    ("tcp_fifo_cubic", "TCP in order, CUBIC"),
    ("tcp_fifo_bbr", "TCP in order, BBR"),
    ("quic_streams", "QUIC streams by importance"),
    ("srt", "SRT"),
    ("pace_k", "PaceK"),
    ("pace_a", "PaceA"),
];

/// The lines of figure 5: names in metrics and for readers.
const LINES: [(&str, &str); 4] = [
    ("rtt50_bdp1", "50 ms, queue of 1 BDP"),
    ("rtt50_bdp5", "50 ms, queue of 5 BDP"),
    ("rtt100_bdp1", "100 ms, queue of 1 BDP"),
    ("rtt100_bdp5", "100 ms, queue of 5 BDP"),
];

/// The line of the figures that are drawn once.
const ONE: usize = 1;

const THRESHOLDS_MS: [u32; 9] = [100, 150, 200, 300, 500, 1_000, 2_000, 5_000, 10_000];

/// Returns a curve for each side.
fn curves(x_scale: Scale, point: impl Fn(&str) -> Vec<Option<Point>>) -> Option<Plot> {
    let curves = SIDES.iter().map(|(side, name)| {
        let points: Vec<Point> = point(side).into_iter().flatten().collect();
        (!points.is_empty()).then(|| Series {
            name: (*name).to_owned(),
            points,
        })
    });
    lines(x_scale, curves)
}

fn by_threshold(measured: &Measured, metric: &str, line: &str) -> Option<Plot> {
    curves(Scale::Tenfold, |side| {
        let point = |millis: u32| {
            let metric = format!("{metric}.{side}.{line}.ms_{millis}");
            measured.point(THRESHOLD, &metric, millis.into())
        };
        THRESHOLDS_MS.map(point).to_vec()
    })
}

/// As figure 5: frames per second, on one of the lines.
pub(super) fn fps<const LINE: usize>(measured: &Measured) -> Option<Chart> {
    let (line, words) = LINES[LINE];
    Some(Chart {
        title: format!("Eight videos, 32 Mbit/s into 10: round trip {words}"),
        x_label: "latency threshold (ms)".to_owned(),
        y_label: "frames a second of each video".to_owned(),
        y_scale: Scale::Even,
        plot: by_threshold(measured, "fps", line)?,
        source: vec![format!("thalweg-bench {THRESHOLD}; {SPREADS}")],
    })
}

/// Beside figure 5: the quality of those frames.
pub(super) fn psnr(measured: &Measured) -> Option<Chart> {
    let (line, words) = LINES[ONE];
    Some(Chart {
        title: format!("Eight videos, 32 Mbit/s into 10: round trip {words}"),
        x_label: "latency threshold (ms)".to_owned(),
        y_label: "luma PSNR (dB)".to_owned(),
        y_scale: Scale::Even,
        plot: by_threshold(measured, "psnr_y_db", line)?,
        source: vec![format!("thalweg-bench {THRESHOLD}; {SPREADS}")],
    })
}

fn by_importance(measured: &Measured, metric: &str, title: &str) -> Option<Chart> {
    let (line, words) = LINES[ONE];
    let plot = curves(Scale::Even, |side| {
        let point = |tenth: u32| {
            let metric = format!("{metric}.{side}.{line}.tenth_{tenth}");
            // The middle of the tenth.
            measured.point(IMPORTANCE, &metric, f64::from(tenth) / 10.0 + 0.05)
        };
        (0..10).map(point).collect()
    })?;
    Some(Chart {
        title: format!("{title}: round trip {words}"),
        x_label: "importance".to_owned(),
        y_label: "one-way latency of what came (ms)".to_owned(),
        y_scale: Scale::Tenfold,
        plot,
        source: vec![format!("thalweg-bench {IMPORTANCE}; {SPREADS}")],
    })
}

/// As figure 6 (a): the median by importance.
pub(super) fn p50(measured: &Measured) -> Option<Chart> {
    by_importance(
        measured,
        "importance_p50_ms",
        "Median latency by importance",
    )
}

/// As figure 6 (b): the 99.9th percentile by importance.
pub(super) fn p999(measured: &Measured) -> Option<Chart> {
    let title = "99.9th percentile by importance";
    by_importance(measured, "importance_p999_ms", title)
}
