//! Runs programs that do one thing and end: `ip`, `iperf3`, `ping`.
//!
//! Each has a time limit; an error names the command line and the program's output.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};

/// Returns the command line as a person would type it.
pub fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// Runs a short program to its end, with this on its standard input.
///
/// Fails   it cannot be started, or its exit code is not 0; with its output
pub fn run(command: &mut Command, input: &str) -> anyhow::Result<String> {
    let shown = show(command);
    let failed = || format!("`{shown}` did not run");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().with_context(failed)?;
    let mut stdin = child.stdin.take().expect("piped above");
    stdin.write_all(input.as_bytes()).with_context(failed)?;
    drop(stdin);
    read(&shown, &child.wait_with_output().with_context(failed)?)
}

/// Returns a program's standard output.
///
/// Fails   its exit code is not 0
pub fn read(shown: &str, output: &Output) -> anyhow::Result<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stderr = if stderr.trim().is_empty() {
            text.trim()
        } else {
            stderr.trim()
        };
        bail!("`{shown}` failed ({}): {stderr}", output.status);
    }
    Ok(text)
}

/// Runs a long program; it is killed at its time limit, or when the future is dropped.
///
/// Fails   as [`run`], or it takes longer than `most`
pub async fn run_within(command: Command, most: Duration) -> anyhow::Result<String> {
    let shown = show(&command);
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(most, command.output()).await;
    let output = output
        .with_context(|| format!("`{shown}` took longer than {} s", most.as_secs()))?
        .with_context(|| format!("`{shown}` did not run"))?;
    read(&shown, &output)
}
