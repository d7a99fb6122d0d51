//! The steps that run cargo, or a tool like it, once.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::results::Results;
use crate::{Failure, debian, media, place, relay};

/// Results that one step leaves for the next.
#[derive(Default)]
pub struct Shared {
    /// The folder of the test media, once set up.
    pub media: Option<PathBuf>,
    /// The relay's program, once set up.
    pub relay: Option<PathBuf>,
    /// The results of the tests, once they ran.
    pub results: Option<Results>,
}

/// Runs a command with its output shown; on failure the error contains the command line.
fn run_shown(command: &mut Command) -> Result<(), Failure> {
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
    run_shown(place::cargo().args(arguments))
}

/// Installs missing tools, or reports those that it cannot install.
pub fn tools(_: &mut Shared) -> Result<(), Failure> {
    debian::install("building the allocator", &[("make", "make")]);
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
        (
            Command::new("make"),
            vec!["--version"],
            "apt-get install make (or your system's)",
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

/// Checks the formatting, also of the fuzz crate, which is a workspace of its own.
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

/// Builds every target first, so that the time of the test step is the tests' alone.
pub fn build(_: &mut Shared) -> Result<(), Failure> {
    run(&["build", "--workspace", "--all-targets", "--locked"])
}

/// Runs and counts the tests; failed ones run once more, alone, and are named either way.
pub fn test(shared: &mut Shared) -> Result<(), Failure> {
    shared.media = Some(shared.media.take().map_or_else(media::folder, Ok)?);
    shared.relay = Some(shared.relay.take().map_or_else(relay::program, Ok)?);
    debian::install("the test of nodes behind NATs", &PROGRAMS);
    let (mut results, end) = run_tests(shared, &[])?;
    let outcome = match end {
        // Other failures of cargo, and large numbers of failed tests, are not retried.
        Err(_) if (1..=RETRIES_MAX).contains(&results.failures.len()) => {
            let names: Vec<String> = results.failures.keys().cloned().collect();
            let (second, end) = run_tests(shared, &names)?;
            results.add_second(&second);
            let whole = if results.failures.is_empty() {
                Ok(())
            } else {
                Err(Failure::Broken("tests failed twice".into()))
            };
            end.and(whole)
        }
        end => end,
    };
    shared.results = Some(results);
    outcome
}

/// Builds the program without inputs and outputs, and has it carry what the tests publish.
pub fn relay_only(_: &mut Shared) -> Result<(), Failure> {
    let features = ["--no-default-features", "--locked", "-p", "thalweg-cli"];
    let mut lint = vec!["clippy", "--bin", "thalweg"];
    lint.extend(features);
    lint.extend(["--", "-D", "warnings"]);
    run(&lint)?;
    let mut build = vec!["build", "--bin", "thalweg"];
    build.extend(features);
    run(&build)?;
    let target = place::metadata()?["target_directory"].clone();
    let target = PathBuf::from(target.as_str().unwrap_or("target"));
    // The tests build the usual program in its place, which publishes and subscribes.
    let (built, kept) = (
        target.join("debug/thalweg"),
        target.join("thalweg-relay-only"),
    );
    std::fs::copy(&built, &kept).map_err(|error| place::failed("copy", &built, &error))?;
    let mut test = place::cargo();
    test.args([
        "test",
        "--locked",
        "-p",
        "thalweg-cli",
        "--test",
        "it",
        "--",
    ]);
    test.args(["ends::", "messages::"]);
    run_shown(test.env("THALWEG_TEST_RELAY_ONLY", kept))
}

/// Programs that tests run, and their Debian packages.
const PROGRAMS: [(&str, &str); 2] = [("ip", "iproute2"), ("nft", "nftables")];

/// The largest number of failed tests that are retried; more are not failing by chance.
const RETRIES_MAX: usize = 5;

/// Runs all tests, or the named ones; returns their results and cargo's.
fn run_tests(shared: &Shared, names: &[String]) -> Result<(Results, Result<(), Failure>), Failure> {
    let mut command = place::cargo();
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    if !names.is_empty() {
        command.args(["--", "--exact"]).args(names);
    }
    let mut shown = place::show(&command);
    for (name, path) in [
        (relay::VARIABLE, &shared.relay),
        (media::VARIABLE, &shared.media),
    ] {
        if let Some(path) = path {
            command.env(name, path);
            shown = format!("{name}={} {shown}", path.display());
        }
    }
    println!("$ {shown}");
    let broken = |error| Failure::Broken(format!("`{shown}`: {error}"));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(broken)?;
    let mut results = Results::default();
    for line in BufReader::new(child.stdout.take().expect("piped above")).lines() {
        let line = line.map_err(broken)?;
        results.add(&line);
        println!("{line}");
    }
    let status = child.wait().map_err(broken)?;
    let end = if status.success() {
        Ok(())
    } else {
        Err(Failure::Broken(format!("`{shown}` failed ({status})")))
    };
    Ok((results, end))
}

/// Builds the reference documentation; a broken link is an error.
pub fn document(_: &mut Shared) -> Result<(), Failure> {
    let mut command = place::cargo();
    run_shown(
        command
            .args(["doc", "--workspace", "--no-deps", "--locked"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}
