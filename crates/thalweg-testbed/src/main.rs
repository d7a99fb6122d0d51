//! The program `thalweg-testbed`; `cargo xtask testbed` builds and runs it.
//!
//! *The idea.* One command line, and behind it the roles that the program plays for itself in its children: they are
//! subcommands that no help shows.
//!
//! *What it does not do.* It decides nothing: see the library.

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
        Err(failure) => complain(&failure),
    }
}

fn complain(failure: &Failure) -> ExitCode {
    eprintln!("testbed: {failure}");
    ExitCode::from(failure.code())
}
