//! The programme's process: one world per input line, its times per output line.
//!
//! It runs in the Python environment that `cargo xtask oracle` sets up in the cache folder. It reads
//! until its input ends, so it always ends with the bench.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

/// The oracle's requirements, which name the environment's folder by their hash.
const REQUIREMENTS: &str = include_str!("../../../../../../oracle/requirements.txt");

/// The programme's result for one world.
#[derive(Debug, Deserialize)]
pub(super) struct Solved {
    /// Time to read the world, and to build the network and the model.
    pub(super) build_ms: f64,
    /// Time to solve the model.
    pub(super) ilp_ms: f64,
    /// Time to solve the relaxation.
    pub(super) relaxation_ms: f64,
    /// Whether it ended within its time limit.
    pub(super) ended: bool,
    /// Cost of the best plan, if there is one.
    pub(super) cost: Option<f64>,
}

/// The process.
pub(super) struct Solver {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Solver {
    /// Starts it, with a time limit in seconds per world.
    ///
    /// Fails   without its environment: the message says how to install it
    pub(super) fn start(seconds_max: u32) -> anyhow::Result<Self> {
        let python = python()?;
        ensure!(
            python.is_file(),
            "{} is missing: `cargo xtask oracle --worlds 1` installs it",
            python.display()
        );
        let mut child = Command::new(&python)
            // No bytecode files, which would land in the clone.
            .arg("-B")
            .arg(root().join("oracle/main.py"))
            .args(["time", &seconds_max.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} did not start", python.display()))?;
        let input = child.stdin.take().expect("it was asked for above");
        let output = child.stdout.take().expect("it was asked for above");
        let output = BufReader::new(output);
        Ok(Self {
            child,
            input,
            output,
        })
    }

    /// Solves a world, given as a single line of text.
    pub(super) fn solve(&mut self, world: &str) -> anyhow::Result<Solved> {
        writeln!(self.input, r#"{{"world":{world}}}"#)?;
        self.input.flush()?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            bail!("the integer program ended: see above");
        }
        serde_json::from_str(&line).with_context(|| format!("the solver printed `{line}`"))
    }
}

impl Drop for Solver {
    fn drop(&mut self) {
        // It may be busy with a world; an error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the root of the workspace: from `cargo run`'s environment, else where this was compiled.
fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR");
    let manifest = manifest.filter(|folder| Path::new(folder).ends_with("thalweg-bench"));
    let manifest =
        manifest.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.join("../..")
}

/// Returns the interpreter with the oracle's packages; xtask creates the folder of this name.
fn python() -> anyhow::Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set")?;
    let lines = REQUIREMENTS.lines().filter(|line| !line.starts_with('#'));
    let packages: Vec<String> = lines.map(|line| line.replace("==", "-")).collect();
    let folder = format!("oracle-{}", packages.join("-"));
    Ok(base.join("thalweg").join(folder).join("bin/python"))
}
