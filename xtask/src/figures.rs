//! Draws the papers' figures from measurements: `cargo xtask figures FILE… [--out FOLDER] [--note TEXT]`.
//!
//! Builds `thalweg-bench` without nodes and sockets, and runs `thalweg-bench figures` with the
//! arguments. It measures nothing: the files are the output of `thalweg-bench ID --json`.

use std::process::Command;

use crate::{Failure, instructions, place};

/// Builds the program and runs it.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if !arguments.iter().any(|word| !word.starts_with("--")) {
        let sentence = "`figures` needs files: the output of `thalweg-bench ID --json`";
        return Err(Failure::Misuse(sentence.into()));
    }
    let program = instructions::build()?;
    let mut bench = Command::new(&program);
    // In the caller's folder, so that relative paths work.
    bench.arg("figures").args(arguments);
    print!("{}", place::output(&mut bench)?);
    Ok(())
}
