//! What is shipped and what is measured: builds by the profile `dist`, with jemalloc.
//!
//! *The idea.* The everyday release profile is for a quick build, this one for a quick program.
//! Nobody has to know its flags:
//! `cargo xtask dist` builds `thalweg` as it is shipped, `cargo xtask bench` builds that and the
//! benchmarks, and runs these.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::{Failure, place};

/// What each of our packages is built with.
const PROFILE: [&str; 3] = ["--profile=dist", "--locked", "--message-format=json"];

/// The benchmarks' flags, for the documents' commands.
pub const BENCH_FLAGS: &[&str] = &[
    "--list",
    "--json",
    "--quick",
    "--instructions",
    "--compare",
    "--with",
    "--peers",
    "--list-peers",
    "--install-peers",
    "--out",
    "--note",
];

/// Builds the program as it is shipped, and says where it is and how large.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some(word) = arguments.first() {
        return Err(Failure::Misuse(format!(
            "`dist` takes no argument, and got `{word}`"
        )));
    }
    let program = build(&["thalweg-cli"], &["thalweg-cli/jemalloc"], "thalweg")?;
    let length = std::fs::metadata(&program)
        .map_err(|error| place::failed("cannot read", &program, &error))?
        .len();
    println!("{} ({:.1} MB)", program.display(), length as f64 / 1e6);
    Ok(())
}

/// Builds the benchmarks and the programs that they play, and becomes the former; returns only why
/// it did not.
pub fn bench(arguments: &[String]) -> Result<(), Failure> {
    let packages = ["thalweg-bench", "thalweg-cli", "thalweg-testbed"];
    let features = ["thalweg-bench/jemalloc", "thalweg-cli/jemalloc"];
    let program = build(&packages, &features, "thalweg-bench")?;
    // Paths on the command line are the caller's, not the root's.
    let error = Command::new(&program).args(arguments).exec();
    Err(place::failed("cannot run", &program, &error))
}

/// Builds packages with features of theirs, and returns where cargo put one of their programs.
pub fn build(packages: &[&str], features: &[&str], program: &str) -> Result<PathBuf, Failure> {
    let mut cargo = place::cargo();
    cargo.arg("build").args(PROFILE);
    cargo.args(
        packages
            .iter()
            .map(|package| format!("--package={package}")),
    );
    match features {
        [] => cargo.arg("--no-default-features"),
        features => cargo.arg(format!("--features={}", features.join(","))),
    };
    eprintln!("$ {}", place::show(&cargo));
    // Cargo's progress is for people, and goes to standard error as it comes.
    let output = cargo.stderr(std::process::Stdio::inherit()).output();
    let output =
        output.map_err(|error| Failure::Broken(format!("cargo did not start: {error}")))?;
    if !output.status.success() {
        return Err(Failure::Broken(format!(
            "`{}` failed ({})",
            place::show(&cargo),
            output.status
        )));
    }
    place::program(&String::from_utf8_lossy(&output.stdout), program)
}
