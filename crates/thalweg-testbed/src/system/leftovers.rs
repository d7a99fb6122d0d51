//! Removes what a run made, at its end or, if it was killed, at the start of the next.
//!
//! A run makes two kinds of things that outlive it: namespaces and one folder, both with its owner in
//! their names. Processes in such a namespace belong to the run, even if their parents have exited.
//! TUN devices and lines end with the process. Two runs may remove at once, so it is no error if
//! something is gone meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use super::owner::Owner;
use super::program;

/// The folder of the namespaces of `ip netns`.
const NAMESPACES: &str = "/run/netns";

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The process ids of its owners.
    pub owners: Vec<u32>,
    /// Number of namespaces.
    pub namespaces: usize,
    /// Number of processes that still ran in them.
    pub processes: usize,
    /// Number of folders.
    pub folders: usize,
}

/// Returns the path of a namespace.
pub fn namespace_path(name: &str) -> PathBuf {
    Path::new(NAMESPACES).join(name)
}

/// Removes what dead runs left.
///
/// Fails   something of theirs cannot be removed
pub fn remove_orphans() -> anyhow::Result<Removed> {
    remove(|owner| !owner.lives())
}

/// Removes everything of one owner.
///
/// Fails   something cannot be removed
pub fn remove_of(of: Owner) -> anyhow::Result<Removed> {
    remove(|owner| owner == of)
}

fn remove(mut is_owned: impl FnMut(Owner) -> bool) -> anyhow::Result<Removed> {
    let mut removed = Removed::default();
    let mut owned = |folder: &Path| -> Vec<(Owner, String)> {
        names(folder)
            .into_iter()
            .filter_map(|name| Some((Owner::of_name(&name)?.0, name)))
            .filter(|(owner, _)| is_owned(*owner))
            .collect()
    };
    let namespaces = owned(Path::new(NAMESPACES));
    let folders = owned(&std::env::temp_dir());
    for (owner, name) in namespaces {
        removed.owners.push(owner.pid);
        removed.processes += empty(&name);
        let deleted = program::run(Command::new("ip").args(["netns", "delete", &name]), "");
        if namespace_path(&name).exists() {
            deleted?;
        }
        removed.namespaces += 1;
    }
    for (owner, name) in folders {
        removed.owners.push(owner.pid);
        let folder = std::env::temp_dir().join(name);
        let deleted = fs::remove_dir_all(&folder);
        if folder.exists() {
            deleted.with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        removed.folders += 1;
    }
    removed.owners.sort_unstable();
    removed.owners.dedup();
    Ok(removed)
}

fn names(folder: &Path) -> Vec<String> {
    // A folder that does not exist is empty.
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Kills the processes in a namespace; returns how many.
fn empty(namespace: &str) -> usize {
    let list = program::run(Command::new("ip").args(["netns", "pids", namespace]), "");
    let pids = list.unwrap_or_default();
    let pids = pids.split_whitespace().filter_map(|pid| pid.parse().ok());
    // A process may have ended by itself meanwhile.
    pids.filter_map(Pid::from_raw)
        .filter(|pid| kill_process(*pid, Signal::KILL).is_ok())
        .count()
}

impl Removed {
    /// Returns what was removed as one sentence; `None` if nothing was.
    pub fn sentence(&self) -> Option<String> {
        if self.owners.is_empty() {
            return None;
        }
        let count = |number: usize, one: &str, many: &str| match number {
            1 => format!("1 {one}"),
            _ => format!("{number} {many}"),
        };
        let owners: Vec<_> = self.owners.iter().map(ToString::to_string).collect();
        Some(format!(
            "removed what a killed run left behind (process {}): {}, {}, {}",
            owners.join(", "),
            count(self.namespaces, "namespace", "namespaces"),
            count(self.processes, "process", "processes"),
            count(self.folders, "folder", "folders"),
        ))
    }
}
