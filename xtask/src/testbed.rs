//! `cargo xtask testbed`: builds the testbed and the program that it plays with, and becomes it.
//!
//! *The idea.* The testbed is a program with a command line of its own; this only sets up what it needs and gets out of
//! the way. It *becomes* the program rather than waiting for it, so that Ctrl-C and a kill reach the one that cleans up.
//! The programs that it runs come from three Debian packages; where `apt-get` and root are there, what is missing is
//! installed, and said to be.
//!
//! *What it does not do.* It judges nothing: whether this machine can is the testbed's to say, in one sentence.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, debian, place};

/// Flags of the testbed's command line, for the check of the documents' commands.
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

/// Programs that the testbed runs, and the Debian packages that bring them.
const PROGRAMS: [(&str, &str); 3] = [
    ("ip", "iproute2"),
    ("iperf3", "iperf3"),
    ("ping", "iputils-ping"),
];

/// The exit code with which the testbed says that this machine or this user cannot.
const MISSING: i32 = 5;

/// Builds and becomes the testbed; returns only why it did not.
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
    // Paths on the command line are the caller's, not the root's.
    let error = command.exec();
    Err(place::failed("cannot run", &program, &error))
}

/// The world in which a relay is killed while pictures flow; all of it has to come. The mesh of five has a film in it, which debug
/// builds are too slow to make.
const KILL: &str = "worlds/continuity/relay-crash.toml";

/// Calibrates the testbed and kills a relay in it, as a step of all checks: not run where the machine cannot, with the reason.
pub fn check() -> Result<(), Failure> {
    debian::install("the testbed", &PROGRAMS);
    // What the step before has built: another choice of targets would be another build.
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

/// Plays; returns whether the machine can.
fn play(mut command: Command) -> Result<bool, Failure> {
    let shown = place::show(&command);
    println!("$ {shown}");
    let status = command.status();
    let program = Path::new(command.get_program());
    let status = status.map_err(|error| place::failed("cannot run", program, &error))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(MISSING) => {
            println!("the testbed was NOT RUN: see the sentence above");
            Ok(false)
        }
        _ => Err(Failure::Broken(format!("`{shown}` failed ({status})"))),
    }
}

/// Builds the testbed, and the program `thalweg` beside it, and returns where cargo put it.
fn build(targets: &[&str]) -> Result<PathBuf, Failure> {
    let mut cargo = place::cargo();
    cargo.args(["build", "--quiet", "--locked", "--message-format=json"]);
    let messages = place::output(cargo.args(targets))?;
    let values = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    // The program's unit tests are an executable of the same name.
    let mut programs = values.filter(|value| {
        value["target"]["name"] == "thalweg-testbed" && value["profile"]["test"] == false
    });
    let path = programs.find_map(|value| value["executable"].as_str().map(PathBuf::from));
    path.ok_or_else(|| {
        Failure::Broken("the package thalweg-testbed builds no program of its name".into())
    })
}

#[cfg(test)]
mod tests {
    //! Proves that the flags that documents may quote are those of the testbed.

    use super::{FLAGS, place};

    #[test]
    fn the_flags_are_those_of_the_testbeds_command_line() {
        let path = place::root().join("crates/thalweg-testbed/src/arguments/mod.rs");
        let source = std::fs::read_to_string(path).expect("the testbed is in the workspace");
        for flag in FLAGS {
            let field = format!("    {}: ", &flag[2..]);
            assert!(source.contains(&field), "{flag} is no field of Arguments");
        }
    }
}
