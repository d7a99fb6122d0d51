//! Less of the processor for one program.
//!
//! *The idea.* A control group with a quota: a millisecond in as long as makes the share, so that what is held stumbles by
//! little each time. Both hierarchies of Linux are known; which one the machine has is tried.
//!
//! *What it does not do.* It needs root and a machine that has the controller; elsewhere that is said once.
//!
//! *Sources.* Linux' Documentation/scheduler/sched-bwc.rst, Documentation/admin-guide/cgroup-v2.rst.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::Context as _;

use crate::progress;

/// The least quota that the kernel takes.
const QUOTA_US_MIN: f64 = 1_000.0;

/// The longest period that it takes.
const PERIOD_US_MAX: f64 = 1_000_000.0;

/// Where the old hierarchy is, and the new one.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"];

/// A program that is held as long as this lives, and goes free when it is dropped or ends.
#[derive(Debug)]
pub(super) struct Hold(PathBuf);

impl Hold {
    /// Holds a program to so many cores.
    pub(super) fn on(program: u32, cores: f64) -> Option<Self> {
        static SAID: Once = Once::new();
        let mut failed = None;
        for root in ROOTS {
            match Self::within(Path::new(root), program, cores) {
                Ok(hold) => return Some(hold),
                // What the first says is of the hierarchy that is looked for first.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        SAID.call_once(|| {
            progress::clear();
            let why = failed.map_or_else(String::new, |error| format!(": {error:#}"));
            eprintln!("thalweg-bench: no relay can be held, so nothing is told of saturation{why}");
        });
        None
    }

    fn within(root: &Path, program: u32, cores: f64) -> anyhow::Result<Self> {
        let folder = root.join(format!("thalweg-bench.{program}"));
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let hold = Self(folder);
        let write = |name: &str, value: String| {
            let path = hold.0.join(name);
            fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))
        };
        let (quota, period) = quota_us(cores);
        if hold.0.join("cpu.cfs_quota_us").is_file() {
            write("cpu.cfs_period_us", period.to_string())?;
            write("cpu.cfs_quota_us", quota.to_string())?;
        } else {
            write("cpu.max", format!("{quota} {period}"))?;
        }
        write("cgroup.procs", program.to_string())?;
        Ok(hold)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // A group with somebody in it stays; it has the number of a program that ends soon.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Returns the quota and the period that make so many cores, in microseconds.
pub(super) fn quota_us(cores: f64) -> (u64, u64) {
    let period = (QUOTA_US_MIN / cores).clamp(QUOTA_US_MIN, PERIOD_US_MAX);
    let quota = (period * cores).max(QUOTA_US_MIN);
    (quota.round() as u64, period.round() as u64)
}
