//! Checks whether a testbed can be built on this machine, and says in one sentence what is missing.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::system::tun;

/// A program that the testbed runs, and its Debian package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// The package.
    pub package: &'static str,
}

/// The tools of every run.
pub const TO_RUN: &[Tool] = &[Tool {
    name: "ip",
    package: "iproute2",
}];

/// The tools of a run that also measures TCP's goodput.
pub const TO_MEASURE_TCP: &[Tool] = &[
    TO_RUN[0],
    Tool {
        name: "iperf3",
        package: "iperf3",
    },
];

/// The tools of a calibration.
pub const TO_CALIBRATE: &[Tool] = &[
    TO_MEASURE_TCP[0],
    TO_MEASURE_TCP[1],
    Tool {
        name: "ping",
        package: "iputils-ping",
    },
    Tool {
        name: "chrt",
        package: "util-linux",
    },
];

/// This machine, or this user, cannot build a testbed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Missing(String);

/// Returns `Ok` if nothing is missing.
///
/// Fails   with one sentence that names everything missing and what to do
pub fn check(tools: &[Tool]) -> Result<(), Missing> {
    let absent: Vec<Tool> = tools
        .iter()
        .copied()
        .filter(|tool| find(tool.name).is_none())
        .collect();
    let root = rustix::process::geteuid().is_root();
    match sentence(root, Path::new(tun::CLONE_DEVICE).exists(), &absent) {
        None => Ok(()),
        Some(sentence) => Err(Missing(sentence)),
    }
}

fn sentence(root: bool, tun: bool, absent: &[Tool]) -> Option<String> {
    let mut parts = Vec::new();
    if !root {
        parts.push("creating network namespaces needs root: run the command with sudo".to_owned());
    }
    if !tun {
        parts.push(format!(
            "{} is missing: `modprobe tun`, or give the container the device",
            tun::CLONE_DEVICE
        ));
    }
    if !absent.is_empty() {
        let names: Vec<_> = absent
            .iter()
            .map(|tool| format!("`{}`", tool.name))
            .collect();
        let mut install = String::from("apt-get install");
        for tool in absent {
            let _ = write!(install, " {}", tool.package);
        }
        parts.push(format!(
            "{} not on the PATH: {install}",
            names.join(" and ")
        ));
    }
    (!parts.is_empty()).then(|| format!("the testbed cannot be built here: {}", parts.join("; ")))
}

/// Returns the path of a program.
pub fn find(name: &str) -> Option<PathBuf> {
    // A user's PATH may lack the folders of system programs.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(usual);
    folders.find_map(|folder| Some(folder.join(name)).filter(|file| file.is_file()))
}

#[cfg(test)]
mod tests;
