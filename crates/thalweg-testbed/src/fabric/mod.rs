//! The world's nodes as processes, each with a configuration made from the world, in its own namespace.
//!
//! A process is `thalweg node` as an operator runs it, with a configuration file as an operator writes
//! it: the neighbours' keys and addresses, trust, configured link rates. Everything else it must
//! discover. All nodes share the machine's clock; `clock_offset`, `clock_drift_ppm` and
//! `copy_time` are for the simulator.

mod config;
mod process;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;
use thalweg_node::local::Client;
use thalweg_planner::model::{NodeAction, NodeName};

pub use process::Process;

use crate::network::Network;
use crate::system::program;

/// The nodes of a network.
pub struct Fabric<'n> {
    network: &'n Network,
    program: PathBuf,
    places: BTreeMap<NodeName, Place>,
}

/// A node's files, and its process if it runs.
struct Place {
    config: PathBuf,
    socket: PathBuf,
    log: PathBuf,
    process: Option<Process>,
}

impl<'n> Fabric<'n> {
    /// Writes the nodes' keys and configurations; `program` is `thalweg`.
    ///
    /// Fails   the program does not run, or a file cannot be written
    pub fn lay_out(network: &'n Network, program: &Path) -> anyhow::Result<Self> {
        let (world, folder) = (network.world(), network.folder());
        let files = |place: usize, kind: &str| folder.join(format!("{place}.{kind}"));
        let mut keys = BTreeMap::new();
        for (place, name) in world.nodes.keys().enumerate() {
            let mut id = Command::new(program);
            id.arg("id").arg("--key").arg(files(place, "key"));
            keys.insert(name.clone(), program::run(&mut id, "")?.trim().to_owned());
        }
        let mut places = BTreeMap::new();
        for (place, name) in world.nodes.keys().enumerate() {
            let config = files(place, "toml");
            fs::write(&config, config::text(world, name, place, &keys))
                .with_context(|| format!("cannot write {}", config.display()))?;
            let place = Place {
                config,
                socket: files(place, "sock"),
                log: files(place, "log"),
                process: None,
            };
            places.insert(name.clone(), place);
        }
        Ok(Self {
            network,
            program: program.to_owned(),
            places,
        })
    }

    /// Starts every node, and waits until all of them listen.
    ///
    /// Fails   a node ends instead or takes too long; with its last log line
    pub async fn start_all(&mut self) -> anyhow::Result<()> {
        let names: Vec<NodeName> = self.places.keys().cloned().collect();
        for name in &names {
            self.spawn(name)?;
        }
        for (name, place) in &mut self.places {
            if let Some(process) = &mut place.process {
                process
                    .listens()
                    .await
                    .with_context(|| format!("node `{name}` did not start"))?;
            }
        }
        Ok(())
    }

    fn spawn(&mut self, name: &NodeName) -> anyhow::Result<()> {
        let program = self
            .program
            .to_str()
            .context("the program's path is not UTF-8")?;
        let mut command = self.network.command(name, program)?;
        let place = self
            .places
            .get_mut(name)
            .context("the world has no such node")?;
        command.arg("node").arg("--config").arg(&place.config);
        place.process = Some(Process::start(command, &place.log)?);
        Ok(())
    }

    /// Applies an event to a node. Starting a running node or ending one that does not run has no
    /// effect. Returns whether there is a new process.
    ///
    /// Fails   the node cannot be started
    pub async fn act(&mut self, name: &NodeName, action: NodeAction) -> anyhow::Result<bool> {
        let place = self
            .places
            .get_mut(name)
            .context("the world has no such node")?;
        match (action, &mut place.process) {
            (NodeAction::Start, None) => {
                self.spawn(name)?;
                return Ok(true);
            }
            (NodeAction::Start, Some(process)) if process.is_stopping() => {
                process.stop().await;
                self.spawn(name)?;
                return Ok(true);
            }
            // It drains its links while the world goes on.
            (NodeAction::Stop, Some(process)) => process.terminate(),
            (NodeAction::Crash, Some(process)) => {
                process.crash().await;
                place.process = None;
            }
            (NodeAction::Freeze, Some(process)) => process.freeze(true),
            (NodeAction::Thaw, Some(process)) => process.freeze(false),
            (NodeAction::Start, Some(_))
            | (
                NodeAction::Stop | NodeAction::Crash | NodeAction::Freeze | NodeAction::Thaw,
                None,
            )
            | (
                NodeAction::Withhold(_)
                | NodeAction::Stall
                | NodeAction::Resume
                | NodeAction::Republish,
                _,
            ) => {}
        }
        Ok(false)
    }

    /// Returns the local socket of a node.
    pub fn socket(&self, name: &NodeName) -> &Path {
        let place = self.places.get(name);
        &place
            .expect("a world that was loaded names only nodes that it has")
            .socket
    }

    /// Returns the status of each node that runs and answers.
    pub async fn status(&self) -> BTreeMap<NodeName, Value> {
        let mut all = BTreeMap::new();
        for (name, place) in self
            .places
            .iter()
            .filter(|(_, place)| place.process.is_some())
        {
            let ask = async { Client::connect(&place.socket).await?.status().await };
            // A node that is starting or ending does not answer; it is asked again.
            if let Ok(Ok(status)) = tokio::time::timeout(process::ANSWER_MAX, ask).await {
                all.insert(name.clone(), status);
            }
        }
        all
    }

    /// Returns the nodes that ended unexpectedly, with the last log line of each.
    pub fn unexpected_exits(&mut self) -> Vec<(NodeName, String)> {
        let mut unexpected_exits = Vec::new();
        for (name, place) in &mut self.places {
            if let Some(process) = &mut place.process
                && let Some(said) = process.ended()
            {
                if !process.is_stopping() {
                    unexpected_exits.push((name.clone(), said));
                }
                place.process = None;
            }
        }
        unexpected_exits
    }

    /// Copies each node's log into a folder, which is created.
    ///
    /// Fails   a file cannot be written
    pub fn copy_logs(&self, folder: &Path) -> anyhow::Result<()> {
        let failed = || format!("cannot keep the logs in {}", folder.display());
        fs::create_dir_all(folder).with_context(failed)?;
        for (number, place) in self
            .places
            .values()
            .enumerate()
            .filter(|(_, place)| place.log.exists())
        {
            fs::copy(&place.log, folder.join(format!("{number}.log"))).with_context(failed)?;
        }
        Ok(())
    }

    /// Stops every node in good order.
    pub async fn stop_all(&mut self) {
        for place in self.places.values_mut() {
            if let Some(process) = &mut place.process {
                process.terminate();
            }
        }
        for place in self.places.values_mut() {
            if let Some(mut process) = place.process.take() {
                process.stop().await;
            }
        }
    }
}
