//! `thalweg compare SIM.json TESTBED.json`: one world in virtual time and on a real kernel, side by side.
//!
//! *The idea.* Both players report in one form (`thalweg_sim::report`). The project claims that delivered
//! share and median latency agree; these two decide the exit code. Other figures are shown and marked.

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use thalweg_sim::report::{Report, StreamReport};

use crate::exit::{Code, Failure, OrCode as _, Outcome, fail};
use crate::terminal::{self, Colour, Paint};
use crate::{input, table};

const EXAMPLES: &str = "\
Examples:
  thalweg simulate worlds/demo.toml --json > sim.json
  thalweg compare sim.json testbed.json
  thalweg compare sim.json testbed.json --json | jq '.[] | select(.beyond)'

Exits 5 if a delivered share or a median latency differs by more than 10 %.";

/// Largest difference that still agrees, in percent of the first report's value.
const DIFFERENCE_PERCENT_MAX: f64 = 10.0;

/// Tolerance for rounding: 88 / 80 is slightly above 1.1 in floating point.
const ROUNDING: f64 = 1e-9;

/// Compare two reports of one world: what was delivered, how late, in what quality.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The reference report, as printed by `thalweg simulate --json`.
    first: PathBuf,

    /// The other report, as written by the testbed.
    second: PathBuf,

    /// Print one JSON array with an object for each figure.
    #[arg(long)]
    json: bool,
}

/// One figure in both reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    stream: String,
    sink: String,
    figure: &'static str,
    first: Option<f64>,
    second: Option<f64>,
    /// Second over first, minus one; `None` if it is undefined.
    difference_percent: Option<f64>,
    /// Whether the difference is too large for agreement.
    beyond: bool,
    /// Whether the project claims agreement for this figure.
    claimed: bool,
}

/// Compares and prints.
pub fn run(arguments: &Arguments) -> Outcome {
    let first = load(&arguments.first)?;
    let second = load(&arguments.second)?;
    let rows = compare(&first, &second).or_else(|sentence| {
        let [a, b] = [&arguments.first, &arguments.second].map(|path| path.display().to_string());
        fail(
            Code::BadInput,
            format!("{a} and {b} cannot be compared: {sentence}"),
        )
    })?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&rows)? + "\n"
    } else {
        describe(&first, &second, &rows, Colour::of_stdout())
    };
    terminal::print(&text)?;
    let differs = rows.iter().any(|row| row.beyond && row.claimed);
    Ok(if differs { Code::Broken } else { Code::Done })
}

fn load(path: &Path) -> Result<Report, Failure> {
    let text = input::read_text(path)?;
    serde_json::from_str(&text)
        .map_err(|error| anyhow::anyhow!("{} is not a report of a world: {error}", path.display()))
        .or_code(Code::BadInput)
}

/// Returns the figures of both reports, or why they are not comparable.
fn compare(first: &Report, second: &Report) -> Result<Vec<Row>, String> {
    let file = |world: &str| {
        Path::new(world)
            .file_name()
            .unwrap_or(OsStr::new(world))
            .to_owned()
    };
    if file(&first.world) != file(&second.world) {
        return Err(format!(
            "one is about the world `{}`, the other about `{}`",
            first.world, second.world
        ));
    }
    if (first.seconds - second.seconds).abs() > 1e-6 {
        return Err(format!(
            "one ran for {} s, the other for {} s",
            first.seconds, second.seconds
        ));
    }
    let names = |report: &Report| -> Vec<String> {
        let mut names: Vec<String> = report
            .streams
            .iter()
            .map(|s| format!("{} to {}", s.stream, s.sink))
            .collect();
        names.sort();
        names
    };
    if names(first) != names(second) {
        let [a, b] = [names(first), names(second)].map(|names| names.join(", "));
        return Err(format!("one has the streams {a}, the other {b}"));
    }
    let rows = first.streams.iter().flat_map(|one| {
        let other = second
            .streams
            .iter()
            .find(|other| (&other.stream, &other.sink) == (&one.stream, &one.sink));
        other.map(|other| figures(one, other)).unwrap_or_default()
    });
    Ok(rows.collect())
}

fn figures(one: &StreamReport, other: &StreamReport) -> Vec<Row> {
    let row = |figure, claimed, value: &dyn Fn(&StreamReport) -> Option<f64>| {
        Row::new(one, figure, claimed, [value(one), value(other)])
    };
    let rows = [
        row("delivered %", true, &|s| Some(s.delivered_share() * 100.0)),
        row("latency p50 ms", true, &|s| s.latency_ms.p50),
        row("latency p99 ms", false, &|s| s.latency_ms.p99),
        row("PSNR Y dB", false, &|s| Some(s.psnr?.y_db)),
        row("PSNR Cb dB", false, &|s| Some(s.psnr?.cb_db)),
    ];
    rows.into_iter()
        .filter(|row| row.first.is_some() || row.second.is_some())
        .collect()
}

impl Row {
    fn new(
        of: &StreamReport,
        figure: &'static str,
        claimed: bool,
        [first, second]: [Option<f64>; 2],
    ) -> Self {
        let difference_percent = match (first, second) {
            // Zero and zero agree, though their quotient is undefined.
            (Some(first), Some(second)) if first.abs() + second.abs() <= 0.0 => Some(0.0),
            (Some(first), Some(second)) if first.abs() > 0.0 => {
                Some((second / first - 1.0) * 100.0)
            }
            _ => None,
        };
        Self {
            stream: of.stream.clone(),
            sink: of.sink.clone(),
            figure,
            first,
            second,
            difference_percent,
            beyond: difference_percent
                .is_none_or(|percent| percent.abs() > DIFFERENCE_PERCENT_MAX + ROUNDING),
            claimed,
        }
    }
}

fn describe(first: &Report, second: &Report, rows: &[Row], colour: Colour) -> String {
    let player = |report: &Report| format!("{:?}", report.by).to_lowercase();
    let (mut one, mut other) = (player(first), player(second));
    if one == other {
        one += " (first)";
        other += " (second)";
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{}  {} s\n",
        colour.paint(Paint::Bold, &first.world),
        first.seconds
    );
    let heading = ["stream", "sink", "figure", &one, &other, "difference", ""];
    let mut lines = vec![heading.map(String::from)];
    let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
    for row in rows {
        let difference = row
            .difference_percent
            .map_or("–".to_owned(), |percent| format!("{percent:+.1} %"));
        let mark = if row.beyond {
            format!("beyond {DIFFERENCE_PERCENT_MAX} %")
        } else {
            String::new()
        };
        lines.push([
            row.stream.clone(),
            row.sink.clone(),
            row.figure.to_owned(),
            number(row.first),
            number(row.second),
            difference,
            mark,
        ]);
    }
    text.push_str(&table::lay_out(&lines, colour));
    let count = rows.iter().filter(|row| row.beyond && row.claimed).count();
    let verdict = if count == 0 {
        colour.paint(Paint::Green, "delivered shares and median latencies agree")
    } else {
        colour.paint(
            Paint::Red,
            &format!("{count} delivered shares or median latencies differ"),
        )
    };
    let _ = writeln!(text, "\n{verdict} (within {DIFFERENCE_PERCENT_MAX} %)");
    text
}
