//! One end of a run as a child process that exchanges lines with the bench.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// A process that is killed on drop. Started by the main thread, it dies with the bench.
pub(super) struct Process {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
}

impl Process {
    /// Starts a process with the bench's own standard error.
    pub(super) fn start(mut command: Command, name: String) -> anyhow::Result<Self> {
        let spawned = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn();
        let mut child = spawned.with_context(|| format!("the {name} did not start"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("piped above")?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // The receiver is gone once the run has failed.
                let _ = sender.send(line);
            }
        });
        Ok(Self {
            name,
            child,
            input,
            lines,
        })
    }

    /// Waits for a line that begins with this word, and returns the rest of the line.
    pub(super) fn read_line(&self, word: &str, most: Duration) -> anyhow::Result<String> {
        let until = Instant::now() + most;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(word) {
                        return Ok(rest.trim().to_owned());
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    bail!("the {} ended before it printed `{word}`", self.name)
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let seconds = most.as_secs();
                    bail!(
                        "the {} did not print `{word}` within {seconds} s",
                        self.name
                    )
                }
            }
        }
    }

    /// Sends it a line.
    pub(super) fn send_line(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("its input is closed")?;
        writeln!(input, "{line}").with_context(|| format!("the {} has ended", self.name))
    }

    /// Closes its input.
    pub(super) fn close(&mut self) {
        self.input = None;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killing a process that has ended fails, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
