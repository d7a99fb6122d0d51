//! `thalweg node --config FILE`: the daemon.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use thalweg_net::endpoint::TCP_PREFIX;
use thalweg_node::{Config, Node};

use crate::exit::{Code, Failure, OrCode as _, Outcome};
use crate::shutdown::Shutdown;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  thalweg config > node.toml
  thalweg node --config node.toml
  thalweg --log thalweg_node=debug node --config node.toml

When it listens, it prints one line with its name, key and addresses on standard output. SIGTERM and Ctrl-C end it
in good order: what was sent is waited for, and what is not known to have arrived is reported.";

/// Run a node until it is told to stop.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The node's configuration.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Runs the node.
pub async fn run(arguments: &Arguments) -> Outcome {
    let config = Config::load(&arguments.config)
        .context("the configuration cannot be used")
        .or_code(Code::BadInput)?;
    let name = config.name.clone();
    let mut shutdown = Shutdown::listen()?;
    let node = Node::load(config).await.map_err(|error| {
        let is_input = error.is_input();
        let error = anyhow::Error::new(error).context(format!("node `{name}` cannot start"));
        Failure::of_start(error, is_input)
    })?;
    let handle = node.handle();
    let udp = handle.addresses().iter().map(ToString::to_string);
    let tcp = handle.tcp_addresses().iter();
    let tcp = tcp.map(|address| format!("{TCP_PREFIX}{address}"));
    let addresses: Vec<String> = udp.chain(tcp).collect();
    let line = format!("{name} {} {}\n", handle.id(), addresses.join(" "));
    if let Err(error) = terminal::print(&line) {
        // Its links do not need it, and `thalweg id` and `ls` say the same.
        tracing::warn!("{error:#}; the node goes on without that line");
    }
    let report = node.run(async move { shutdown.asked().await }).await?;
    match report.unacknowledged {
        0 => terminal::tell(&format!(
            "node `{name}` stopped; everything sent was acknowledged"
        )),
        count => terminal::tell(&format!(
            "node `{name}` stopped; of {count} sent ADUs it is not known whether they arrived"
        )),
    }
    Ok(Code::Done)
}
