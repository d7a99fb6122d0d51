//! Counts instructions by running this program again under valgrind's `callgrind`.
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

/// Returns the instructions of one round of a workload; the number of rounds is appended to its name.
pub(crate) fn instructions_each(workload: &str, rounds: u64) -> anyhow::Result<f64> {
    let once = total(workload, rounds)?;
    let twice = total(workload, 2 * rounds)?;
    Ok((twice as f64 - once as f64) / rounds as f64)
}

fn total(workload: &str, rounds: u64) -> anyhow::Result<u64> {
    let program = std::env::current_exe().context("this program's own path")?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
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

/// Parses the total from a line like `==123== Collected : 4567`.
fn collected(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("Collected"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    //! Proves that the total is found in callgrind's output.

    use super::collected;

    #[test]
    fn total_is_parsed() {
        let said = "==7== Events    : Ir\n==7== Collected : 1234567\n==7==\n";
        assert_eq!(collected(said), Some(1_234_567));
        assert_eq!(collected("==7== nothing\n"), None);
    }
}
