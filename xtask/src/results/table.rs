//! The tables of one benchmark's figures.
//!
//! *The idea.* What stands behind the first dot of a metric is its case. Metrics without one are
//! the headlines, a row each. Metrics that have the same cases share a table: a row per case, a
//! column per metric.
//!
//! *What it does not do.* A table of more than [`ROWS_MAX`] rows is left to the stored file, which is named.

use std::fmt::Write as _;

use serde_json::Value;

/// Rows that a reader still looks through.
const ROWS_MAX: usize = 10;

/// Metrics with the same cases.
struct Group<'a> {
    metrics: Vec<&'a str>,
    cases: Vec<&'a str>,
}

/// Returns the note and the tables of a run, in the order of its figures.
pub fn render(id: &str, figures: &[Value], note: Option<&str>) -> String {
    let mut text = String::new();
    if let Some(note) = note {
        let _ = writeln!(text, "\n{note}. Median (spread).");
    }
    let (headlines, detailed): (Vec<&Value>, Vec<&Value>) = figures
        .iter()
        .partition(|figure| !metric(figure).contains('.'));
    if !headlines.is_empty() {
        text += "\n| metric | value | beside | ratio | n |\n|---|---:|---|---:|---:|\n";
    }
    for figure in &headlines {
        let beside = match (
            figure["baseline"].as_str(),
            figure["baseline_value"].as_f64(),
        ) {
            (Some(name), Some(value)) => format!("{name}: {}", short(value)),
            _ => String::new(),
        };
        let ratio = figure["ratio"]
            .as_f64()
            .map_or_else(String::new, |ratio| format!("{ratio:.3}"));
        let unit = figure["unit"].as_str().unwrap_or_default();
        let _ = writeln!(
            text,
            "| `{}` | {} {unit} | {beside} | {ratio} | {} |",
            metric(figure),
            cell(figure),
            figure["n"]
        );
    }
    let mut left = 0;
    for group in groups(&detailed) {
        if group.cases.len() > ROWS_MAX {
            left += group.cases.len() * group.metrics.len();
            continue;
        }
        text += &pivot(&group, &detailed);
    }
    if left > 0 {
        let _ = writeln!(
            text,
            "\n{left} more figures: [{id}.jsonl](../results/{id}.jsonl)."
        );
    }
    text + "\n"
}

fn metric(figure: &Value) -> &str {
    figure["metric"].as_str().unwrap_or_default()
}

/// Collects metrics by their cases, in the order of their coming.
fn groups<'a>(figures: &[&'a Value]) -> Vec<Group<'a>> {
    let mut by_metric: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, case) in figures
        .iter()
        .filter_map(|figure| metric(figure).split_once('.'))
    {
        match by_metric.iter_mut().find(|(other, _)| *other == name) {
            Some((_, cases)) if cases.contains(&case) => {}
            Some((_, cases)) => cases.push(case),
            None => by_metric.push((name, vec![case])),
        }
    }
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (name, cases) in by_metric {
        match groups.iter_mut().find(|group| group.cases == cases) {
            Some(group) => group.metrics.push(name),
            None => groups.push(Group {
                metrics: vec![name],
                cases,
            }),
        }
    }
    groups
}

/// Returns one table: a row per case, a column per metric; a ratio stands behind the value that has one.
fn pivot(group: &Group<'_>, figures: &[&Value]) -> String {
    let find = |name: &str, case: &str| {
        let wanted = format!("{name}.{case}");
        figures.iter().find(|figure| metric(figure) == wanted)
    };
    let mut text = String::from("\n| case |");
    for name in &group.metrics {
        let first = group.cases.first().and_then(|case| find(name, case));
        let unit = first
            .and_then(|figure| figure["unit"].as_str())
            .unwrap_or_default();
        let _ = write!(text, " `{name}`, {unit} |");
    }
    text += "\n|---|";
    text += &"---:|".repeat(group.metrics.len());
    text += "\n";
    for case in &group.cases {
        let _ = write!(text, "| `{case}` |");
        for name in &group.metrics {
            let shown = find(name, case).map_or_else(String::new, |figure| {
                let ratio = figure["ratio"].as_f64();
                cell(figure) + &ratio.map_or_else(String::new, |ratio| format!("; × {ratio:.2}"))
            });
            let _ = write!(text, " {shown} |");
        }
        text += "\n";
    }
    text
}

/// Returns the value and, if there is one, the spread; a value that was not measured is a dash.
fn cell(figure: &Value) -> String {
    let Some(value) = figure["value"].as_f64() else {
        return "–".into();
    };
    match figure["spread"].as_f64() {
        Some(spread) if spread > 0.0 => format!("{} ({})", short(value), short(spread)),
        _ => short(value),
    }
}

/// Returns a number with about three significant digits.
pub fn short(value: f64) -> String {
    let magnitude = value.abs();
    let digits = match magnitude {
        _ if !(f64::MIN_POSITIVE..100.0).contains(&magnitude) => 0,
        _ if magnitude >= 10.0 => 1,
        _ if magnitude >= 1.0 => 2,
        _ if magnitude >= 0.01 => 3,
        _ => 5,
    };
    format!("{value:.digits$}")
}
