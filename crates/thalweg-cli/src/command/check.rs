//! `thalweg check FILE`: reports errors in a configuration or a world, with file, line and key.
//!
//! *The idea.* A world has nodes, links and streams; a configuration has none of them. So the content shows
//! which of the two a file is, and `--as` decides where it does not. The files that a configuration names
//! are checked too; those that a start would create are checked only if they exist.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use thalweg_node::{Config, Node};
use thalweg_planner::model::World;

use crate::exit::{Code, Failure, OrCode as _, Outcome};
use crate::input;
use crate::terminal::{self, Colour, Paint};

const EXAMPLES: &str = "\
Examples:
  thalweg check node.toml
  thalweg check worlds/demo.toml
  thalweg check --as world half-written.toml";

/// Check a configuration or a world: report file, line, key and how to fix it.
///
/// For a configuration, the files that it names are checked as well: the key, the certificates that
/// vouch for relays, the saved state of the fabric. Nothing is created, and nothing is started.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The configuration (TOML) or world (TOML or JSON).
    file: PathBuf,

    /// What the file is, where the content does not show it.
    #[arg(long = "as", value_name = "KIND")]
    kind: Option<Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// A node's configuration.
    Config,
    /// A world.
    World,
}

/// Checks the file.
pub fn run(arguments: &Arguments) -> Outcome {
    let file = &arguments.file;
    let text = input::read_text(file)?;
    let kind = arguments.kind.unwrap_or_else(|| guess(&text, file));
    let found = match kind {
        Kind::World => describe(&input::parse_world(&text, file)?),
        Kind::Config => describe_config(&text, file)?,
    };
    let good = Colour::of_stdout().paint(Paint::Green, "good");
    terminal::print(&format!("{}: {good}: {found}\n", file.display()))?;
    Ok(Code::Done)
}

/// Guesses the kind of a file by its tables; `[[peer]]` and `key_file` mark a configuration.
pub(super) fn guess(text: &str, file: &Path) -> Kind {
    let json = file
        .extension()
        .is_some_and(|extension| extension == "json");
    let world = text.lines().map(str::trim_start).any(|line| {
        ["[node.", "[[link]]", "[[stream]]", "[[at]]", "node."]
            .iter()
            .any(|start| line.starts_with(start))
    });
    if json || world {
        Kind::World
    } else {
        Kind::Config
    }
}

fn describe(world: &World) -> String {
    format!(
        "a world of {}, {}, {} and {}",
        count(world.nodes.len(), "node"),
        count(world.links.len(), "link"),
        count(world.streams.len(), "stream"),
        count(world.events.len(), "event"),
    )
}

fn describe_config(text: &str, file: &Path) -> Result<String, Failure> {
    // Parsed from the text already read: a pipe can be read only once.
    let config = Config::parse_as(text, file)
        .context("the configuration cannot be used")
        .or_code(Code::BadInput)?;
    Node::check_files(&config)
        .context("a file that the configuration names cannot be used")
        .or_code(Code::BadInput)?;
    super::node::ends()
        .check(&config)
        .context("the configuration cannot be used")
        .or_code(Code::BadInput)?;
    Ok(format!(
        "the configuration of node `{}`, which knows {}",
        config.name,
        count(config.peers.len(), "peer")
    ))
}

fn count(number: usize, what: &str) -> String {
    match number {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
