//! A program as a source or a sink, by its pipes.
//!
//! *The idea.* The shell runs the command in a process group of its own, so that all of it ends with us. The
//! last line of its standard error is kept: a program that fails says there why.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

/// Bytes of a line of standard error that are kept.
const LINE_BYTES_MAX: usize = 400;

/// How long a program may take to end once its input has.
const ENDING_MAX: Duration = Duration::from_secs(10);

/// How long the end of standard error is waited for: another process may hold it open.
const LAST_WORDS_MAX: Duration = Duration::from_millis(500);

/// A running program.
pub struct Program {
    command: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    last_line: Arc<Mutex<String>>,
    stderr: JoinHandle<()>,
    /// When it is to have ended, once its pipe has.
    due: Option<Instant>,
}

impl Program {
    /// Starts a program to read its standard output.
    pub fn read_from(command: &str) -> anyhow::Result<Self> {
        Self::start(command, Stdio::null(), Stdio::piped())
    }

    /// Starts a program to write its standard input.
    pub fn write_to(command: &str) -> anyhow::Result<Self> {
        Self::start(command, Stdio::piped(), Stdio::inherit())
    }

    fn start(command: &str, stdin: Stdio, stdout: Stdio) -> anyhow::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command).process_group(0);
        shell.stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        let mut child = shell
            .spawn()
            .with_context(|| format!("cannot start exec:{command}"))?;
        let last_line = Arc::new(Mutex::new(String::new()));
        let stderr = child.stderr.take().expect("it is piped");
        Ok(Self {
            command: command.into(),
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            child,
            stderr: tokio::spawn(keep_last_line(stderr, Arc::clone(&last_line))),
            last_line,
            due: None,
        })
    }

    /// Reads into a buffer; 0 at the end of a program that ended well.
    ///
    /// Fails   if the program failed, with its exit code and last line
    pub async fn read(&mut self, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
        let Some(stdout) = &mut self.stdout else {
            return Ok(0);
        };
        let read = stdout.read_buf(buffer).await?;
        if read == 0 {
            self.wait().await.map_err(std::io::Error::other)?;
            self.stdout = None;
        }
        Ok(read)
    }

    /// Writes all bytes.
    ///
    /// Fails   if the program is gone, with its exit code and last line
    pub async fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().expect("it is open until the end");
        if let Err(error) = stdin.write_all(bytes).await {
            self.wait().await?;
            return Err(error)
                .with_context(|| format!("exec:{} ended before the stream did", self.command));
        }
        Ok(())
    }

    /// Closes the program's input and waits for its end.
    pub async fn finish(mut self) -> anyhow::Result<()> {
        self.stdin = None;
        self.wait().await
    }

    /// Waits for the end; fails unless the program ended well.
    async fn wait(&mut self) -> anyhow::Result<()> {
        let command = self.command.clone();
        // A call that is dropped and made again has no more time.
        let due = *self.due.get_or_insert_with(|| Instant::now() + ENDING_MAX);
        let ended = timeout_at(due, self.child.wait()).await;
        let Ok(status) = ended else {
            anyhow::bail!(
                "exec:{command} has not ended {} s after its pipe, and was killed",
                ENDING_MAX.as_secs()
            );
        };
        let status = status.with_context(|| format!("cannot wait for exec:{command}"))?;
        if status.success() {
            return Ok(());
        }
        let _ = timeout(LAST_WORDS_MAX, &mut self.stderr).await;
        let last = self
            .last_line
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let said = if last.is_empty() {
            "it said nothing on standard error".to_owned()
        } else {
            format!("it said last: {last}")
        };
        anyhow::bail!("exec:{command} ended with {status}; {said}")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stderr.abort();
        let group = self
            .child
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(group) = group {
            // It may have ended by itself just now.
            let _ = kill_process_group(group, Signal::TERM);
        }
    }
}

/// Keeps the last line that is not blank; reads on so that the program never waits.
async fn keep_last_line(stderr: impl AsyncRead + Unpin, last: Arc<Mutex<String>>) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        let Ok(piece) = lines.fill_buf().await else {
            return;
        };
        let is_over = piece.is_empty();
        let end = piece.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let used = end.map_or(piece.len(), |end| end + 1);
        let room = LINE_BYTES_MAX - line.len();
        line.extend_from_slice(&piece[..end.unwrap_or(used).min(room)]);
        lines.consume(used);
        if end.is_some() || is_over {
            let text = String::from_utf8_lossy(&line);
            let text: String = text.chars().filter(|c| !c.is_control()).collect();
            if !text.trim().is_empty() {
                *last.lock().unwrap_or_else(PoisonError::into_inner) = text.trim().into();
            }
            line.clear();
        }
        if is_over {
            return;
        }
    }
}
