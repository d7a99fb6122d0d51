//! Lists, and on request installs, the other projects' relays that the benchmarks compare with.
//!
//! The list itself is in the bench.

use std::process::Stdio;

use crate::{Failure, place};

/// Runs the bench's list of peers.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut command = place::cargo();
    command
        .args(["run", "--quiet", "--release", "--locked", "--package"])
        .args(["thalweg-bench", "--", "--list-peers"]);
    for word in arguments {
        if word != "--install" {
            let sentence = format!("`peers` takes only `--install`, but got `{word}`");
            return Err(Failure::Misuse(sentence));
        }
        command.arg("--install-peers");
    }
    let shown = place::show(&command);
    let status = command.stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::Broken(format!("`{shown}` failed ({status})"))),
        Err(error) => Err(Failure::Broken(format!("`{shown}` did not start: {error}"))),
    }
}
