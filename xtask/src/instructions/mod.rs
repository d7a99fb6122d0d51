//! Holds the instructions of the hot paths to a committed file: `cargo xtask instructions [--write]`.
//!
//! *The idea.* `thalweg-bench` counts them under `callgrind`, and a count is the same on any day: so one that grew by
//! more than two in a hundred is a change of the code, and is refused until somebody writes it down. Counts depend on
//! the tools that made the program, so the file names those too; where other tools are at work nothing is compared, and
//! that is said.
//!
//! *What it does not do.* Without valgrind, where it cannot install it, it fails with the command that brings it. It builds the
//! benchmark program without nodes and sockets, which takes about a minute and a half on two cores, once.

mod ratchet;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::{Failure, debian, dist, place};
use ratchet::{Counts, Kind, Ratchet, Tools};

/// Where the counts are written down.
const FILE: &str = "crates/thalweg-bench/instructions.toml";

/// The benchmark that counts.
const ID: &str = "IC";

/// Counts, and compares with the file or writes it.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let is_to_write = match arguments {
        [] => false,
        [word] if word == "--write" => true,
        [word, ..] => {
            let sentence = format!("`instructions` knows no `{word}`: there is `--write`");
            return Err(Failure::Misuse(sentence));
        }
    };
    let now = Ratchet {
        tools: tools()?,
        counts: count(&build()?)?,
    };
    let path = place::root().join(FILE);
    if is_to_write {
        fs::write(&path, now.text())
            .map_err(|error| place::failed("cannot write", &path, &error))?;
        println!("wrote {} counts into {FILE}", now.counts.len());
        return Ok(());
    }
    let text =
        fs::read_to_string(&path).map_err(|error| place::failed("cannot read", &path, &error))?;
    let verdict = ratchet::compare(&Ratchet::read(&text), &now);
    for line in &verdict.notes {
        println!("{line}");
    }
    if verdict.faults.is_empty() {
        return Ok(());
    }
    Err(Failure::Broken(format!(
        "{}\nif that is as it should be: `cargo xtask instructions --write`, and say in the commit what it buys",
        verdict.faults.join("\n")
    )))
}

/// Returns what the counts depend on beside our code.
fn tools() -> Result<Tools, Failure> {
    debian::install("counting instructions", &[("valgrind", "valgrind")]);
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let valgrind = place::output(Command::new("valgrind").arg("--version")).map_err(|_| {
        let sentence = "instructions are counted by valgrind, which is not installed: apt-get install valgrind (or your system's package of that name)";
        Failure::Broken(sentence.into())
    })?;
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let rustc = place::output(rustc.current_dir(place::root()).arg("-vV"))?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: "));
    let libc = place::output(Command::new("getconf").arg("GNU_LIBC_VERSION"));
    let cc = place::output(Command::new("cc").arg("--version"))?;
    Ok(Tools {
        rustc: format!(
            "{}, {}",
            first(rustc.clone()),
            host.unwrap_or("unknown host")
        ),
        libc: libc.map_or_else(|_| "not GNU's".to_owned(), first),
        cc: first(cc),
        valgrind: first(valgrind),
    })
}

/// Builds the benchmark program, without nodes and sockets, and returns where cargo put it.
pub fn build() -> Result<PathBuf, Failure> {
    dist::build(&["thalweg-bench"], &[], "thalweg-bench")
}

fn count(program: &PathBuf) -> Result<Counts, Failure> {
    let mut bench = Command::new(program);
    bench.args([ID, "--json"]);
    println!("$ {}", place::show(&bench));
    let figures = place::output(&mut bench)?;
    let counts: Option<BTreeMap<_, _>> = figures.lines().map(figure).collect();
    counts.ok_or_else(|| Failure::Broken(format!("{ID} printed what is no count:\n{figures}")))
}

/// Reads a name and its count from a line like `{"metric":"instructions.keep","value":574.9,…}`.
fn figure(line: &str) -> Option<(String, (Kind, f64))> {
    let figure: serde_json::Value = serde_json::from_str(line).ok()?;
    let (kind, name) = figure["metric"].as_str()?.split_once('.')?;
    let kind = match kind {
        "instructions" => Kind::Rust,
        "instructions_with_c" => Kind::WithC,
        _ => return None,
    };
    Some((name.to_owned(), (kind, figure["value"].as_f64()?)))
}
