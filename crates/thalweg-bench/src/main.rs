//! Runs Thalweg's measurements: every published figure beside its baseline, in one run.
//!
//! A benchmark is a file in `benches/` with an id. Both sides of a ratio alternate within one run, so
//! that the machine's load affects both; every figure has its number of samples and their spread. Where
//! it matters, instructions are counted too, which do not depend on the load. The program asserts no
//! bounds; readers and gates do.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
#[cfg(feature = "nodes")]
use thalweg_node::program::Allocator;
#[cfg(feature = "nodes")]
use thalweg_testbed::system::inside;

mod benches;
mod callgrind;
mod compare;
mod crowd;
mod feed;
mod figures;
mod hot;
mod nearest;
#[cfg(feature = "nodes")]
mod peers;
mod progress;
mod report;
mod sample;

use benches::{BENCHES, Bench};
use compare::Verdict;
use report::{Figure, Report};

/// Nodes here allocate as the daemon does.
#[cfg(feature = "nodes")]
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// The exit code of a comparison in which a metric got worse beyond both spreads.
const WORSE: u8 = 3;

/// Measures Thalweg, each figure beside its baseline, both in one run.
#[derive(Parser)]
#[command(
    name = "thalweg-bench",
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  cargo xtask bench --list
  cargo xtask bench BM-D1
  cargo xtask bench lift --json > lift.jsonl
  cargo xtask bench lift --compare lift.jsonl
  cargo xtask bench --compare old.jsonl --with new.jsonl
  cargo xtask bench IC
  cargo xtask bench delivery --quick
  cargo xtask bench figures lift.jsonl --out figures
  cargo xtask bench relay --install-peers
  cargo xtask bench relay --peers socat,zenohd --json

Every value is a median; `spread` is the distance of the quartiles in the unit of the value, `n` the number of samples.
Figures are reported from builds by the profile `dist` only, which is what is shipped; --quick runs in any.

Exit codes: 0 measured; 1 a measurement failed; 2 the command line or a file of figures was wrong; 3 in a comparison a
metric is worse by more than either run's spread."
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent command-line flags"
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Subcommand>,
    /// Ids (BM-D1), groups (lift), or `all`; with --compare and none, those in the earlier run.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Print the ids, their groups, what they measure and their metrics.
    #[arg(long)]
    list: bool,
    /// Print one JSON object per line instead of a table.
    #[arg(long)]
    json: bool,
    /// Take fewer samples: checks that it runs, not for publishing.
    #[arg(long)]
    quick: bool,
    /// Count instructions only (needs valgrind): of the named benchmarks, or of all hot paths.
    #[arg(long)]
    instructions: bool,
    /// Compare with an earlier run's --json, per metric; beside --json the comparison goes to standard error.
    #[arg(long, value_name = "OLD.json")]
    compare: Option<PathBuf>,
    /// Measure nothing, and compare with this run's --json.
    #[arg(
        long,
        value_name = "NEW.json",
        requires = "compare",
        conflicts_with = "ids"
    )]
    with: Option<PathBuf>,
    /// Measure only these peers' relays; --list-peers lists the names.
    #[cfg(feature = "nodes")]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    peers: Vec<String>,
    /// Of FAN-OUT, measure only these sides, such as `thalweg_quic`.
    #[cfg(feature = "nodes")]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    sides: Vec<String>,
    /// Of FAN-OUT, measure only with these numbers of sinks.
    #[cfg(feature = "nodes")]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    sinks: Vec<u32>,
    /// Print the peers' relays: the installed version, or what is missing and how to install it.
    #[cfg(feature = "nodes")]
    #[arg(long)]
    list_peers: bool,
    /// Install missing peers first, into the cache folder; two of them take 10 to 15 minutes each.
    #[cfg(feature = "nodes")]
    #[arg(long)]
    install_peers: bool,
    /// Run a fixed workload and report nothing, for `callgrind` or a profiler.
    #[arg(long, value_name = "WORKLOAD", hide = true)]
    workload: Option<String>,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    Figures(figures::Arguments),
    /// Runs another program inside a namespace.
    #[cfg(feature = "nodes")]
    #[command(hide = true, name = inside::WORD)]
    Inside {
        #[arg(long)]
        namespace: PathBuf,
        #[arg(long)]
        parent: u32,
        #[arg(last = true)]
        words: Vec<String>,
    },
    /// Runs one end of a line.
    #[cfg(feature = "nodes")]
    #[command(hide = true, name = benches::live::end::WORD)]
    LineEnd(benches::live::end::End),
}

/// How benchmarks are run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Samples of each figure.
    pub(crate) samples: usize,
    /// Whether to check only that everything runs.
    pub(crate) is_quick: bool,
    /// Whether to count instructions and take no timings.
    pub(crate) instructions_only: bool,
    /// Peers' relays to measure beside ours.
    #[cfg(feature = "nodes")]
    pub(crate) peers: Vec<&'static peers::Peer>,
    /// The sides to measure where a benchmark has many; none means all.
    #[cfg(feature = "nodes")]
    pub(crate) sides: Vec<String>,
    /// The numbers of sinks to measure; none means the benchmark's own.
    #[cfg(feature = "nodes")]
    pub(crate) sinks: Vec<u32>,
}

/// Why the program fails.
enum Failure {
    /// The command line, or a file that it names: exit code 2.
    Misuse(String),
    /// A measurement.
    Broken(anyhow::Error),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = dispatch(&arguments);
    #[cfg(feature = "nodes")]
    benches::live::wait_for_removal();
    progress::clear();
    match done {
        Ok(code) => code,
        Err(Failure::Misuse(sentence)) => {
            eprintln!("thalweg-bench: {sentence}");
            ExitCode::from(2)
        }
        Err(Failure::Broken(error)) if report::is_unread(&error) => ExitCode::SUCCESS,
        Err(Failure::Broken(error)) => {
            eprintln!("thalweg-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if let Some(Subcommand::Figures(figures)) = &arguments.command {
        figures::run(figures).map_err(Failure::Broken)?;
        return Ok(ExitCode::SUCCESS);
    }
    #[cfg(feature = "nodes")]
    match &arguments.command {
        Some(Subcommand::Inside {
            namespace,
            parent,
            words,
        }) => {
            let error = inside::exec_program(namespace, *parent, words);
            return Err(Failure::Broken(error));
        }
        Some(Subcommand::LineEnd(end)) => {
            benches::live::end::run(end).map_err(Failure::Broken)?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    if let Some(workload) = &arguments.workload {
        benches::run_workload(workload).map_err(Failure::Broken)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.list {
        report::print(&benches::list());
        return Ok(ExitCode::SUCCESS);
    }
    #[cfg(feature = "nodes")]
    if is_about_peers_only(arguments)? {
        return Ok(ExitCode::SUCCESS);
    }
    let old = arguments.compare.as_deref().map(report::read);
    let old = old.transpose().map_err(misuse)?;
    let new = if let Some(path) = &arguments.with {
        report::read(path).map_err(misuse)?
    } else {
        let benches = chosen(arguments, old.as_deref())?;
        check_profile(arguments)?;
        run(&benches, arguments).map_err(Failure::Broken)?
    };
    Ok(old.map_or(ExitCode::SUCCESS, |old| {
        show_changes(&old, &new, arguments.json)
    }))
}

/// Installs and lists peers' relays as requested, and returns whether that was all.
#[cfg(feature = "nodes")]
fn is_about_peers_only(arguments: &Arguments) -> Result<bool, Failure> {
    let peers = peers::named(&arguments.peers).map_err(misuse)?;
    if arguments.install_peers {
        peers::install(&peers).map_err(Failure::Broken)?;
    }
    let is_all = arguments.list_peers || (arguments.install_peers && arguments.ids.is_empty());
    if is_all {
        report::print(&peers::list(&peers));
    }
    Ok(is_all)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "used as a function from an error"
)]
fn misuse(error: anyhow::Error) -> Failure {
    Failure::Misuse(format!("{error:#}"))
}

/// Returns the benchmarks that the words mean, or a sentence about the first unknown word.
fn chosen(arguments: &Arguments, old: Option<&[Figure]>) -> Result<Vec<&'static Bench>, Failure> {
    let words: Vec<&str> = match (&arguments.ids[..], old) {
        ([], Some(old)) => old.iter().map(|figure| &*figure.id).collect(),
        ([], None) if arguments.instructions => vec![benches::INSTRUCTIONS],
        (words, _) => words.iter().map(String::as_str).collect(),
    };
    if words.is_empty() {
        let sentence = "no benchmark named: give an id or a group, or `all`; --list shows them";
        return Err(Failure::Misuse(sentence.to_owned()));
    }
    for word in &words {
        if !BENCHES.iter().any(|bench| bench.is_named_by(word)) {
            return Err(Failure::Misuse(unknown(word)));
        }
    }
    let is_meant = |bench: &&Bench| words.iter().any(|word| bench.is_named_by(word));
    Ok(BENCHES.iter().filter(is_meant).collect())
}

fn unknown(word: &str) -> String {
    let names = BENCHES.iter().flat_map(|bench| [bench.id, bench.group]);
    let near: Vec<String> = nearest::nearest(word, names)
        .into_iter()
        .map(|name| format!("`{name}`"))
        .collect();
    let meant = if near.is_empty() {
        String::new()
    } else {
        format!(" (nearest: {})", near.join(", "))
    };
    format!("there is no benchmark or group `{word}`{meant}; --list shows them")
}

/// Refuses to report figures of another build than what is shipped; with `--quick` they are shown,
/// and said to be of another.
fn check_profile(arguments: &Arguments) -> Result<(), Failure> {
    let (profile, reported) = (report::PROFILE, report::REPORTED);
    if profile == reported {
        return Ok(());
    }
    if arguments.quick || arguments.instructions {
        eprintln!(
            "thalweg-bench: built by the profile `{profile}`: this shows that it runs; figures to report come from `{reported}` (cargo xtask bench)"
        );
        return Ok(());
    }
    Err(Failure::Misuse(format!(
        "built by the profile `{profile}`, and figures are reported from `{reported}` only: run `cargo xtask bench ID`, or add --quick to see that it runs"
    )))
}

fn run(benches: &[&Bench], arguments: &Arguments) -> anyhow::Result<Vec<Figure>> {
    let settings = Settings {
        samples: if arguments.quick { 5 } else { 201 },
        is_quick: arguments.quick,
        instructions_only: arguments.instructions,
        #[cfg(feature = "nodes")]
        peers: peers::named(&arguments.peers)?,
        #[cfg(feature = "nodes")]
        sides: arguments.sides.clone(),
        #[cfg(feature = "nodes")]
        sinks: arguments.sinks.clone(),
    };
    let mut report = Report::new(arguments.json);
    for bench in benches {
        progress::show(format_args!("{}: {}", bench.id, bench.about));
        (bench.run)(&settings, &mut report)?;
    }
    Ok(report.into_figures())
}

fn show_changes(old: &[Figure], new: &[Figure], is_json: bool) -> ExitCode {
    let changes = compare::compare(old, new);
    let text = compare::text(&changes);
    // With --json standard output is for the figures.
    if is_json {
        eprint!("{text}");
    } else {
        report::print(&format!("\n{text}"));
    }
    if changes
        .iter()
        .any(|change| change.verdict == Verdict::Worse)
    {
        return ExitCode::from(WORSE);
    }
    ExitCode::SUCCESS
}
