//! Starts programs inside a node's namespace that do not outlive the run.
//!
//! The child itself arranges its end: the testbed starts itself as `inside`, which asks the kernel to
//! be killed when its parent dies, enters the namespace, and becomes the program (`execve` keeps both).
//! So no code runs between fork and exec, which would need `unsafe`, and a child is tied from the
//! start. A program with file capabilities, such as some `ping`, loses the tie on `execve`; what is
//! left in a namespace is killed with it ([`super::leftovers`]).
//!
//! *Sources.* `PR_SET_PDEATHSIG(2const)`, `setns(2)`.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The hidden command that leads here.
pub const WORD: &str = "inside";

/// Returns a command that runs a program in a network namespace as long as this process lives.
pub fn command(namespace: &Path, program: impl AsRef<OsStr>) -> anyhow::Result<Command> {
    let mut command = Command::new(this_program()?);
    command
        .arg(WORD)
        .arg("--namespace")
        .arg(namespace)
        .arg("--parent")
        .arg(std::process::id().to_string())
        .arg("--")
        .arg(program);
    Ok(command)
}

/// Returns the path of this program.
pub fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("this program does not know its own path")
}

/// Becomes a program in a namespace, tied to the life of `parent`; returns only on failure.
pub fn exec_program(namespace: &Path, parent: u32, words: &[String]) -> anyhow::Error {
    let enter = || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent died before the line above, no signal will come.
        let ours =
            getppid().is_some_and(|pid| u32::try_from(pid.as_raw_nonzero().get()) == Ok(parent));
        if !ours {
            return Err(io::Error::other("its parent process has exited"));
        }
        let target = File::open(namespace)?;
        Ok(move_into_link_name_space(
            target.as_fd(),
            Some(LinkNameSpaceType::Network),
        )?)
    };
    let Some((program, arguments)) = words.split_first() else {
        return anyhow::anyhow!("there is no program to run");
    };
    if let Err(error) = enter() {
        return anyhow::Error::new(error).context(format!("cannot enter {}", namespace.display()));
    }
    let error = Command::new(program).args(arguments).exec();
    anyhow::Error::new(error).context(format!("cannot run `{program}`"))
}
