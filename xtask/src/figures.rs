//! Draws the papers' figures anew from measurements: `cargo xtask figures FILE… [--out FOLDER] [--note TEXT]`.
//!
//! *The idea.* `thalweg-bench figures` draws; this builds it without nodes and sockets, and hands it the arguments.
//!
//! *What it does not do.* It measures nothing: the files are what `thalweg-bench ID --json` printed.

use std::process::Command;

use crate::{Failure, instructions, place};

/// Builds the program and has it draw.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if !arguments.iter().any(|word| !word.starts_with("--")) {
        let sentence = "figures of what? name files that `thalweg-bench ID --json` printed";
        return Err(Failure::Misuse(sentence.into()));
    }
    let program = instructions::build()?;
    let mut bench = Command::new(&program);
    // Where the task was called, so that files are found as they were typed.
    bench.arg("figures").args(arguments);
    print!("{}", place::output(&mut bench)?);
    Ok(())
}
