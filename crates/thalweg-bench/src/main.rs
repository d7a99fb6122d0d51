//! Runs Thalweg's measurements: every figure we publish, beside its baseline, in one run.
//!
//! *The idea.* A benchmark is a file in `benches/` with an id. Both sides of a ratio alternate within one run, so that
//! the machine's mood meets both; every figure says how many samples it is the median of and how far they spread. Where
//! it matters, instructions are counted too, for they do not depend on the mood at all.
//!
//! *What it does not do.* It asserts nothing: what is fast enough is for a reader or a gate to say.

use std::process::ExitCode;

use clap::Parser;

mod benches;
mod callgrind;
mod report;
mod sample;

use benches::{BENCHES, Bench};
use report::Report;

/// Measures Thalweg, each figure beside its baseline, both in one run.
#[derive(Parser)]
#[command(
    name = "thalweg-bench",
    after_help = "Examples:
  cargo run --release -p thalweg-bench -- --list
  cargo run --release -p thalweg-bench -- BM-D1
  cargo run --release -p thalweg-bench -- BM-D1 --json > lift.jsonl
  cargo run --release -p thalweg-bench -- BM-D1 --instructions
  cargo run --release -p thalweg-bench -- lift --quick

Every value is a median; `spread` is the distance of the quartiles in the value's own unit, `n` the number of samples.
Build with --release, or the figures mean nothing."
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line, and none excludes another"
)]
struct Arguments {
    /// Ids (BM-D1), groups (lift), or `all`.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Print the ids, their groups and what they measure.
    #[arg(long)]
    list: bool,
    /// Print one JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
    /// Take fewer samples: to see that it runs, not what it gives.
    #[arg(long)]
    quick: bool,
    /// Count instructions only (needs valgrind); without this flag they are counted beside the timings.
    #[arg(long)]
    instructions: bool,
    /// Run a fixed workload and report nothing: what `callgrind` or a profiler is let loose on.
    #[arg(long, value_name = "WORKLOAD", hide = true)]
    workload: Option<String>,
}

/// How a benchmark is to be run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Samples of each figure.
    pub(crate) samples: usize,
    /// Count instructions and take no timings.
    pub(crate) instructions_only: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(workload) = &arguments.workload {
        return status(benches::run_workload(workload));
    }
    if arguments.list {
        for bench in BENCHES {
            println!("{:<8} {:<10} {}", bench.id, bench.group, bench.about);
        }
        return ExitCode::SUCCESS;
    }
    match chosen(&arguments.ids) {
        Ok(benches) => status(run(&benches, &arguments)),
        Err(sentence) => {
            eprintln!("thalweg-bench: {sentence}");
            ExitCode::from(2)
        }
    }
}

fn status(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thalweg-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the benchmarks that the words mean, or a sentence about the first that means none.
fn chosen(words: &[String]) -> Result<Vec<&'static Bench>, String> {
    if words.is_empty() {
        return Err(
            "which benchmark? name an id or a group, or `all`; --list shows them".to_owned(),
        );
    }
    for word in words {
        if !BENCHES.iter().any(|bench| bench.is_meant_by(word)) {
            return Err(format!(
                "no benchmark or group is called `{word}`; --list shows them"
            ));
        }
    }
    let is_meant = |bench: &&Bench| words.iter().any(|word| bench.is_meant_by(word));
    Ok(BENCHES.iter().filter(is_meant).collect())
}

fn run(benches: &[&Bench], arguments: &Arguments) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        eprintln!(
            "thalweg-bench: this is a debug build; figures of a release build are what counts"
        );
    }
    let settings = Settings {
        samples: if arguments.quick { 5 } else { 201 },
        instructions_only: arguments.instructions,
    };
    let mut report = Report::new(arguments.json);
    for bench in benches {
        (bench.run)(&settings, &mut report)?;
    }
    Ok(())
}
