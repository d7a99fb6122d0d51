//! The program `thalweg-testbed`; `cargo xtask testbed` builds and runs it.
//!
//! One command line, and hidden subcommands for the program's roles in its own children. All logic is
//! in the library.

mod arguments;

use std::process::ExitCode;

use clap::Parser as _;

use crate::arguments::Arguments;
use thalweg_testbed::exit::Failure;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.role {
        Some(role) => arguments::play_role(role),
        None => arguments::run(&arguments),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => print_failure(&failure),
    }
}

fn print_failure(failure: &Failure) -> ExitCode {
    eprintln!("testbed: {failure}");
    ExitCode::from(failure.code())
}
