//! `thalweg config`: the commented default configuration.

use clap::Args;

use crate::exit::{Code, Outcome};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  thalweg config > node.toml
  thalweg check node.toml";

/// Print the commented default configuration: every key with its meaning, unit and default.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {}

/// Prints the configuration.
pub fn run(_: &Arguments) -> Outcome {
    terminal::print(thalweg_node::DEFAULT_CONFIG)?;
    Ok(Code::Done)
}
