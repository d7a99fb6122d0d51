//! `thalweg node --config FILE`: the daemon.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use thalweg_net::endpoint::TCP_PREFIX;
use thalweg_node::{Config, Handle, Node, Reloaded};
use tracing::{info, warn};

use crate::exit::{Code, Failure, OrCode as _, Outcome};
use crate::shutdown::{Request, Shutdown};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  thalweg config > node.toml
  thalweg node --config node.toml
  thalweg --log thalweg_node=debug node --config node.toml

When it listens, it prints one line with its name, key and addresses on standard output. SIGTERM and Ctrl-C end it
in good order: what was sent is waited for, and what is not known to have arrived is reported.

SIGHUP has it read the configuration again: peers come, go and move, and their rates change; the log says what was taken over
and which keys wait for the next start. With a mistake in the file everything stays as it is.";

/// Run a node until a signal ends it.
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
    let mut shutdown = Shutdown::listen_as_node()?;
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
        // The links do not need that line, and `thalweg id` and `thalweg ls` show the same.
        warn!("{error:#}; the node goes on without that line");
    }
    let file = arguments.config.clone();
    let asked = async move {
        while shutdown.next().await == Request::Reload {
            reload(&handle, &file).await;
        }
    };
    let report = node.run(asked).await?;
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

/// Reloads the configuration and logs what changed.
async fn reload(handle: &Handle, file: &Path) {
    let config = match Config::load(file) {
        Ok(config) => config,
        Err(error) => {
            return warn!(
                "the configuration cannot be used, and everything stays as it is: {error}"
            );
        }
    };
    let reloaded = match handle.reload(config).await {
        Some(Ok(reloaded)) => reloaded,
        Some(Err(mistake)) => {
            return warn!(
                "the configuration cannot be used, and everything stays as it is: {mistake}"
            );
        }
        None => return,
    };
    if reloaded == Reloaded::default() {
        info!("the configuration was read again, and says nothing new");
    }
    if !reloaded.applied.is_empty() {
        let applied = reloaded.applied.join(", ");
        info!("the configuration was read again; taken over: {applied}");
    }
    if !reloaded.restart.is_empty() {
        let keys = reloaded.restart.join(", ");
        warn!("the configuration was read again; these wait for a restart of the node: {keys}");
    }
}
