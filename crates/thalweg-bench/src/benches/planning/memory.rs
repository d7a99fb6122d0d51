//! PL-SCALE's memory: the growth of a process while it plans.
//!
//! A separate process builds the network, resets the kernel's record of its peak resident size, plans
//! once, and prints the difference between the new peak and the size before. That counts all memory
//! that planning needs, in whole pages; memory that the allocator still holds from building the network
//! is reused and not counted. Linux only; elsewhere the figure is omitted.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, ensure};
use thalweg_planner::planner::Planner;

use super::scale::{ID, KINDS, world};
use super::timed;
use crate::Settings;
use crate::report::{Figure, Report};
use crate::sample::Summary;

/// Measures networks of each size, each world in a separate process.
pub(super) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if fs::metadata("/proc/self/clear_refs").is_err() {
        return Ok(());
    }
    for kind in KINDS {
        for nodes in [100, 1_000, 10_000] {
            let mut megabytes = Vec::new();
            for seed in 0..settings.samples.min(5) as u64 {
                megabytes.push(of_one(kind, nodes, seed)?);
            }
            let metric = format!("plan_peak_mb_{nodes}.{kind}");
            report.add(&Figure::new(ID, metric, "MB", Summary::of(megabytes)))?;
        }
    }
    Ok(())
}

fn of_one(kind: &str, nodes: usize, seed: u64) -> anyhow::Result<f64> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let workload = format!("plan-memory:{kind}:{nodes}:{seed}");
    let output = Command::new(program)
        .args(["--workload", &workload])
        .output()
        .context("cannot run this program as a child")?;
    ensure!(output.status.success(), "{workload} failed");
    let text = String::from_utf8_lossy(&output.stdout);
    let kilobytes: f64 = text.trim().parse().context("it prints a number")?;
    Ok(kilobytes * 1024.0 / 1e6)
}

/// Plans one network and prints the growth of the process in kB.
pub(crate) fn workload(kind: &str, nodes: usize, seed: u64) -> anyhow::Result<()> {
    let snapshot = world(seed, kind, nodes, 1)?;
    // 5 resets the peak resident size (proc_pid_clear_refs(5)).
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the highest resident size")?;
    let before = highest_kb()?;
    if let Some(snapshot) = snapshot {
        timed(&snapshot, Planner::Exact);
    }
    println!("{}", highest_kb()?.saturating_sub(before));
    Ok(())
}

/// Returns the peak resident size so far in kB.
pub(crate) fn highest_kb() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("cannot read the status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .context("it has no VmHWM")?
        .parse()
        .context("VmHWM is a number")
}
