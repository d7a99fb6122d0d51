//! The one binary, `thalweg`: the daemon and everything a person does with it.
//!
//! *The idea.* Each subcommand is one file under `command/`: it reads its arguments, calls a library and
//! prints. Logic worth testing has its own folder: [`feed`] (media
//! units from a source), [`pace`] (when a unit is due), [`lasting`] (publishers that survive a node
//! restart), [`demo`] (two fabrics side by side). A command returns an [`exit::Code`], or an
//! [`exit::Failure`]: one sentence on standard error and a documented exit code.
//!
//! *What it does not do.* It does not plan, forward or parse: `thalweg-planner`, `thalweg-node` and
//! `thalweg-media` do.

mod command;
mod demo;
#[cfg(feature = "ends")]
mod ends;
mod exit;
#[cfg(feature = "ends")]
mod feed;
mod input;
#[cfg(feature = "ends")]
mod lasting;
mod log;
#[cfg(feature = "ends")]
mod pace;
#[cfg(feature = "ends")]
mod progress;
mod selection;
mod shutdown;
mod socket;
mod table;
mod terminal;

use std::process::ExitCode;

use thalweg_node::program::{Allocator, panics, stderr};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Writes the queued lines of standard error at the end of the program, also of one that panics.
struct Flush;

impl Drop for Flush {
    fn drop(&mut self) {
        stderr::flush();
    }
}

fn main() -> ExitCode {
    let _flush = Flush;
    panics::install();
    shutdown::ignore_other_signals();
    match command::Cli::read() {
        Ok(cli) => exit::report(command::run(cli)),
        Err(usage) => exit::report_usage(&usage),
    }
}
