//! The owner of a namespace or a folder: a process, by its id and its start time.
//!
//! Process ids are reused, start times are not: together they identify one process of this boot. They
//! are in the name of everything that a run makes, `thalweg-ID-STARTED-…`, so two runs never collide,
//! and `/proc` alone shows whether an owner still lives.
//!
//! *Sources.* `proc(5)`, `/proc/pid/stat`.

use std::fmt;
use std::fs;

/// Prefix of every name.
pub const PREFIX: &str = "thalweg";

/// One process of this boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Its id.
    pub pid: u32,
    /// Its start time, in the kernel's ticks.
    started: u64,
}

impl Owner {
    /// Returns this process.
    pub fn this() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            started: started(pid).expect("this process runs, and /proc is there"),
        }
    }

    /// Returns the owner at the beginning of a name, and the rest of the name.
    pub fn of_name(name: &str) -> Option<(Self, &str)> {
        let rest = name.strip_prefix(PREFIX)?.strip_prefix('-')?;
        let (pid, rest) = rest.split_once('-')?;
        let (started, rest) = rest.split_once('-').unwrap_or((rest, ""));
        Some((
            Self {
                pid: pid.parse().ok()?,
                started: started.parse().ok()?,
            },
            rest,
        ))
    }

    /// Returns whether the process still runs.
    pub fn lives(self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}-{}-{}", self.pid, self.started)
    }
}

fn started(pid: u32) -> Option<u64> {
    parse_start_time(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns the 22nd field; the second, the program's name, may contain spaces and parentheses.
fn parse_start_time(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    // A zombie does not count as running.
    let mut fields = fields.split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests;
