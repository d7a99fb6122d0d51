//! Lists, and on demand installs, the relays of others that the benchmarks stand beside ours.
//!
//! *The idea.* The bench knows its peers; this is the word by which a person finds them.

use std::process::Stdio;

use crate::{Failure, place};

/// Runs the bench for its list of peers.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut command = place::cargo();
    command
        .args(["run", "--quiet", "--release", "--locked", "--package"])
        .args(["thalweg-bench", "--", "--list-peers"]);
    for word in arguments {
        if word != "--install" {
            let sentence = format!("`peers` takes `--install` or nothing, and got `{word}`");
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
