//! `thalweg simulate WORLD`: plays a world, or thousands of them, in virtual time; prints text or JSON.
//!
//! *The idea.* `thalweg_sim` plays and judges. This file supplies worlds and seeds, cores and a stopwatch,
//! and prints the result. A run that broke a law ends with the command line that replays it.

mod describe;
mod many;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use thalweg_base::time::Duration;
use thalweg_planner::model::World;
use thalweg_sim::film::Film;
use thalweg_sim::generate::{self, Length};
use thalweg_sim::play::{Ledgers, Options, films, play};
use thalweg_sim::report::Report;

use crate::exit::{Code, Failure, OrCode as _, Outcome};
use crate::input::{self, whole};
use crate::terminal::{self, Colour};

const EXAMPLES: &str = "\
Examples:
  thalweg simulate worlds/demo.toml
  thalweg simulate worlds/demo.toml --seed 7 --trace trace.txt
  thalweg simulate worlds/demo.toml --seeds 0..1000
  thalweg simulate worlds/demo.toml --json | jq '.streams[].delivered'
  thalweg simulate --generate --seeds 0..1000
  thalweg simulate --generate --long --seeds 0..50

Exits 5 if a law was broken (an ADU delivered twice, out of order or not accounted for, or
plaintext on an untrusted path), and prints the command that replays the seed.";

/// The name of a generated world.
const GENERATED: &str = "generated";

/// Simulate a world in virtual time: the nodes' own code over its links, with its events, from one seed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct Arguments {
    /// The world (TOML, or JSON by a name that ends in .json).
    #[arg(required_unless_present_any = ["generate", "long"], conflicts_with_all = ["generate", "long"])]
    world: Option<PathBuf>,

    /// Generate worlds, one for each seed: small networks with every kind of stream and failure.
    #[arg(long)]
    generate: bool,

    /// Generate worlds of 60 to 100 seconds rather than two to six: long enough for leases to be
    /// renewed and for late faults to show.
    #[arg(long, requires = "generate")]
    long: bool,

    /// The seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u64>(0..=u64::MAX), conflicts_with = "seeds")]
    seed: u64,

    /// All seeds from A up to but not including B, on all cores; stops at the first that breaks a law.
    #[arg(long, value_name = "A..B")]
    seeds: Option<Seeds>,

    /// How long to simulate, in the world's seconds, instead of the world's own length.
    #[arg(long, value_name = "S", value_parser = whole::<u64>(1..=86_400))]
    seconds: Option<u64>,

    /// Print one JSON object for each seed, one a line.
    #[arg(long)]
    json: bool,

    /// Write a trace of all events, one a line, to this file; `-` for standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "json"])]
    trace: Option<PathBuf>,

    /// Print how long a simulated second takes on this machine.
    #[arg(long)]
    timing: bool,
}

/// A range of seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    first: u64,
    end: u64,
}

/// A report with its cost.
#[derive(Clone, Debug, Serialize)]
struct Timed {
    #[serde(flatten)]
    report: Report,
    /// CPU milliseconds per simulated second; only with `--timing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ms_per_second: Option<f64>,
}

/// The source of the worlds.
enum Worlds<'a> {
    /// One world for all seeds.
    File {
        world: Box<World>,
        path: &'a Path,
        films: Vec<Option<Arc<Film>>>,
    },
    /// One world per seed.
    Generated {
        made: Length,
        /// The requested length, in place of the generated one.
        length: Option<Duration>,
    },
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a range of seeds: write it as 0..1000");
        let (first, end) = text.split_once("..").ok_or_else(bad)?;
        let number = |text: &str| text.parse().map_err(|_| bad());
        let (first, end) = (number(first)?, number(end)?);
        if first >= end {
            return Err(format!(
                "`{text}` is empty: the second number is not part of the range"
            ));
        }
        Ok(Self { first, end })
    }
}

/// Plays and prints.
pub fn run(arguments: &Arguments) -> Outcome {
    let worlds = Worlds::new(arguments)?;
    match arguments.seeds {
        Some(seeds) => many::run(&worlds, seeds, arguments),
        None => one(&worlds, arguments),
    }
}

fn one(worlds: &Worlds<'_>, arguments: &Arguments) -> Outcome {
    let (timed, text) = worlds.play(arguments.seed, arguments.trace.is_some(), arguments.timing)?;
    if let (Some(path), Some(text)) = (&arguments.trace, text) {
        write_trace(path, &text)?;
    }
    let is_trace_printed = arguments.trace.as_deref() == Some(Path::new("-"));
    if arguments.json {
        terminal::print(&(serde_json::to_string(&timed)? + "\n"))?;
    } else if !is_trace_printed {
        terminal::print(&describe::one(&timed, Colour::of_stdout()))?;
    }
    Ok(judge(&timed.report, worlds, arguments))
}

fn write_trace(path: &Path, text: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Ok(terminal::print(text)?);
    }
    std::fs::write(path, text)
        .with_context(|| format!("cannot write the trace to {}", path.display()))?;
    Ok(())
}

/// Prints which laws were broken and how to replay the run; returns the exit code.
fn judge(report: &Report, worlds: &Worlds<'_>, arguments: &Arguments) -> Code {
    if report.violations.is_empty() {
        return Code::Done;
    }
    for sentence in report.violations.iter().take(5) {
        terminal::print_error(sentence);
    }
    let more = report.violations.len().saturating_sub(5);
    let more = if more > 0 {
        format!(" (and {more} more)")
    } else {
        String::new()
    };
    terminal::print_error(&format!(
        "seed {} broke a law{more}; to replay it: {}",
        report.seed,
        worlds.replay(report.seed, arguments)
    ));
    Code::Broken
}

impl<'a> Worlds<'a> {
    fn new(arguments: &'a Arguments) -> Result<Self, Failure> {
        let length = arguments.seconds.map(Duration::from_secs);
        let Some(path) = &arguments.world else {
            let made = if arguments.long {
                Length::Minute
            } else {
                Length::Seconds
            };
            return Ok(Self::Generated { made, length });
        };
        let mut world = input::load_world(path)?;
        world.length = length.or(world.length);
        let films = films(&world)
            .with_context(|| format!("{} cannot be simulated", path.display()))
            .or_code(Code::BadInput)?;
        Ok(Self::File {
            world: Box::new(world),
            path,
            films,
        })
    }

    /// Plays the world of a seed; returns a trace if one was requested.
    fn play(
        &self,
        seed: u64,
        is_text_wanted: bool,
        is_timed: bool,
    ) -> Result<(Timed, Option<String>), Failure> {
        let options = Options {
            seed,
            is_text_wanted,
            ledgers: match self {
                Self::File { .. } => Ledgers::Mended,
                Self::Generated { .. } => Ledgers::Unbroken,
            },
            ..Options::default()
        };
        let start = Instant::now();
        let played = match self {
            Self::File { world, path, films } => {
                let name = path
                    .file_name()
                    .unwrap_or(path.as_os_str())
                    .to_string_lossy();
                play(world, &name, films, options)
            }
            Self::Generated { made, length } => {
                let mut world = generate::world(seed, *made);
                world.length = length.or(world.length);
                let films = vec![None; world.streams.len()];
                play(&world, GENERATED, &films, options)
            }
        };
        let elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
        let played = played.context("the pictures cannot be compared")?;
        let seconds = played.ended.as_secs_f64();
        let timed = Timed {
            report: played.report,
            cpu_ms_per_second: is_timed.then(|| elapsed_ms / seconds),
        };
        Ok((timed, played.text))
    }

    /// Returns the command line that replays a seed with its trace.
    fn replay(&self, seed: u64, arguments: &Arguments) -> String {
        let world = match self {
            Self::File { path, .. } => path.display().to_string(),
            Self::Generated { made, .. } => made.words().to_owned(),
        };
        let seconds = arguments
            .seconds
            .map(|seconds| format!(" --seconds {seconds}"))
            .unwrap_or_default();
        format!("thalweg simulate {world} --seed {seed}{seconds} --trace trace.txt")
    }
}
