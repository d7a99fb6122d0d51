//! The output, as JSON lines or as a table for people; and reading an earlier run's JSON lines.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::progress;
use crate::sample::Summary;

/// One figure beside its baseline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// The benchmark's id.
    pub(crate) id: Cow<'static, str>,
    /// The metric's name.
    pub(crate) metric: String,
    /// The median; NaN, in JSON `null`, without samples.
    #[serde(deserialize_with = "number_or_null")]
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: Cow<'static, str>,
    /// The baseline's name.
    pub(crate) baseline: Option<Cow<'static, str>>,
    /// The baseline's value in the same unit.
    pub(crate) baseline_value: Option<f64>,
    /// `value / baseline_value`.
    pub(crate) ratio: Option<f64>,
    /// Number of samples.
    pub(crate) n: usize,
    /// Interquartile range, in the same unit.
    #[serde(deserialize_with = "number_or_null")]
    pub(crate) spread: f64,
    /// The profile by which the bench was built; older files do not name it.
    #[serde(default)]
    pub(crate) profile: Cow<'static, str>,
}

/// The profile by which this program is built: `dist`, `release` or `debug`.
pub(crate) const PROFILE: &str = env!("THALWEG_PROFILE");

/// The profile of what is shipped, and of every figure that is reported.
pub(crate) const REPORTED: &str = "dist";

/// JSON has no NaN: it is written as `null`.
fn number_or_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// Receives figures as they are measured.
#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
    has_header: bool,
    figures: Vec<Figure>,
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
            id: Cow::Borrowed(id),
            metric: metric.into(),
            value: summary.median,
            unit: Cow::Borrowed(unit),
            baseline: None,
            baseline_value: None,
            ratio: None,
            n: summary.n,
            spread: summary.spread,
            profile: Cow::Borrowed(PROFILE),
        }
    }

    /// Adds a baseline.
    #[must_use]
    pub(crate) fn with_baseline(mut self, baseline: &'static str, baseline_value: f64) -> Self {
        self.baseline = Some(Cow::Borrowed(baseline));
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
            figures: Vec::new(),
        }
    }

    /// Returns whether the report is for programs.
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// Returns everything that was reported.
    pub(crate) fn into_figures(self) -> Vec<Figure> {
        self.figures
    }

    /// Prints one figure.
    ///
    /// Fails   standard output is closed, as after `| head`; see [`is_unread`]
    pub(crate) fn add(&mut self, figure: &Figure) -> anyhow::Result<()> {
        progress::clear();
        self.figures.push(figure.clone());
        if self.json {
            writeln!(io::stdout(), "{}", serde_json::to_string(figure)?)?;
            return Ok(());
        }
        if !self.has_header {
            self.has_header = true;
            writeln!(
                io::stdout(),
                "{:<7} {:<48} {:>10} {:>9} {:<13} {:>10} {:>8} {:>5}  baseline",
                "id",
                "metric",
                "value",
                "± spread",
                "unit",
                "baseline",
                "ratio",
                "n"
            )?;
        }
        writeln!(
            io::stdout(),
            "{:<7} {:<48} {:>10} {:>9} {:<13} {:>10} {:>8} {:>5}  {}",
            figure.id,
            figure.metric,
            short(figure.value),
            short(figure.spread),
            figure.unit,
            figure.baseline_value.map_or_else(String::new, short),
            figure.ratio.map_or_else(String::new, |r| format!("{r:.3}")),
            figure.n,
            figure.baseline.as_deref().unwrap_or_default(),
        )?;
        Ok(())
    }
}

/// Reads figures that were printed with `--json`; empty lines are skipped.
///
/// Fails   no such file, or a line that is not a figure: the message names path and line
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Figure>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read figures from {}", path.display()))?;
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            serde_json::from_str(line).with_context(|| {
                let (path, line) = (path.display(), at + 1);
                format!("{path}:{line}: not a figure as printed by `--json`")
            })
        })
        .collect()
}

/// Prints a table for people: the first column left-aligned, the others right-aligned.
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
    progress::clear();
    let mut text = format!("\n{title}\n");
    for row in [&header].into_iter().chain(rows) {
        let line: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(at, width)| match at {
                0 => format!("{:<width$}", cell(row, at)),
                _ => format!("{:>width$}", cell(row, at)),
            })
            .collect();
        let _ = writeln!(text, "  {}", line.join("  ").trim_end());
    }
    print(&text);
}

/// Prints a text; a closed standard output is ignored.
pub(crate) fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

/// Returns whether a run ended because standard output was closed.
pub(crate) fn is_unread(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Formats a number for people, with at least three significant digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        1000.0.. => format!("{value:.0}"),
        0.1.. => format!("{value:.2}"),
        _ if value == 0.0 => "0".to_owned(),
        _ => format!("{value:.2e}"),
    }
}
