//! Programs that do one thing and end: `ip`, `iperf3`, `ping`.
//!
//! *The idea.* Each is given a time; what fails says which line was typed, and what it said.

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

/// Runs a program that ends by itself at once, with this on its standard input.
///
/// Fails   it cannot be started, or ends with another code than 0; with what it said
pub fn run(command: &mut Command, input: &str) -> anyhow::Result<String> {
    let shown = show(command);
    let failed = || format!("`{shown}` did not run");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().with_context(failed)?;
    let mut stdin = child.stdin.take().expect("it was piped above");
    stdin.write_all(input.as_bytes()).with_context(failed)?;
    drop(stdin);
    read(&shown, &child.wait_with_output().with_context(failed)?)
}

/// Returns what a program printed.
///
/// Fails   it ended with another code than 0
pub fn read(shown: &str, output: &Output) -> anyhow::Result<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = if said.trim().is_empty() {
            text.trim()
        } else {
            said.trim()
        };
        bail!("`{shown}` failed ({}): {said}", output.status);
    }
    Ok(text)
}

/// Runs a program that takes a while; it is killed when its time is over, or when nobody waits for it any more.
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
