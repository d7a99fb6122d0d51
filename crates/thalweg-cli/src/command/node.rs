//! `thalweg node --config FILE`: the daemon.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use thalweg_net::endpoint::TCP_PREFIX;
use thalweg_node::ends::Ends;
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

Once it listens, it prints one line with its name, key and addresses on standard output. SIGTERM and Ctrl-C shut it
down in good order: it waits for acknowledgements, and reports how many ADUs were not acknowledged.

SIGHUP reloads the configuration: peers can be added, removed and moved, their rates changed; inputs and outputs are
started, stopped and changed. The log names the
changes applied, and the keys that need a restart. If the file has an error, the running configuration stays in force.";

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
    let node = Node::load_with(config, ends()).await.map_err(|error| {
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
        warn!("{error:#}; the node continues without printing it");
    }
    let file = arguments.config.clone();
    let asked = async move {
        while shutdown.next().await == Request::Reload {
            tokio::select! {
                () = reload(&handle, &file) => {}
                // A file on a disk that does not answer must not keep the node from ending.
                () = ending(&mut shutdown) => return,
            }
        }
    };
    let report = node.run(asked).await?;
    match report.unacknowledged {
        0 => terminal::print_notice(&format!(
            "node `{name}` stopped; everything sent was acknowledged"
        )),
        count => terminal::print_notice(&format!(
            "node `{name}` stopped; {count} sent ADUs were not acknowledged and may be lost"
        )),
    }
    Ok(Code::Done)
}

/// Returns the inputs and outputs of this program; a relay-only build has none.
pub(super) fn ends() -> Ends {
    #[cfg(feature = "ends")]
    return crate::ends::all();
    #[cfg(not(feature = "ends"))]
    Ends::default()
}

/// Waits until the process is asked to end.
async fn ending(shutdown: &mut Shutdown) {
    while shutdown.next().await == Request::Reload {}
}

/// Reloads the configuration and logs what changed.
async fn reload(handle: &Handle, file: &Path) {
    let (done, loaded) = tokio::sync::oneshot::channel();
    let path = file.to_owned();
    // A thread of its own: the runtime waits for its blocking threads at the end, and a read may
    // never return.
    std::thread::spawn(move || drop(done.send(Config::load(&path))));
    let config = match loaded.await {
        Ok(Ok(config)) => config,
        Err(_) => return,
        Ok(Err(error)) => {
            return warn!(
                "the configuration cannot be used; the running one stays in force: {error}"
            );
        }
    };
    let reloaded = match handle.reload(config).await {
        Some(Ok(reloaded)) => reloaded,
        Some(Err(mistake)) => {
            return warn!(
                "the configuration cannot be used; the running one stays in force: {mistake}"
            );
        }
        None => return,
    };
    if reloaded == Reloaded::default() {
        info!("configuration reloaded; nothing changed");
    }
    if !reloaded.applied.is_empty() {
        let applied = reloaded.applied.join(", ");
        info!("configuration reloaded; applied: {applied}");
    }
    if !reloaded.restart.is_empty() {
        let keys = reloaded.restart.join(", ");
        warn!("configuration reloaded; these changes need a restart of the node: {keys}");
    }
}
