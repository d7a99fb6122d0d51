//! What is printed: one JSON object a line, or a table for people.

use serde::Serialize;

use crate::sample::Summary;

/// One figure beside its baseline.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// The benchmark's id.
    pub(crate) id: &'static str,
    /// What is measured.
    pub(crate) metric: String,
    /// The median.
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// What it is compared with.
    pub(crate) baseline: Option<&'static str>,
    /// The baseline's value in the same unit.
    pub(crate) baseline_value: Option<f64>,
    /// `value / baseline_value`.
    pub(crate) ratio: Option<f64>,
    /// Samples the value is the median of.
    pub(crate) n: usize,
    /// Distance of the quartiles, in the same unit.
    pub(crate) spread: f64,
}

/// Where figures go, as they are measured.
#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
    has_header: bool,
}

impl Figure {
    /// Returns a figure without a baseline.
    pub(crate) fn new(
        id: &'static str,
        metric: impl Into<String>,
        unit: &'static str,
        summary: Summary,
    ) -> Self {
        Self {
            id,
            metric: metric.into(),
            value: summary.median,
            unit,
            baseline: None,
            baseline_value: None,
            ratio: None,
            n: summary.n,
            spread: summary.spread,
        }
    }

    /// Puts a baseline beside it.
    #[must_use]
    pub(crate) fn beside(mut self, baseline: &'static str, baseline_value: f64) -> Self {
        self.baseline = Some(baseline);
        self.baseline_value = Some(baseline_value);
        self.ratio = (baseline_value != 0.0).then(|| self.value / baseline_value);
        self
    }
}

impl Report {
    /// Returns a report as JSON lines or as a table.
    pub(crate) const fn new(json: bool) -> Self {
        Self {
            json,
            has_header: false,
        }
    }

    /// Returns whether the report is for programs.
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// Prints one figure.
    pub(crate) fn add(&mut self, figure: &Figure) -> anyhow::Result<()> {
        if self.json {
            println!("{}", serde_json::to_string(figure)?);
            return Ok(());
        }
        if !self.has_header {
            self.has_header = true;
            println!(
                "{:<7} {:<40} {:>10} {:>9} {:<13} {:>10} {:>8} {:>4}  baseline",
                "id", "metric", "value", "± spread", "unit", "baseline", "ratio", "n"
            );
        }
        println!(
            "{:<7} {:<40} {:>10} {:>9} {:<13} {:>10} {:>8} {:>4}  {}",
            figure.id,
            figure.metric,
            short(figure.value),
            short(figure.spread),
            figure.unit,
            figure.baseline_value.map_or_else(String::new, short),
            figure.ratio.map_or_else(String::new, |r| format!("{r:.3}")),
            figure.n,
            figure.baseline.unwrap_or_default(),
        );
        Ok(())
    }
}

/// Prints figures side by side, for people: the first column to the left, the others to the right.
pub(crate) fn table(title: &str, header: &[&str], rows: &[Vec<String>]) {
    let header: Vec<String> = header.iter().map(ToString::to_string).collect();
    let cell = |row: &Vec<String>, at: usize| row.get(at).cloned().unwrap_or_default();
    let widths: Vec<usize> = (0..header.len())
        .map(|at| {
            let all = rows.iter().chain([&header]);
            all.map(|row| cell(row, at).chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    println!("\n{title}");
    for row in [&header].into_iter().chain(rows) {
        let line: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(at, width)| match at {
                0 => format!("{:<width$}", cell(row, at)),
                _ => format!("{:>width$}", cell(row, at)),
            })
            .collect();
        println!("  {}", line.join("  ").trim_end());
    }
}

fn short(value: f64) -> String {
    if value.abs() >= 1000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}
