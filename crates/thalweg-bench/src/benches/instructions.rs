//! IC: the instructions of each hot path, counted by `callgrind`.
//!
//! A count is independent of the machine's load, so a change of 2 % is a change of the code; `cargo
//! xtask instructions` compares the counts with a committed file. Branches and memory are not covered:
//! an instruction is not a nanosecond. Of a relay with many sinks, the cache lines are counted that a
//! first cache of 32 KiB does not have.

use anyhow::Context as _;

use crate::hot::{Counted, HOT_PATHS, HotPath};
use crate::report::{Figure, Report};
use crate::sample::Summary;
use crate::{Settings, callgrind, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "IC";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &["instructions", "instructions_with_c", "cache_lines"];

/// Counts every path.
///
/// Fails   without valgrind, as there is nothing else to report
pub(crate) fn run(_: &Settings, report: &mut Report) -> anyhow::Result<()> {
    anyhow::ensure!(callgrind::is_installed(), callgrind::MISSING);
    for path in HOT_PATHS {
        progress::show(format_args!("{ID}: {}", path.name));
        let workload = format!("hot:{}", path.name);
        let count = match path.counted {
            Counted::Rust | Counted::WithC => callgrind::instructions_each(&workload, path.rounds),
            Counted::Lines => callgrind::lines_each(&workload, path.rounds),
        };
        let count = count.with_context(|| path.name)?;
        let (kind, unit) = match path.counted {
            Counted::Rust => (METRICS[0], "instructions"),
            Counted::WithC => (METRICS[1], "instructions"),
            Counted::Lines => (METRICS[2], "lines"),
        };
        let metric = format!("{kind}.{}", path.name);
        let figure = Figure::new(ID, metric, unit, Summary::exact(count));
        report.add(&figure)?;
    }
    Ok(())
}

/// Runs one path and nothing else.
pub(crate) fn workload(name: &str, rounds: u64) -> anyhow::Result<()> {
    let is_meant = |path: &&HotPath| path.name == name;
    let path = HOT_PATHS.iter().find(is_meant);
    let path = path.with_context(|| format!("there is no hot path `{name}`"))?;
    (path.run)(rounds);
    Ok(())
}
