//! A single node process without peers, for tests of the process alone.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::fabric::{PATIENCE, signal};
use crate::program::{Run, run, thalweg};

/// A node that is killed at the end of the test, passed or failed.
pub struct Lone {
    folder: TempDir,
    node: Child,
}

/// Writes the configuration of a node without peers, followed by `more`.
pub fn write_config(folder: &Path, more: &str) {
    let text = format!(
        "name = \"lone\"\nlisten = [\"127.0.0.1:0\"]\nsocket = \"s\"\n[api]\nenabled = false\n{more}"
    );
    std::fs::write(folder.join("node.toml"), text).expect("room");
}

/// Returns a device that is always full.
pub fn full() -> Stdio {
    let full = File::options().write(true).open("/dev/full");
    full.expect("Linux has it").into()
}

/// Returns a pipe whose reader is gone.
pub fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

impl Lone {
    /// Starts a node and waits until it answers at its socket; `set` redirects its output.
    pub fn start(set: impl FnOnce(&mut Command)) -> Self {
        let folder = tempdir().expect("a directory");
        write_config(folder.path(), "");
        let mut command = thalweg(folder.path());
        command.args(["node", "--config", "node.toml"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        set(&mut command);
        let node = command.spawn().expect("the program was built");
        let lone = Self { folder, node };
        let begun = Instant::now();
        while lone.run(&["ls"]).0.status.code() == Some(4) {
            assert!(begun.elapsed() < PATIENCE, "it does not listen");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        lone
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command at the node.
    pub fn run(&self, arguments: &[&str]) -> Run {
        run(self.path(), &[arguments, &["--node", "s"]].concat())
    }

    /// Returns a command for the node that is not started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = thalweg(self.path());
        command.args(arguments).args(["--node", "s"]);
        command
    }

    pub fn status(&self) -> Value {
        let out = self.run(&["ls", "--json"]).exits(0).out();
        serde_json::from_str(&out).expect("one JSON object")
    }

    pub fn signal(&self, name: &str) {
        signal(&self.node, name);
    }

    pub fn is_running(&mut self) -> bool {
        self.node.try_wait().expect("it is ours").is_none()
    }

    /// Waits until the node has ended.
    pub fn wait(mut self) -> ExitStatus {
        ended(&mut self.node)
    }
}

impl Drop for Lone {
    fn drop(&mut self) {
        // A process that has ended cannot be killed.
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

/// Waits for the end of a process that must come soon.
pub fn ended(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            return status;
        }
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("it does not end");
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
