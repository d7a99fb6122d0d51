//! `thalweg-bench figures`: SVG files in the shape of the papers' figures, from the lines of `--json`.
//!
//! A table of drawings, each a name and a function from figures to a chart; a drawing without any
//! metric in the files is named and left out. Values are drawn as they are, with half the interquartile
//! range above and below; nothing is smoothed, interpolated or joined from other runs.
//!
//! *To add one*, write its function and put it into [`DRAWINGS`].
//!
//! *Sources.* spec §1(b), figures 6.1 to 6.5 and 6.7 to 6.10; §3(b), figures 5 and 6; §5(c), Tables 1
//! and 5 to 9.

mod drawings;
mod live;
mod planning;
mod plots;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::report::{self, Figure};
use drawings::DRAWINGS;
use thalweg_chart::{Chart, Point};

/// Draws figures from the lines that `--json` printed.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Files with lines printed by `--json`; if a metric is in several, the last counts.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The folder for the SVG files.
    #[arg(long, value_name = "FOLDER", default_value = "docs/figures")]
    out: PathBuf,
    /// What to write below each figure, such as the date and the machine.
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
}

/// A figure that can be drawn.
struct Drawing {
    /// The file's name without its extension.
    name: &'static str,
    /// Returns `None` if none of its metrics was measured.
    chart: fn(&Measured) -> Option<Chart>,
}

/// The measured figures.
struct Measured(Vec<Figure>);

/// Draws the figures that the files have data for, and names the others.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let files = arguments.files.iter().map(|path| report::read(path));
    let files = files.collect::<anyhow::Result<Vec<_>>>()?;
    let measured = Measured(files.into_iter().flatten().collect());
    let out = &arguments.out;
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut drawn = 0;
    for drawing in DRAWINGS {
        let path = out.join(drawing.name).with_extension("svg");
        let Some(mut chart) = (drawing.chart)(&measured) else {
            println!(
                "not drawn: {}, because the files have none of its metrics",
                drawing.name
            );
            continue;
        };
        if !arguments.note.is_empty() {
            chart.source.push(arguments.note.clone());
        }
        write(&path, &chart.svg())?;
        println!("{}", path.display());
        drawn += 1;
    }
    anyhow::ensure!(
        drawn > 0,
        "nothing was drawn: run a benchmark with --json first"
    );
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

impl Measured {
    /// Returns a metric of a benchmark.
    fn point(&self, id: &str, metric: &str, x: f64) -> Option<Point> {
        let is_meant = |figure: &&Figure| figure.id == id && figure.metric == metric;
        let figure = self.0.iter().rev().find(is_meant)?;
        Some(Point {
            x,
            y: figure.value,
            spread: figure.spread / 2.0,
        })
    }

    /// Returns the baseline of a metric, without a spread, which is not in the file.
    fn beside(&self, id: &str, metric: &str, baseline: &str, x: f64) -> Option<Point> {
        let is_meant = |figure: &&Figure| {
            figure.id == id
                && figure.metric == metric
                && figure.baseline.as_deref() == Some(baseline)
        };
        let figure = self.0.iter().rev().find(is_meant)?;
        Some(Point {
            x,
            y: figure.baseline_value?,
            spread: 0.0,
        })
    }
}
