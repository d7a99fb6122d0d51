//! The date and the machine of a measurement, in one line.

use std::fs;
use std::process::Command;

use crate::system::program;

/// Returns date, processor, number of cores and kernel; unknown parts are left out.
pub fn machine() -> String {
    let mut parts = Vec::new();
    if let Ok(date) = program::run(Command::new("date").args(["--utc", "+%F"]), "") {
        parts.push(date.trim().to_owned());
    }
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = processor
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    if let Some((_, name)) = name {
        parts.push(name.trim().to_owned());
    }
    if let Ok(cores) = std::thread::available_parallelism() {
        parts.push(format!("{cores} cores"));
    }
    if let Ok(kernel) = fs::read_to_string("/proc/sys/kernel/osrelease") {
        parts.push(format!("Linux {}", kernel.trim()));
    }
    parts.join(", ")
}
