//! One `thalweg node` process, from its start to its end.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout};

use crate::system::program;

/// How long a node may take until it listens, on a busy machine.
const START_MAX: Duration = Duration::from_secs(15);

/// How long a node may take to end in good order before it is killed.
const STOP_MAX: Duration = Duration::from_secs(10);

/// How long a node may take to report its status.
pub const ANSWER_MAX: Duration = Duration::from_secs(2);

/// A node's process; it is killed on drop.
pub struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
    log: PathBuf,
    is_stopping: bool,
}

impl Process {
    /// Starts a node; its log is appended to a file.
    pub fn start(command: Command, log: &Path) -> anyhow::Result<Self> {
        let shown = program::show(&command);
        let file = |log: &Path| -> std::io::Result<File> {
            OpenOptions::new().create(true).append(true).open(log)
        };
        let errors = file(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = tokio::process::Command::from(command)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("`{shown}` did not run"))?;
        let out = child.stdout.take().expect("piped above");
        Ok(Self {
            child,
            out: BufReader::new(out),
            log: log.to_owned(),
            is_stopping: false,
        })
    }

    /// Waits until the node reports that it listens.
    pub async fn listens(&mut self) -> anyhow::Result<()> {
        let mut line = String::new();
        let read = tokio::time::timeout(START_MAX, self.out.read_line(&mut line)).await;
        match read {
            Ok(Ok(1..)) => Ok(()),
            Ok(_) => bail!("it exited: {}", self.last_log_line()),
            Err(_) => bail!(
                "it did not listen within {} s: {}",
                START_MAX.as_secs(),
                self.last_log_line()
            ),
        }
    }

    /// Returns the exit status and the last log line, if the node has ended.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("{status}: {}", self.last_log_line()))
    }

    /// Returns whether the node was asked to end.
    pub const fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Asks the node to end.
    pub fn terminate(&mut self) {
        self.is_stopping = true;
        self.signal(Signal::TERM);
    }

    /// Freezes the node, or lets it go on.
    pub fn freeze(&self, is_frozen: bool) {
        self.signal(if is_frozen {
            Signal::STOP
        } else {
            Signal::CONT
        });
    }

    fn signal(&self, signal: Signal) {
        let pid = self
            .child
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(pid) = pid {
            // It may have ended already.
            let _ = kill_process(pid, signal);
        }
    }

    /// Asks the node to end and waits; kills it if that takes too long.
    pub async fn stop(&mut self) {
        self.terminate();
        if tokio::time::timeout(STOP_MAX, self.child.wait())
            .await
            .is_err()
        {
            self.crash().await;
        }
    }

    /// Kills the node.
    pub async fn crash(&mut self) {
        // It may have ended already.
        let _ = self.child.kill().await;
    }

    fn last_log_line(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines()
            .next_back()
            .unwrap_or("it printed nothing")
            .to_owned()
    }
}
