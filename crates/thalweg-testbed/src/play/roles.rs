//! The producers and subscribers of a world, each a process beside its node.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use thalweg_base::time::Instant;
use thalweg_planner::model::{NodeName, Stream};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::fabric::Fabric;
use crate::network::Network;
use crate::role::note::{self, Note};
use crate::role::{BEGIN, OVER, READY, SUMMARY};
use crate::system::inside;

/// How long a role may take until it is ready, including filming its pictures.
const READY_MAX: Duration = Duration::from_secs(20);

/// How long subscribers may take to receive the last of a stream that has ended at its source.
const OVER_MAX: Duration = Duration::from_secs(3);

/// How long a role may take to end.
const END_MAX: Duration = Duration::from_secs(3);

/// All roles of a world.
pub struct Roles {
    producers: Vec<Role>,
    subscribers: Vec<Role>,
}

/// One role's process; it is killed on drop.
struct Role {
    stream: String,
    node: NodeName,
    child: Child,
    stdin: Option<ChildStdin>,
    out: BufReader<ChildStdout>,
    notes: PathBuf,
    log: PathBuf,
}

impl Roles {
    /// Starts the producer of each stream and the subscribers of its sinks.
    pub fn start(network: &Network, fabric: &Fabric<'_>) -> anyhow::Result<Self> {
        let world = network.world();
        let file = network.folder().join("world.json");
        fs::write(&file, thalweg_world::to_json(world)).context("cannot write the world")?;
        let mut roles = Self {
            producers: Vec::new(),
            subscribers: Vec::new(),
        };
        for (place, stream) in world.streams.iter().enumerate() {
            let start = |word: &str, node: &NodeName, number: usize| {
                let notes = network.folder().join(format!("{place}.{number}.notes"));
                Role::start(network, fabric, (word, place, &file), (stream, node), notes)
            };
            for (number, sink) in stream.to.iter().enumerate() {
                roles
                    .subscribers
                    .push(start("subscribe", sink, number + 1)?);
            }
            roles.producers.push(start("produce", &stream.from, 0)?);
        }
        Ok(roles)
    }

    /// Waits until all can begin.
    pub async fn ready(&mut self) -> anyhow::Result<()> {
        for role in self.all() {
            let (stream, node) = (role.stream.clone(), role.node.clone());
            let ready = tokio::time::timeout(READY_MAX, role.wait_for_line(READY)).await;
            if !matches!(ready, Ok(true)) {
                bail!(
                    "the role of `{stream}` at `{node}` is not ready: {}",
                    role.last_log_line()
                );
            }
        }
        Ok(())
    }

    /// Sends all roles the time at which the world begins.
    pub async fn begin(&mut self, at: Instant) -> anyhow::Result<()> {
        let line = format!("{BEGIN} {}\n", at.as_nanos());
        for role in self.all() {
            if let Some(stdin) = &mut role.stdin {
                stdin
                    .write_all(line.as_bytes())
                    .await
                    .context("a role has exited")?;
            }
        }
        Ok(())
    }

    /// Waits until every producer has ended its stream.
    pub async fn producers_end(&mut self) {
        for role in &mut self.producers {
            // An error here would mean that the process is gone already.
            let _ = role.child.wait().await;
        }
    }

    /// Returns the final report of each producer's node: node, stream and summary. Call it after the
    /// producers have ended.
    pub async fn summaries(&mut self) -> Vec<(NodeName, String, Value)> {
        let mut all = Vec::new();
        for role in &mut self.producers {
            let mut line = String::new();
            while let Ok(1..) = role.out.read_line(&mut line).await {
                let json = line.strip_prefix(SUMMARY).map(serde_json::from_str);
                if let Some(Ok(summary)) = json {
                    all.push((role.node.clone(), role.stream.clone(), summary));
                }
                line.clear();
            }
        }
        all
    }

    /// Waits until every subscriber has seen the end of its stream, for a limited time.
    pub async fn settle(&mut self) {
        let over = async {
            for role in &mut self.subscribers {
                role.wait_for_line(OVER).await;
            }
        };
        // The end of a stream without a plan never arrives.
        let _ = tokio::time::timeout(OVER_MAX, over).await;
    }

    /// Closes all roles' inputs, and waits for them to end.
    pub async fn end(&mut self) {
        for role in self.all() {
            role.stdin = None;
        }
        for role in self.all() {
            if tokio::time::timeout(END_MAX, role.child.wait())
                .await
                .is_err()
            {
                // It may have ended in this very moment.
                let _ = role.child.kill().await;
            }
        }
    }

    /// Returns the notes of a stream's producer.
    pub fn given(&self, stream: &Stream) -> anyhow::Result<Vec<Note>> {
        let role = self
            .producers
            .iter()
            .find(|role| role.stream == stream.name.as_str());
        note::read(&role.context("every stream has a producer")?.notes)
    }

    /// Returns the notes of the subscriber at a sink.
    pub fn received(&self, stream: &Stream, sink: &NodeName) -> anyhow::Result<Vec<Note>> {
        let mut roles = self.subscribers.iter();
        let role = roles.find(|role| role.stream == stream.name.as_str() && role.node == *sink);
        note::read(&role.context("every sink has a subscriber")?.notes)
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Role> {
        self.subscribers.iter_mut().chain(&mut self.producers)
    }
}

impl Role {
    fn start(
        network: &Network,
        fabric: &Fabric<'_>,
        (word, place, world): (&str, usize, &Path),
        (stream, node): (&Stream, &NodeName),
        notes: PathBuf,
    ) -> anyhow::Result<Self> {
        let program = inside::this_program()?;
        let program = program
            .to_str()
            .context("this program's path is not UTF-8")?;
        let mut command = network.command(node, program)?;
        command.arg(word).arg("--world").arg(world);
        command.arg("--stream").arg(place.to_string());
        command
            .arg("--socket")
            .arg(fabric.socket(node))
            .arg("--notes")
            .arg(&notes);
        let log = notes.with_extension("log");
        let errors = File::create(&log).context("cannot write a role's log")?;
        let mut child = tokio::process::Command::from(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a role")?;
        let out = child.stdout.take().expect("piped above");
        Ok(Self {
            stream: stream.name.to_string(),
            node: node.clone(),
            stdin: child.stdin.take(),
            out: BufReader::new(out),
            child,
            notes,
            log,
        })
    }

    /// Waits until the role prints a word; returns false if it ends instead.
    async fn wait_for_line(&mut self, word: &str) -> bool {
        let mut line = String::new();
        while let Ok(1..) = self.out.read_line(&mut line).await {
            if line.trim() == word {
                return true;
            }
            line.clear();
        }
        false
    }

    fn last_log_line(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines()
            .next_back()
            .unwrap_or("it printed nothing")
            .to_owned()
    }
}
