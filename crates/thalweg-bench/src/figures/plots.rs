//! What drawings are made of: series, lines and bars of the metrics that were measured.

use super::Measured;
use thalweg_chart::{Plot, Point, Scale, Series};

pub(super) const SPREADS: &str = "medians; bars: half the quartiles' distance";

/// Returns a series; `None` without points.
pub(super) fn series(
    name: impl Into<String>,
    points: impl Iterator<Item = Option<Point>>,
) -> Option<Series> {
    let points: Vec<Point> = points.flatten().collect();
    let name = name.into();
    (!points.is_empty()).then_some(Series { name, points })
}

/// Returns lines; `None` if there are none.
pub(super) fn lines(
    x_scale: Scale,
    lines: impl IntoIterator<Item = Option<Series>>,
) -> Option<Plot> {
    let lines: Vec<Series> = lines.into_iter().flatten().collect();
    (!lines.is_empty()).then_some(Plot::Lines { x_scale, lines })
}

/// Returns bars for the groups that have a first bar; the groups' names are the metric's suffixes.
pub(super) fn bars(groups: Vec<String>, bars: [Option<Series>; 2]) -> Option<Plot> {
    let [first, second] = bars;
    let bars = [Some(first?), second].into_iter().flatten().collect();
    Some(Plot::Bars { groups, bars })
}

/// Returns the distinct suffixes of a metric, in the order of the files.
pub(super) fn cases(measured: &Measured, metric: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for figure in &measured.0 {
        if let Some((name, case)) = figure.metric.split_once('.')
            && name == metric
            && !names.iter().any(|known| known == case)
        {
            names.push(case.to_owned());
        }
    }
    names
}
