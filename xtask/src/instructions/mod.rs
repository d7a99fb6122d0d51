//! Compares instruction counts of the hot paths with a committed file: `cargo xtask instructions [--write]`.
//!
//! `thalweg-bench` counts instructions under `callgrind`, and the counts repeat exactly. A count that
//! grew by more than 2 % is a change of the code; the check refuses it until the new count is
//! committed. Counts depend on the compilers and on valgrind, so the file records their versions; with
//! other versions nothing is compared, and the output says so.
//!
//! If valgrind is missing and cannot be installed, the check fails and names the command that installs
//! it. It builds the benchmark program without nodes and sockets, once, in about 90 s on two cores.

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

/// The committed counts.
const FILE: &str = "crates/thalweg-bench/instructions.toml";

/// The benchmark's id.
const ID: &str = "IC";

/// Counts, then compares with the file or writes it.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let is_to_write = match arguments {
        [] => false,
        [word] if word == "--write" => true,
        [word, ..] => {
            let sentence = format!("`instructions` does not accept `{word}`, only `--write`");
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
        "{}\nif this is intended: run `cargo xtask instructions --write`, and give the reason in the commit",
        verdict.faults.join("\n")
    )))
}

/// Returns the tool versions that the counts depend on.
fn tools() -> Result<Tools, Failure> {
    debian::install("counting instructions", &[("valgrind", "valgrind")]);
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let valgrind = place::output(Command::new("valgrind").arg("--version")).map_err(|_| {
        let sentence = "counting instructions needs valgrind: apt-get install valgrind (or your system's package of that name)";
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

/// Builds the benchmark program without nodes and sockets; returns its path.
pub fn build() -> Result<PathBuf, Failure> {
    dist::build(&["thalweg-bench"], &[], "thalweg-bench")
}

fn count(program: &PathBuf) -> Result<Counts, Failure> {
    let mut bench = Command::new(program);
    bench.args([ID, "--json"]);
    println!("$ {}", place::show(&bench));
    let figures = place::output(&mut bench)?;
    let counts: Option<BTreeMap<_, _>> = figures.lines().map(figure).collect();
    counts.ok_or_else(|| {
        Failure::Broken(format!(
            "{ID} printed a line that is not a count:\n{figures}"
        ))
    })
}

/// Parses a name and its count from a line like `{"metric":"instructions.keep","value":574.9,…}`.
fn figure(line: &str) -> Option<(String, (Kind, f64))> {
    let figure: serde_json::Value = serde_json::from_str(line).ok()?;
    let (kind, name) = figure["metric"].as_str()?.split_once('.')?;
    let kind = match kind {
        "instructions" => Kind::Rust,
        "instructions_with_c" => Kind::WithC,
        "cache_lines" => Kind::Lines,
        _ => return None,
    };
    Some((name.to_owned(), (kind, figure["value"].as_f64()?)))
}
