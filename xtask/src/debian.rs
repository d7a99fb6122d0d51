//! Installs missing Debian packages that checks need.
//!
//! Run as root on Debian it installs them with `apt-get` and says so; elsewhere the caller reports what
//! is missing. It never asks for a password and installs nothing that is already there.

use std::env;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, place};

/// Installs the missing programs, given with their packages; `purpose` is for the message.
pub fn install(purpose: &str, programs: &[(&str, &str)]) {
    let missing: Vec<&str> = programs
        .iter()
        .filter(|(program, _)| !is_there(program))
        .map(|(_, package)| *package)
        .collect();
    // The owner of a process's directory in /proc is its effective user.
    let is_root = Path::new("/proc/self")
        .metadata()
        .is_ok_and(|this| this.uid() == 0);
    if missing.is_empty() || !is_root || !is_there("apt-get") {
        return;
    }
    println!(
        "installing {} from Debian for {purpose}",
        missing.join(" and ")
    );
    if get(&missing).is_ok() {
        return;
    }
    // A new machine may not have the package lists yet.
    let _ = place::output(Command::new("apt-get").args(["update", "--quiet"]));
    if let Err(Failure::Broken(text) | Failure::Misuse(text)) = get(&missing) {
        println!("{text}");
    }
}

fn get(packages: &[&str]) -> Result<String, Failure> {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    apt.args(["install", "--yes", "--quiet", "--no-install-recommends"]);
    place::output(apt.args(packages))
}

/// Returns whether a program is on the `PATH`, or where system programs usually are.
pub fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path)
        .chain(usual)
        .any(|folder| folder.join(program).is_file())
}
