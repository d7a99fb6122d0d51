//! `thalweg id`: prints this node's public key, by which other nodes know it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use thalweg_net::Identity;
use thalweg_node::Config;

use crate::exit::{Code, Failure, OrCode as _, Outcome};
use crate::terminal;

/// The default name of the key file, as in the default configuration.
const KEY_DEFAULT: &str = "node.key";

const EXAMPLES: &str = "\
Examples:
  thalweg id --config node.toml
  thalweg id --key /etc/thalweg/node.key

The key is printed on standard output; put it under `key` of a [[peer]] of the other nodes.";

/// Print a node's public key, which is its name on the network; create the key file if it is missing.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The node's configuration, which names the key file.
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    config: Option<PathBuf>,

    /// The key file itself [default: node.key].
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// Prints the key.
pub fn run(arguments: &Arguments) -> Outcome {
    let file = key_file(arguments)?;
    let missing = !file.exists();
    let identity = load_or_create(&file)?;
    if missing {
        terminal::print_notice(&format!(
            "{} did not exist: created it with a new key",
            file.display()
        ));
    }
    terminal::print(&format!("{}\n", identity.id()))?;
    Ok(Code::Done)
}

/// Loads the key, or creates it; a file that cannot be created is not the input's fault.
pub(super) fn load_or_create(file: &Path) -> Result<Identity, Failure> {
    Identity::load_or_create(file).map_err(|error| {
        let is_input = error.is_input();
        Failure::of_start(error, is_input)
    })
}

fn key_file(arguments: &Arguments) -> Result<PathBuf, Failure> {
    let Some(config) = &arguments.config else {
        let key = arguments.key.as_deref();
        return Ok(key.unwrap_or(Path::new(KEY_DEFAULT)).to_owned());
    };
    let config = Config::load(config)
        .context("the configuration cannot be used")
        .or_code(Code::BadInput)?;
    Ok(config.key_file)
}
