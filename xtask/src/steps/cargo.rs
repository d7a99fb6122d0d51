//! The steps that are one run of cargo, or of a tool beside it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{Failure, media, place, relay};

/// What one step leaves for the next.
#[derive(Default)]
pub struct Shared {
    /// Folder of the test media, once set up.
    pub media: Option<PathBuf>,
    /// The relay's program, once it is there.
    pub relay: Option<PathBuf>,
    /// What the tests counted, once they ran.
    pub counts: Option<Counts>,
}

/// Tests that passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
}

impl Counts {
    /// Adds what a line such as `test result: ok. 3 passed; 0 failed; …` counts; any other line counts nothing.
    pub fn add(&mut self, line: &str) {
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for part in counts.split(';') {
            match part.trim().split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

/// Runs a command in view; fails with the line to type for the same.
fn visible(command: &mut Command) -> Result<(), Failure> {
    let shown = place::show(command);
    println!("$ {shown}");
    let status = command
        .status()
        .map_err(|error| Failure::Broken(format!("`{shown}` did not start: {error}")))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Broken(format!("`{shown}` failed ({status})")))
    }
}

fn run(arguments: &[&str]) -> Result<(), Failure> {
    visible(place::cargo().args(arguments))
}

/// Looks for what this cannot install.
pub fn tools(_: &mut Shared) -> Result<(), Failure> {
    let cargo = place::cargo;
    for (program, arguments, remedy) in [
        (
            cargo(),
            vec!["fmt", "--version"],
            "rustup component add rustfmt",
        ),
        (
            cargo(),
            vec!["clippy", "--version"],
            "rustup component add clippy",
        ),
        (
            Command::new("cc"),
            vec!["--version"],
            "apt-get install gcc libc6-dev (or your system's C compiler)",
        ),
    ] {
        let mut command = program;
        command.args(arguments);
        let text = place::output(&mut command).map_err(|failure| match failure {
            Failure::Misuse(text) | Failure::Broken(text) => {
                Failure::Broken(format!("{text}\nto install it: {remedy}"))
            }
        })?;
        println!("{}", text.lines().next().unwrap_or_default());
    }
    Ok(())
}

/// Compares the formatting, the fuzz crate's too, which is a workspace of its own.
pub fn format(_: &mut Shared) -> Result<(), Failure> {
    run(&["fmt", "--all", "--check"])?;
    run(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])
}

/// Lints every target.
pub fn clippy(_: &mut Shared) -> Result<(), Failure> {
    run(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ])
}

/// Builds every target once, so that the test step's time is the tests' own.
pub fn build(_: &mut Shared) -> Result<(), Failure> {
    run(&["build", "--workspace", "--all-targets", "--locked"])
}

/// Runs the tests and counts them.
pub fn test(shared: &mut Shared) -> Result<(), Failure> {
    let folder = shared.media.clone().map_or_else(media::folder, Ok)?;
    let relay = shared.relay.clone().map_or_else(relay::program, Ok)?;
    let mut command = place::cargo();
    command
        .args(["test", "--workspace", "--locked", "--no-fail-fast"])
        .env(media::VARIABLE, &folder)
        .env(relay::VARIABLE, &relay);
    let shown = place::show(&command);
    let (media, folder) = (media::VARIABLE, folder.display());
    println!(
        "$ {media}={folder} {}={} {shown}",
        relay::VARIABLE,
        relay.display()
    );
    let broken = |error| Failure::Broken(format!("`{shown}`: {error}"));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(broken)?;
    let mut counts = Counts::default();
    for line in BufReader::new(child.stdout.take().expect("it was piped above")).lines() {
        let line = line.map_err(broken)?;
        counts.add(&line);
        println!("{line}");
    }
    shared.counts = Some(counts);
    let status = child.wait().map_err(broken)?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Broken(format!("`{shown}` failed ({status})")))
    }
}

/// Builds the reference; a broken link in it is an error.
pub fn document(_: &mut Shared) -> Result<(), Failure> {
    let mut command = place::cargo();
    visible(
        command
            .args(["doc", "--workspace", "--no-deps", "--locked"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}
