//! `thalweg completions SHELL`: a script for the shell's completion of commands and options.

use clap::{Args, CommandFactory as _};
use clap_complete::{Shell, generate};

use crate::exit::{Code, Outcome};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  thalweg completions bash > ~/.local/share/bash-completion/completions/thalweg
  thalweg completions zsh > ~/.zfunc/_thalweg";

/// Print the script that makes a shell complete thalweg's commands and options.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The shell.
    shell: Shell,
}

/// Prints the completions.
pub fn run(arguments: &Arguments) -> Outcome {
    let mut text = Vec::new();
    generate(
        arguments.shell,
        &mut super::Cli::command(),
        "thalweg",
        &mut text,
    );
    terminal::print(&String::from_utf8_lossy(&text))?;
    Ok(Code::Done)
}
