//! Every command that a document shows exists: `cargo xtask X`, `cargo run … -- SUB --flag` and
//! `thalweg SUB --flag`.
//!
//! *The idea.* The lines of ```` ```sh ```` blocks, and those of ```` ```console ```` blocks that
//! begin with `$ `, are taken apart as a shell would, simply: pipes and lists cut, leading
//! `NAME=value` dropped. Words are then compared with the task table and with what the built
//! program prints as its `--help`.
//!
//! *What it does not do.* It runs no command of a document, and it does not check values.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use super::help::Help;
use super::{File, Finding};
use crate::{COMMANDS, Failure, place};

/// Where help pages come from: the program as built, or a test's fixture.
pub trait Pages {
    /// Returns the help of a subcommand, or of the program for an empty path; `None` if it has no
    /// such subcommand.
    fn page(&mut self, path: &[String]) -> Result<Option<Help>, Failure>;
}

/// The built program, asked once for each page.
#[derive(Default)]
pub struct Built {
    program: Option<PathBuf>,
    pages: BTreeMap<Vec<String>, Option<Help>>,
}

impl Pages for Built {
    fn page(&mut self, path: &[String]) -> Result<Option<Help>, Failure> {
        if let Some(page) = self.pages.get(path) {
            return Ok(page.clone());
        }
        let program = match &self.program {
            Some(program) => program.clone(),
            None => self.program.insert(build()?).clone(),
        };
        let output = Command::new(&program).args(path).arg("--help").output();
        let output = output.map_err(|error| place::failed("cannot run", &program, &error))?;
        let page = output
            .status
            .success()
            .then(|| Help::read(&String::from_utf8_lossy(&output.stdout)));
        self.pages.insert(path.to_vec(), page.clone());
        Ok(page)
    }
}

/// Builds the program and returns where cargo put it. All targets, for then `cargo xtask test` has
/// it built already: another choice of targets would be another choice of features, and so another build.
fn build() -> Result<PathBuf, Failure> {
    let mut cargo = place::cargo();
    cargo.args([
        "build",
        "--quiet",
        "--locked",
        "--workspace",
        "--all-targets",
        "--message-format=json",
    ]);
    let messages = place::output(&mut cargo)?;
    place::program(&messages, "thalweg")
}

/// Returns the commands in documents that do not exist.
pub fn check(files: &[File], pages: &mut dyn Pages) -> Result<Vec<Finding>, Failure> {
    let (mut findings, mut unchecked) = (Vec::new(), 0);
    let read = |file: &&File| {
        file.is("md") && (!file.path.contains('/') || file.path.starts_with("docs/"))
    };
    for file in files.iter().filter(read) {
        for (line, words) in commands(&file.text) {
            let fault = match target(&words) {
                Target::Task(rest) => task(rest),
                Target::Program(rest)
                    if pages
                        .page(&[])?
                        .is_some_and(|page| !page.commands.is_empty()) =>
                {
                    program(rest, pages)?
                }
                Target::Program(_) => {
                    unchecked += 1;
                    None
                }
                Target::Package(name) => package(name, files),
                Target::Other => None,
            };
            findings.extend(fault.map(|text| Finding::new(&file.path, line, text)));
        }
    }
    if unchecked > 0 {
        println!(
            "tidy: `thalweg` has no subcommands yet, so {unchecked} command(s) in documents were not compared"
        );
    }
    Ok(findings)
}

/// What a command line runs.
enum Target<'a> {
    Task(&'a [String]),
    Program(&'a [String]),
    /// Another program of the workspace.
    Package(&'a str),
    Other,
}

fn target(words: &[String]) -> Target<'_> {
    let assigned = |word: &&String| {
        word.split_once('=')
            .is_some_and(|(name, _)| !name.is_empty() && !name.starts_with('-'))
    };
    let skipped = words
        .iter()
        .take_while(|word| assigned(word) || ["sudo", "time", "exec"].contains(&word.as_str()));
    let words = &words[skipped.count()..];
    match words {
        [cargo, xtask, rest @ ..] if cargo == "cargo" && xtask == "xtask" => Target::Task(rest),
        [cargo, run, rest @ ..] if cargo == "cargo" && run == "run" => {
            let dashes = rest.iter().position(|word| word == "--");
            let (own, rest) = rest.split_at(dashes.unwrap_or(rest.len()));
            let name = own
                .iter()
                .position(|word| word == "-p" || word == "--package")
                .and_then(|at| own.get(at + 1));
            match name {
                Some(name) if name != "thalweg-cli" => Target::Package(name),
                _ => Target::Program(rest.get(1..).unwrap_or_default()),
            }
        }
        [program, rest @ ..] if program == "thalweg" || program.ends_with("/thalweg") => {
            Target::Program(rest)
        }
        _ => Target::Other,
    }
}

fn task(rest: &[String]) -> Option<String> {
    let name = rest.first()?;
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        return (!name.starts_with('-')).then(|| {
            let names: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
            format!(
                "`cargo xtask {name}` does not exist: there are {}",
                names.join(", ")
            )
        });
    };
    let unknown = rest
        .iter()
        // What follows is the line of another program.
        .take_while(|word| *word != "--")
        .find(|word| word.starts_with("--") && !command.flags.contains(&flag(word)))?;
    (unknown != "--help").then(|| format!("`cargo xtask {name}` has no flag `{}`", flag(unknown)))
}

fn package(name: &str, files: &[File]) -> Option<String> {
    let known = files.iter().any(|f| {
        f.path == format!("crates/{name}/Cargo.toml") || f.path == format!("{name}/Cargo.toml")
    });
    (!known).then(|| format!("the workspace has no package `{name}`: correct the command"))
}

/// Walks down the subcommands and compares each flag with the pages on the way.
fn program(rest: &[String], pages: &mut dyn Pages) -> Result<Option<String>, Failure> {
    let mut path: Vec<String> = Vec::new();
    let mut known: Vec<Help> = pages.page(&path)?.into_iter().collect();
    let mut words = rest
        .iter()
        .filter(|word| !["-", "--"].contains(&word.as_str()));
    while let Some(word) = words.next() {
        let said = format!("thalweg {}", path.join(" ")).trim_end().to_owned();
        let deepest = known
            .last()
            .map(|page| page.commands.clone())
            .unwrap_or_default();
        if word.starts_with('-') {
            let Some(valued) = known.iter().find_map(|page| page.flag(flag(word))) else {
                return Ok(Some(format!(
                    "`{said}` has no flag `{}`: compare with its --help",
                    flag(word)
                )));
            };
            if valued && !word.contains('=') {
                words.next();
            }
        } else if !deepest.is_empty() {
            path.push(word.clone());
            let page = if deepest.contains(word) {
                pages.page(&path)?
            } else {
                None
            };
            let Some(page) = page else {
                return Ok(Some(format!(
                    "`{said}` has no subcommand `{word}`: there are {}",
                    deepest.join(", ")
                )));
            };
            known.push(page);
        }
    }
    Ok(None)
}

fn flag(word: &str) -> &str {
    word.split('=').next().unwrap_or(word)
}

/// Returns the simple commands of a document's shell blocks, as words, with their lines.
pub fn commands(text: &str) -> Vec<(usize, Vec<String>)> {
    let (mut found, mut block, mut pending) = (Vec::new(), None, String::new());
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(info) = line.strip_prefix("```") {
            let language = info.split([' ', ',']).next().unwrap_or("").to_owned();
            block = if block.is_some() {
                None
            } else {
                Some(language)
            };
            pending.clear();
            continue;
        }
        let command = match block.as_deref() {
            _ if !pending.is_empty() => line,
            Some("sh" | "bash" | "shell") => line.strip_prefix("$ ").unwrap_or(line),
            Some("console") => line.strip_prefix("$ ").unwrap_or(""),
            _ => "",
        };
        pending += command.strip_suffix('\\').unwrap_or(command);
        if !command.ends_with('\\') {
            found.extend(
                split(&std::mem::take(&mut pending))
                    .into_iter()
                    .map(|words| (at + 1, words)),
            );
        }
    }
    found
}

/// Cuts a line into simple commands and those into words; quotes group, `#` begins a comment.
fn split(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut word, mut quote) = (vec![Vec::new()], String::new(), None);
    for c in line.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') if word.is_empty() => break,
            (None, ' ' | '|' | '&' | ';' | '(' | ')') => {
                let last = commands.last_mut().expect("there is always one");
                if !word.is_empty() {
                    last.push(std::mem::take(&mut word));
                }
                if c != ' ' {
                    commands.push(Vec::new());
                }
            }
            _ => word.push(c),
        }
    }
    commands.retain(|words| !words.is_empty());
    commands
}
