//! Runs the program, and reads its output.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use thalweg_planner::model::NodeName;
use thalweg_testbed::network::Network;
use thalweg_testbed::system::privilege;

/// The demo's world, located at run time: where clones share a target folder this program may be
/// another clone's.
pub static DEMO: LazyLock<String> = LazyLock::new(|| {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    format!("{here}/../../worlds/demo.toml")
});

/// A run that has ended: its code, standard output and standard error.
pub struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Returns the program with these arguments.
pub fn testbed(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg-testbed"));
    command.args(arguments);
    command
}

/// Runs the program to its end.
pub fn run(arguments: &[&str]) -> Run {
    let output = testbed(arguments).output().expect("the program was built");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Run {
        code: output.status.code(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

/// Returns whether this user and this machine can build a testbed; prints the reason if not.
pub fn is_possible() -> bool {
    match privilege::check(privilege::TO_RUN) {
        Ok(()) => true,
        Err(missing) => {
            println!("not run: {missing}");
            false
        }
    }
}

/// Waits until no other test has a network of this process, which can have one at a time.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program in a namespace, which is killed on drop.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a command that runs inside a node's namespace. `Network::command` cannot be used: it would
/// re-run this test.
pub fn inside(network: &Network, node: &NodeName, program: &str) -> Command {
    let namespace = network.namespace(node);
    let mut command = Command::new("ip");
    command.args(["netns", "exec"]);
    command.arg(namespace.file_name().expect("it has a name"));
    command.arg(program);
    command
}

/// A run with a command inside the namespace that has begun and does not end by itself.
pub struct Held {
    pub child: Child,
    pub out: BufReader<ChildStdout>,
}

/// Starts a run that keeps its network up until it is ended.
pub fn hold() -> Held {
    let words = [
        "--node",
        "relay",
        "--",
        "sh",
        "-c",
        "echo begun; exec sleep 60",
    ];
    let mut child = testbed(&[&[DEMO.as_str()], &words[..]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("text");
    assert_eq!(line, "begun\n");
    Held { child, out }
}

/// Returns the names of all namespaces that a process made.
pub fn namespaces_of(pid: u32) -> Vec<String> {
    let output = Command::new("ip").args(["netns", "list"]).output();
    let list = String::from_utf8_lossy(&output.expect("ip is there").stdout).into_owned();
    let prefix = format!("thalweg-{pid}-");
    let names = list.lines().filter(|name| name.starts_with(&prefix));
    names.map(str::to_owned).collect()
}
