//! A program beside the bench: started, watched, and stopped in any case.
//!
//! Dropping a [`Process`] kills it, so it ends with an error or a panic. Against a signal that kills
//! the bench, it is started through `setpriv --pdeathsig` where available: the kernel then kills it
//! with the thread that started it, so the bench starts programs on its main thread. The end of its
//! standard error is kept for the message that says why it ended. Readiness is not awaited here: the
//! caller probes a line by sending over it.
//!
//! *Sources.* proc(5) for the fields of `stat`; Linux' Documentation/scheduler/sched-stats.rst for
//! `schedstat`.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::install;

/// Bytes of a program's output that are kept.
const SAID_BYTES_MAX: usize = 2_000;

/// Kernel ticks per second in `stat`: a constant of the interface, independent of the kernel's own clock.
const TICKS_PER_SECOND: u64 = 100;

/// A running program.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    said: Arc<Mutex<VecDeque<u8>>>,
}

impl Process {
    /// Starts a program. Call it from a thread that outlives the program.
    pub(crate) fn start(command: &Command) -> anyhow::Result<Self> {
        let program = Path::new(command.get_program());
        let name = program.file_name().unwrap_or(program.as_os_str());
        let name = name.to_string_lossy().into_owned();
        let mut command = tied(command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("`{name}` did not start"))?;
        let said = Arc::new(Mutex::new(VecDeque::new()));
        let stderr = child.stderr.take().expect("piped above");
        let kept = Arc::clone(&said);
        std::thread::spawn(move || keep(stderr, &kept));
        Ok(Self { name, child, said })
    }

    /// Starts this program again with a workload; otherwise as [`Process::start`].
    pub(crate) fn start_own(workload: &str) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("cannot find this program")?;
        Self::start(Command::new(own).args(["--workload", workload]))
    }

    /// Returns the first line of its standard output; the rest is not read, so it must not print much more.
    pub(crate) fn first_line(&mut self) -> anyhow::Result<String> {
        let stdout = self.child.stdout.take();
        let stdout = stdout.context("a first line is read once")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if line.is_empty() {
            bail!("{} ended before it was ready: {}", self.name, self.said());
        }
        Ok(line.trim_end().to_owned())
    }

    /// Returns its standard output.
    pub(crate) fn output(&mut self) -> anyhow::Result<ChildStdout> {
        self.child.stdout.take().context("its output is read once")
    }

    /// Returns its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its resident memory.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(&path)
            .with_context(|| format!("the memory of {} cannot be read", self.name))?;
        resident_bytes(&status).with_context(|| format!("{path} has no `VmRSS`"))
    }

    /// Fails if it has ended, with its last output.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended ({status}): {}", self.name, self.said()),
            None => Ok(()),
        }
    }

    /// Returns the end of its standard error.
    pub(crate) fn said(&self) -> String {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = said.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        if text.is_empty() {
            "it printed nothing".to_owned()
        } else {
            text
        }
    }

    /// Returns its processor time so far, in user space and in the kernel, all threads together.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        cpu(Path::new(&format!("/proc/{}", self.child.id())))
            .with_context(|| format!("the CPU time of {} cannot be read", self.name))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killing a process that has ended fails, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the same command, tied to the life of this thread where the system can.
fn tied(command: &Command) -> Command {
    let mut tied = match install::on_path("setpriv") {
        Some(setpriv) => {
            let mut tied = Command::new(setpriv);
            tied.args(["--pdeathsig", "KILL", "--"])
                .arg(command.get_program());
            tied
        }
        None => Command::new(command.get_program()),
    };
    tied.args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => tied.env(key, value),
            None => tied.env_remove(key),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        tied.current_dir(folder);
    }
    tied
}

fn keep(mut from: impl std::io::Read, said: &Mutex<VecDeque<u8>>) {
    let mut buffer = [0; 1_024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend(&buffer[..length]);
        let surplus = said.len().saturating_sub(SAID_BYTES_MAX);
        said.drain(..surplus);
    }
}

/// Reads a process's time: in nanoseconds where the kernel counts them per thread, else in ticks of 10 ms.
fn cpu(folder: &Path) -> anyhow::Result<Duration> {
    let threads = std::fs::read_dir(folder.join("task"))?;
    let nanos: Option<u64> = threads
        .map(|thread| {
            let mut text = String::new();
            let file = std::fs::File::open(thread.ok()?.path().join("schedstat"));
            file.ok()?.read_to_string(&mut text).ok()?;
            nanos_of_schedstat(&text)
        })
        .sum();
    if let Some(nanos) = nanos {
        return Ok(Duration::from_nanos(nanos));
    }
    let stat = std::fs::read_to_string(folder.join("stat"))?;
    let ticks = ticks_of_stat(&stat).context("`stat` has too few fields")?;
    Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}

/// Returns the resident bytes, which `status` gives in kibibytes.
pub(super) fn resident_bytes(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// Returns the processor time, the first of a thread's three numbers.
pub(super) fn nanos_of_schedstat(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Returns `utime + stime`, fields 14 and 15; the second field, the name, may contain spaces and
/// closing brackets.
pub(super) fn ticks_of_stat(text: &str) -> Option<u64> {
    let after_name = &text[text.rfind(')')? + 1..];
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}
