//! As figures 6.1 to 6.5: planners on random chains, by nodes and by the adapters that their links require.

use super::Measured;
use super::plots::{SPREADS, cases, lines};
use thalweg_chart::{Chart, Plot, Point, Scale, Series};

const CENTRAL: &str = "BM-P1";
const LOCAL: &str = "BM-P2";

/// Returns the nodes and adapters of a metric's classes, such as `heuristic_us.nodes6.adapters12`.
fn classes(measured: &Measured, metric: &str) -> Vec<(u32, u32)> {
    let class = |case: &String| {
        let (nodes, adapters) = case.strip_prefix("nodes")?.split_once(".adapters")?;
        Some((nodes.parse().ok()?, adapters.parse().ok()?))
    };
    let named = cases(measured, metric);
    let mut classes: Vec<(u32, u32)> = named.iter().filter_map(class).collect();
    classes.sort_unstable();
    classes
}

/// Returns one line for each number of nodes, over adapters.
fn by_nodes(
    measured: &Measured,
    metric: &str,
    point: impl Fn(&str, f64) -> Option<Point>,
) -> Option<Plot> {
    let classes = classes(measured, metric);
    let series = (2..=6u32).map(|nodes| {
        let of_nodes = classes.iter().filter(|(of, _)| *of == nodes);
        let points = of_nodes.filter_map(|(_, adapters)| {
            let metric = format!("{metric}.nodes{nodes}.adapters{adapters}");
            point(&metric, f64::from(*adapters))
        });
        let points: Vec<Point> = points.collect();
        let name = format!("{nodes} nodes");
        (!points.is_empty()).then_some(Series { name, points })
    });
    lines(Scale::Even, series)
}

fn chart(title: &str, x_label: &str, y_label: &str, plot: Plot, id: &str) -> Chart {
    Chart {
        title: title.to_owned(),
        x_label: x_label.to_owned(),
        y_label: y_label.to_owned(),
        y_scale: Scale::Tenfold,
        plot,
        source: vec![format!(
            "thalweg-bench {id}; 1,000 random chains, classes of five and more; {SPREADS}"
        )],
    }
}

const ADAPTERS: &str = "adapters before any optimisation";

/// As figure 6.1: the exhaustive planner's time over the heuristic's.
pub(super) fn ratio(measured: &Measured) -> Option<Chart> {
    let metric = "exhaustive_over_heuristic";
    let plot = by_nodes(measured, metric, |metric, x| {
        measured.point(CENTRAL, metric, x)
    })?;
    let title = "Exhaustive over heuristic planning time";
    Some(chart(title, ADAPTERS, "ratio of medians", plot, CENTRAL))
}

/// As figure 6.2: the heuristic's time by adapters.
pub(super) fn heuristic(measured: &Measured) -> Option<Chart> {
    let plot = by_nodes(measured, "heuristic_us", |metric, x| {
        measured.point(CENTRAL, metric, x)
    })?;
    let title = "Heuristic planning time by adapters";
    Some(chart(title, ADAPTERS, "median time (us)", plot, CENTRAL))
}

/// As figure 6.3, of the exact planner: its time in the same classes.
pub(super) fn exact(measured: &Measured) -> Option<Chart> {
    let plot = by_nodes(measured, "heuristic_us", |metric, x| {
        measured.beside(CENTRAL, metric, "exact", x)
    })?;
    let title = "Exact planning time by adapters";
    Some(chart(title, ADAPTERS, "median time (us)", plot, CENTRAL))
}

/// Returns a line over nodes.
fn over_nodes(name: &str, point: impl Fn(u32) -> Option<Point>) -> Option<Series> {
    let points: Vec<Point> = (2..=6u32).filter_map(point).collect();
    let name = name.to_owned();
    (!points.is_empty()).then_some(Series { name, points })
}

/// As figure 6.4: the local planner's time beside the central one's.
pub(super) fn local_time(measured: &Measured) -> Option<Chart> {
    let metric = |nodes: u32| format!("incremental_us.nodes{nodes}");
    let local = |nodes: u32| measured.point(LOCAL, &metric(nodes), nodes.into());
    let central = |nodes: u32| measured.beside(LOCAL, &metric(nodes), "exact", nodes.into());
    let series = [
        over_nodes("incremental", local),
        over_nodes("exact", central),
    ];
    let plot = lines(Scale::Even, series)?;
    let title = "Incremental and central planning time";
    Some(chart(title, "nodes", "median time (us)", plot, LOCAL))
}

/// As figure 6.5: the plans' costs over the best.
pub(super) fn local_cost(measured: &Measured) -> Option<Chart> {
    let of = |planner: &'static str| {
        over_nodes(planner, move |nodes| {
            let metric = format!("cost_over_exact.{planner}.nodes{nodes}");
            measured.point(LOCAL, &metric, nodes.into())
        })
    };
    let plot = lines(Scale::Even, [of("incremental"), of("heuristic")])?;
    let title = "Cost of plans over the best";
    let mut chart = chart(title, "nodes", "median of cost / least cost", plot, LOCAL);
    chart.y_scale = Scale::Even;
    Some(chart)
}
