//! Counts instructions and cache lines by running this program again under valgrind's `callgrind`.
//!
//! A workload runs twice, with N and with 2·N rounds; the difference is the rounds alone, without
//! start-up, and is reproducible.

use std::process::Command;

use anyhow::{Context as _, bail};

/// Returns whether valgrind can be run here.
pub(crate) fn is_installed() -> bool {
    Command::new("valgrind")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// The message where instructions cannot be counted.
pub(crate) const MISSING: &str = "counting instructions needs valgrind: `apt-get install valgrind`";

/// The simulated caches, whatever this machine has.
const CACHES: [&str; 4] = [
    "--cache-sim=yes",
    "--I1=32768,8,64",
    "--D1=32768,8,64",
    "--LL=8388608,16,64",
];

/// The first of the line's numbers: instructions.
const INSTRUCTIONS: usize = 0;

/// The numbers with simulated caches: data that was read, or written, and not in the first cache.
const READ_MISSES: usize = 4;
const WRITE_MISSES: usize = 5;

/// Returns the instructions of one round of a workload; the number of rounds is appended to its name.
pub(crate) fn instructions_each(workload: &str, rounds: u64) -> anyhow::Result<f64> {
    each(rounds, |rounds| {
        let counts = counts(workload, rounds, &[])?;
        counts.get(INSTRUCTIONS).copied().context("no total")
    })
}

/// Returns the cache lines of one round that the first cache of data does not have. Addresses differ
/// from build to build, and with them the count by some per cent.
pub(crate) fn lines_each(workload: &str, rounds: u64) -> anyhow::Result<f64> {
    each(rounds, |rounds| {
        let counts = counts(workload, rounds, &CACHES)?;
        let of = |at: usize| counts.get(at).copied().context("no misses");
        Ok(of(READ_MISSES)? + of(WRITE_MISSES)?)
    })
}

/// Returns what one round adds to a total.
fn each(rounds: u64, total: impl Fn(u64) -> anyhow::Result<u64>) -> anyhow::Result<f64> {
    let (once, twice) = (total(rounds)?, total(2 * rounds)?);
    Ok((twice as f64 - once as f64) / rounds as f64)
}

/// Returns callgrind's totals of a workload.
fn counts(workload: &str, rounds: u64, arguments: &[&str]) -> anyhow::Result<Vec<u64>> {
    let program = std::env::current_exe().context("this program's own path")?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(arguments)
        .arg(program)
        .args(["--workload", &format!("{workload}:{rounds}")])
        .output()
        .context("running valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("valgrind failed: {said}");
    }
    collected(&said).with_context(|| format!("no total in callgrind's output: {said}"))
}

/// Parses the totals from a line like `==123== Collected : 4567 89`.
fn collected(said: &str) -> Option<Vec<u64>> {
    let line = said.lines().find(|line| line.contains("Collected"))?;
    let numbers = line.rsplit(':').next()?.split_whitespace();
    numbers.map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    //! Proves that the total is found in callgrind's output.

    use super::collected;

    #[test]
    fn total_is_parsed() {
        let said = "==7== Events    : Ir\n==7== Collected : 1234567\n==7==\n";
        assert_eq!(collected(said), Some(vec![1_234_567]));
        let cached = "==7== Collected : 9 8 7 6 5 4\n";
        assert_eq!(collected(cached), Some(vec![9, 8, 7, 6, 5, 4]));
        assert_eq!(collected("==7== nothing\n"), None);
    }
}
