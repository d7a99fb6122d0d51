//! Paths and programs: the workspace, the cache folder, and commands to run.
//!
//! Nothing that a task downloads or builds is written to the clone. It is all in one cache folder that
//! may be deleted at any time.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Failure;

/// Returns the workspace's root.
///
/// The `CARGO_MANIFEST_DIR` of `cargo run` has priority over the compiled-in one, because clones that
/// share a target folder share this program.
pub fn root() -> PathBuf {
    let compiled = || env!("CARGO_MANIFEST_DIR").into();
    let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(compiled);
    Path::new(&manifest)
        .parent()
        .expect("xtask is in a folder of the workspace")
        .to_owned()
}

/// Returns the folder for downloads and installations: `$XDG_CACHE_HOME/thalweg`, else `~/.cache/thalweg`.
pub fn cache() -> Result<PathBuf, Failure> {
    let base = match (env::var_os("XDG_CACHE_HOME"), env::var_os("HOME")) {
        (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
        (_, Some(home)) if !home.is_empty() => PathBuf::from(home).join(".cache"),
        _ => {
            let sentence =
                "neither XDG_CACHE_HOME nor HOME is set: set one; it is where downloads are stored";
            return Err(Failure::Broken(sentence.into()));
        }
    };
    Ok(base.join("thalweg"))
}

/// Returns a command that runs the cargo that runs this task, at the root.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Returns cargo's metadata of the workspace, without its dependencies; needs no network.
pub fn metadata() -> Result<Value, Failure> {
    let mut cargo = cargo();
    cargo.args(["metadata", "--format-version=1", "--no-deps", "--offline"]);
    serde_json::from_str(&output(&mut cargo)?)
        .map_err(|error| Failure::Broken(format!("cargo metadata is not JSON: {error}")))
}

/// Runs a program to its end; returns its output, or an error that names the program and the cause.
pub fn output(command: &mut Command) -> Result<String, Failure> {
    let shown = show(command);
    let output = command
        .output()
        .map_err(|error| Failure::Broken(format!("`{shown}` did not start: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Failure::Broken(format!(
        "`{shown}` failed ({}):\n{}",
        output.status,
        stderr.trim_end()
    )))
}

/// Returns where cargo put a program, from its JSON messages. The program's unit tests are an executable
/// of the same name, and are passed over.
pub fn program(messages: &str, name: &str) -> Result<PathBuf, Failure> {
    let values = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs =
        values.filter(|value| value["target"]["name"] == name && value["profile"]["test"] == false);
    let path = programs.find_map(|value| value["executable"].as_str().map(PathBuf::from));
    path.ok_or_else(|| Failure::Broken(format!("the workspace builds no program `{name}`")))
}

/// Returns the command line as typed in a shell.
pub fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut words = vec![
        program
            .file_name()
            .unwrap_or(program.as_os_str())
            .to_string_lossy()
            .into_owned(),
    ];
    words.extend(
        command
            .get_args()
            .map(|argument| argument.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

/// Returns an I/O error with its path.
pub fn failed(doing: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::Broken(format!("{doing} {}: {error}", path.display()))
}
