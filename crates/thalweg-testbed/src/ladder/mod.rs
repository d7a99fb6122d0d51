//! The ladder: every world of a folder on the testbed and in the simulator, side by side.
//!
//! One command writes both reports of each world as JSON, and prints one Markdown table with date and
//! machine, so the table of docs/guides/testbed.md is generated. Results vary with the seed, so both run a
//! world several times, and medians are compared. They agree where delivered share and median latency
//! are within [`AGREEMENT_PERCENT`] of each other; where not, one of them is wrong, or the difference
//! is explained. The simulation is `thalweg simulate`; without that command its columns stay empty.

mod machine;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use thalweg_sim::report::{Player, Report};

pub use machine::machine;
pub use table::{AGREEMENT_PERCENT, table};

use crate::system::program;

/// How long the simulator may take for a world.
const SIMULATE_MAX: Duration = Duration::from_mins(2);

/// Number of seeds in the simulator: it is fast, and results vary.
const SEEDS: u64 = 21;

/// The reports of one world, one per seed.
#[derive(Clone, Debug, Default)]
pub struct Rung {
    /// The testbed's reports.
    pub testbed: Vec<Report>,
    /// The simulator's reports; empty if the program has no simulator.
    pub simulator: Vec<Report>,
}

/// Returns the worlds of a folder, by name.
///
/// Fails   there is none
pub fn worlds(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let shown = folder.display();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {shown}"))?;
    let mut worlds: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|found| found == "toml"))
        .collect();
    worlds.sort();
    anyhow::ensure!(!worlds.is_empty(), "{shown} holds no world");
    Ok(worlds)
}

/// Simulates a world for consecutive seeds; returns nothing if the program has no simulator.
///
/// Fails   the simulator fails, or its output cannot be parsed
pub async fn simulate(thalweg: &Path, world: &Path, seed: u64) -> anyhow::Result<Vec<Report>> {
    let mut help = Command::new(thalweg);
    if program::run(help.args(["simulate", "--help"]), "").is_err() {
        return Ok(Vec::new());
    }
    let mut command = Command::new(thalweg);
    command.arg("simulate").arg(world).args([
        "--json",
        "--seeds",
        &format!("{seed}..{}", seed + SEEDS),
    ]);
    let output = program::run_within(command, SIMULATE_MAX).await?;
    let reports = serde_json::Deserializer::from_str(&output).into_iter();
    reports
        .collect::<Result<_, _>>()
        .context("the simulator's reports cannot be read")
}

/// Writes a report into a folder, as `NAME.BY.SEED.json`.
pub fn keep(folder: &Path, report: &Report) -> anyhow::Result<()> {
    let name = stem(report);
    let by = match report.by {
        Player::Simulator => "simulator",
        Player::Testbed => "testbed",
    };
    let path = folder.join(format!("{name}.{by}.{}.json", report.seed));
    let json = serde_json::to_string_pretty(report).context("a report is text and numbers")?;
    fs::write(&path, json + "\n").with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the name of a report's world without the file's extension.
fn stem(report: &Report) -> &str {
    report.world.strip_suffix(".toml").unwrap_or(&report.world)
}

#[cfg(test)]
mod tests;
