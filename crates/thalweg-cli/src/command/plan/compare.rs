//! `thalweg plan WORLD --compare`: all planners side by side, on one stream.

use std::collections::BTreeMap;
use std::time::Instant;

use thalweg_planner::model::{NodeName, Snapshot};
use thalweg_planner::planner::report::Report;
use thalweg_planner::planner::{self, Planner, Policy};

use super::prose::folded;
use crate::table;
use crate::terminal::Colour;

/// Plans with every planner, in the order of the comparison.
pub(super) fn all(snapshot: &Snapshot, policy: Policy) -> Vec<(Planner, Report)> {
    let report = |planner| {
        let policy = Policy { planner, ..policy };
        let start = Instant::now();
        let (plan, shortfalls) = planner::plan(snapshot, &policy);
        let report = Report::new(&plan, &shortfalls, start.elapsed().into());
        (planner, report)
    };
    Planner::ALL.map(report).to_vec()
}

/// Returns the reports as one JSON object by the planners' names.
pub(super) fn json(reports: &[(Planner, Report)]) -> serde_json::Result<String> {
    let by_name: BTreeMap<&str, &Report> = reports
        .iter()
        .map(|(planner, report)| (planner.name(), report))
        .collect();
    Ok(serde_json::to_string(&by_name)? + "\n")
}

/// Returns one row per planner.
pub(super) fn table(snapshot: &Snapshot, reports: &[(Planner, Report)], colour: Colour) -> String {
    let heading = [
        "planner", "feasible", "cost", "adapters", "layers", "utility", "delay", "time",
    ];
    let mut rows = vec![heading.map(String::from)];
    for (planner, report) in reports {
        rows.push(row(snapshot, *planner, report));
    }
    table::lay_out(&rows, colour) + &paths(reports)
}

/// Returns each distinct path, with the planners that found it.
fn paths(reports: &[(Planner, Report)]) -> String {
    let mut paths: Vec<(String, Vec<&str>)> = Vec::new();
    for (planner, report) in reports.iter().filter(|(_, report)| !report.path.is_empty()) {
        let names: Vec<&str> = report.path.iter().map(NodeName::as_str).collect();
        let path = names.join(" → ");
        match paths.iter_mut().find(|(known, _)| *known == path) {
            Some((_, planners)) => planners.push(planner.name()),
            None => paths.push((path, vec![planner.name()])),
        }
    }
    let mut text = String::new();
    for (path, planners) in paths {
        let planners = if planners.len() == reports.len() {
            "all".to_owned()
        } else {
            planners.join(", ")
        };
        text.push('\n');
        text.push_str(&folded(&format!("{planners}: {path}")));
    }
    text
}

fn row(snapshot: &Snapshot, planner: Planner, report: &Report) -> [String; 8] {
    let verdict = if report.feasible { "yes" } else { "no" };
    let elapsed = format!("{:.0} us", report.elapsed_us);
    if report.path.is_empty() {
        let mut row = [const { String::new() }; 8];
        row[0] = planner.to_string();
        verdict.clone_into(&mut row[1]);
        row[7] = elapsed;
        return row;
    }
    let adapters = report.placements.iter().map(|chain| chain.adapters.len());
    let kept = snapshot.stream.layers.iter().take(report.layers.into());
    let utility: f64 = kept.map(|layer| layer.utility).sum();
    [
        planner.to_string(),
        verdict.to_owned(),
        format!("{:.4}", report.cost),
        adapters.sum::<usize>().to_string(),
        format!("{} of {}", report.layers, snapshot.stream.layers.len()),
        format!("{:.1} %", utility * 100.0),
        format!("{} ms", report.delay_ms),
        elapsed,
    ]
}
