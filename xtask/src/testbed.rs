//! `cargo xtask testbed`: builds the testbed and the program that it runs, and then runs it.
//!
//! The testbed has its own command line; this only prepares what it needs. It replaces this process
//! (`exec`), so that Ctrl-C and signals reach the process that cleans up. The programs that it runs are
//! in three Debian packages; as root with `apt-get` the missing ones are installed, with a message.
//! Whether this machine can run the testbed is decided by the testbed itself.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, debian, place};

/// The testbed's flags, for the check of commands in documents.
pub const FLAGS: &[&str] = &[
    "--calibrate",
    "--json",
    "--ladder",
    "--logs",
    "--node",
    "--program",
    "--rounds",
    "--seed",
    "--whole",
    "--worlds",
];

/// Programs that the testbed runs, and their Debian packages.
const PROGRAMS: [(&str, &str); 3] = [
    ("ip", "iproute2"),
    ("iperf3", "iperf3"),
    ("ping", "iputils-ping"),
];

/// The testbed's exit code if this machine or user cannot run it.
const MISSING: i32 = 5;

/// Builds the testbed and replaces this process with it; returns only on failure.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    debian::install("the testbed", &PROGRAMS);
    let program = build(&[
        "--release",
        "--bins",
        "--package=thalweg-testbed",
        "--package=thalweg-cli",
    ])?;
    let mut command = Command::new(&program);
    command.args(arguments);
    // Paths on the command line are relative to the caller's folder, not to the root.
    let error = command.exec();
    Err(place::failed("cannot run", &program, &error))
}

/// The world in which a relay is killed while frames flow; all of them must arrive. The mesh of five needs
/// an encoded film, and debug builds are too slow to encode it.
const KILL: &str = "worlds/continuity/relay-crash.toml";

/// Calibrates the testbed and kills a relay in it, as a step of `cargo xtask test`; skips if the
/// machine cannot.
pub fn check() -> Result<(), Failure> {
    debian::install("the testbed", &PROGRAMS);
    // The targets of the build step: other targets would cause a second build.
    let program = build(&["--workspace", "--all-targets"])?;
    let world = place::root().join(KILL);
    let mut command = Command::new(&program);
    command.arg("--calibrate");
    if play(command)? {
        let mut command = Command::new(&program);
        command.arg(world).arg("--whole");
        play(command)?;
    }
    Ok(())
}

/// Runs the testbed; returns whether the machine can.
fn play(mut command: Command) -> Result<bool, Failure> {
    let shown = place::show(&command);
    println!("$ {shown}");
    let status = command.status();
    let program = Path::new(command.get_program());
    let status = status.map_err(|error| place::failed("cannot run", program, &error))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(MISSING) => {
            println!("the testbed was NOT RUN: see above");
            Ok(false)
        }
        _ => Err(Failure::Broken(format!("`{shown}` failed ({status})"))),
    }
}

/// Builds the testbed and the program `thalweg`; returns the testbed's path.
fn build(targets: &[&str]) -> Result<PathBuf, Failure> {
    let mut cargo = place::cargo();
    cargo.args(["build", "--quiet", "--locked", "--message-format=json"]);
    let messages = place::output(cargo.args(targets))?;
    place::program(&messages, "thalweg-testbed")
}

#[cfg(test)]
mod tests {
    //! Tests that the flags which documents may mention are those of the testbed.

    use super::{FLAGS, place};

    #[test]
    fn flags_match_command_line() {
        let path = place::root().join("crates/thalweg-testbed/src/arguments/mod.rs");
        let source = std::fs::read_to_string(path).expect("the testbed is in the workspace");
        for flag in FLAGS {
            let field = format!("    {}: ", &flag[2..]);
            assert!(
                source.contains(&field),
                "{flag} is not a field of Arguments"
            );
        }
    }
}
