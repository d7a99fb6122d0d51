//! Limits the processor time of one program.
//!
//! A control group with a quota: one millisecond per period, with the period sized for the share, so
//! that each pause is short. Both cgroup hierarchies of Linux are tried. It needs root and a machine
//! with the CPU controller; otherwise it prints so once.
//!
//! *Sources.* Linux' Documentation/scheduler/sched-bwc.rst, Documentation/admin-guide/cgroup-v2.rst.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::Context as _;

use crate::progress;

/// The minimum quota of the kernel, µs.
const QUOTA_US_MIN: f64 = 1_000.0;

/// The maximum period of the kernel, µs.
const PERIOD_US_MAX: f64 = 1_000_000.0;

/// The roots of the old hierarchy and the new one.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"];

/// A limit on a program that ends when this is dropped or the program ends.
#[derive(Debug)]
pub(super) struct CpuLimit(PathBuf);

impl CpuLimit {
    /// Limits a program to this many cores.
    pub(super) fn on(program: u32, cores: f64) -> Option<Self> {
        static WARNED: Once = Once::new();
        let mut failed = None;
        for root in ROOTS {
            match Self::within(Path::new(root), program, cores) {
                Ok(limit) => return Some(limit),
                // Report the error of the hierarchy that was tried first.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        WARNED.call_once(|| {
            progress::clear();
            let why = failed.map_or_else(String::new, |error| format!(": {error:#}"));
            eprintln!(
                "thalweg-bench: a relay cannot be limited, so saturation is not measured{why}"
            );
        });
        None
    }

    fn within(root: &Path, program: u32, cores: f64) -> anyhow::Result<Self> {
        let folder = root.join(format!("thalweg-bench.{program}"));
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let limit = Self(folder);
        let write = |name: &str, value: String| {
            let path = limit.0.join(name);
            fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))
        };
        let (quota, period) = quota_us(cores);
        if limit.0.join("cpu.cfs_quota_us").is_file() {
            write("cpu.cfs_period_us", period.to_string())?;
            write("cpu.cfs_quota_us", quota.to_string())?;
        } else {
            write("cpu.max", format!("{quota} {period}"))?;
        }
        write("cgroup.procs", program.to_string())?;
        Ok(limit)
    }
}

impl Drop for CpuLimit {
    fn drop(&mut self) {
        // A group that still has a process stays; it is named after a process that ends soon.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Returns the quota and the period for this many cores, in microseconds.
pub(super) fn quota_us(cores: f64) -> (u64, u64) {
    let period = (QUOTA_US_MIN / cores).clamp(QUOTA_US_MIN, PERIOD_US_MAX);
    let quota = (period * cores).max(QUOTA_US_MIN);
    (quota.round() as u64, period.round() as u64)
}
