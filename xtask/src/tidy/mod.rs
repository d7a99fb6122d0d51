//! The test of the house: what the compiler and clippy do not check, as one list of `file:line:
//! what, and what to do`.
//!
//! *The idea.* Each check is a function from texts to findings, so that its tests are strings. Only
//! this file touches the disk and runs programs. A check that nobody can meet is worse than none,
//! so lengths are ratchets: today's excess is written down in `xtask/ratchet.toml`, and only more
//! of it is refused.
//!
//! | file | what it holds to |
//! |---|---|
//! | [`graph`] | which crate may depend on which; what those without std may use; purity |
//! | [`purity`] | no clock, socket, thread, file, randomness or unordered map below the purity line |
//! | [`ratchet`] | lengths of functions and files; what follows as far as it is counted |
//! | [`rooms`] | no import circle, no arrow up between rooms, and the map of rooms in ARCHITECTURE.md |
//! | [`owners`] | an inherent `impl` stands in its type's room, in few files, with few methods |
//! | [`manifest`] | every dependency explained, versions once at the root, clippy's shared keys repeated |
//! | [`sources`] | headers, `mod.rs`, nothing left to do, `unsafe` where announced |
//! | [`quotes`] | sentences quoted from a specification still stand there |
//! | [`docs`] | links, titles, and every command that a document shows |
//! | [`results`] | the tables of benchmarks are those of the stored runs |
//! | [`leaks`] | no path of one machine, no registry's host |
//! | [`types`] | the types of an ADU on its way, and that there are few |
//! | [`words`] | plain words, comments to their column, short names of tests |

mod docs;
mod graph;
mod leaks;
mod manifest;
mod owners;
mod purity;
mod quotes;
mod ratchet;
mod rooms;
mod sources;
#[cfg(test)]
mod tests;
mod types;
mod words;

use std::cell::OnceCell;
use std::fmt;
use std::fs;

use crate::scan::{self, Views};
use crate::{Failure, place, results};
use rooms::Houses;

/// One thing that is not as the house wants it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root, with `/`.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

impl Finding {
    fn new(path: &str, line: usize, text: impl Into<String>) -> Finding {
        Finding {
            path: path.to_owned(),
            line,
            text: text.into(),
        }
    }
}

/// A file that git tracks or would track, as text.
pub struct File {
    /// Path from the root, with `/`.
    pub path: String,
    /// What it holds.
    pub text: String,
    /// Its views and its code without tests, split off once for all checks.
    views: OnceCell<Views>,
    code: OnceCell<String>,
}

impl File {
    fn new(path: impl Into<String>, text: impl Into<String>) -> File {
        File {
            path: path.into(),
            text: text.into(),
            views: OnceCell::new(),
            code: OnceCell::new(),
        }
    }

    /// Returns the views of a Rust file.
    fn views(&self) -> &Views {
        self.views.get_or_init(|| scan::views(&self.text))
    }

    /// Returns the code of a Rust file, without what only its tests run.
    fn code(&self) -> &str {
        self.code
            .get_or_init(|| scan::without_tests(&self.views().code))
    }

    fn is(&self, extension: &str) -> bool {
        self.path
            .rsplit_once('.')
            .is_some_and(|(_, found)| found == extension)
    }

    /// Whether the file is code that only tests, examples or benches run.
    fn is_proof(&self) -> bool {
        let mut folders = self.path.split('/');
        let name = folders.next_back();
        name == Some("tests.rs")
            || folders.any(|folder| ["tests", "examples", "benches"].contains(&folder))
    }
}

/// Runs every check and prints what they found.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let files = match arguments {
        [] => files()?,
        [flag] if flag == "--draw" => return draw(&files()?),
        [word, ..] => {
            return Err(Failure::Misuse(format!(
                "`tidy` takes `--draw` or no argument, and got `{word}`"
            )));
        }
    };
    let mut findings = graph::check(&graph::workspace()?);
    for file in &files {
        findings.extend(one(file));
    }
    findings.extend(ratchet::check(&files));
    let houses = Houses::read(&files);
    findings.extend(check_shape(&files, &houses));
    findings.extend(words::check_all(&files));
    findings.extend(houses.check_map(&files));
    findings.extend(sources::check_folders(&files));
    findings.extend(manifest::check_clippy(&files));
    findings.extend(quotes::check(&files));
    findings.extend(types::check(&files));
    findings.extend(docs::check_links(&files));
    findings.extend(results::fault().map(|(page, text)| Finding::new(page, 1, text)));
    match docs::check_commands(&files, &mut docs::Built::default()) {
        Ok(found) => findings.extend(found),
        // The other findings are worth seeing all the same.
        Err(Failure::Misuse(text) | Failure::Broken(text)) => {
            findings.push(Finding::new("docs", 1, text));
        }
    }
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, nothing to do", files.len());
            Ok(())
        }
        count => Err(Failure::Broken(format!(
            "tidy found {count} thing(s) to put right, listed above"
        ))),
    }
}

/// Returns what is out of shape beyond the ratchet: circles, arrows up, and types that are
/// implemented all over.
fn check_shape(files: &[File], houses: &Houses) -> Vec<Finding> {
    let owners = owners::check(files);
    let counted = [
        ("import_circles", houses.file_circles()),
        ("arrows_up", houses.room_circles()),
        ("impls_out_of_their_room", owners.strays),
        ("impl_files_over_3", owners.scattered),
        ("methods_over_60", owners.large),
        ("type_lines_over_1500", owners.long),
    ];
    let written = ratchet::written(files);
    let held = counted.into_iter();
    held.flat_map(|(key, excesses)| ratchet::hold(written, key, excesses))
        .collect()
}

/// Draws the map of rooms again.
fn draw(files: &[File]) -> Result<(), Failure> {
    let map = files.iter().find(|file| file.path == rooms::MAP);
    let text = map.and_then(|map| Houses::read(files).drawn(&map.text));
    let Some(text) = text else {
        return Err(Failure::Broken(format!(
            "`{}` has no place for the map of rooms: `cargo xtask tidy` says what to write there",
            rooms::MAP
        )));
    };
    fs::write(place::root().join(rooms::MAP), text)
        .map_err(|error| Failure::Broken(format!("`{}`: {error}", rooms::MAP)))
}

/// Runs the checks that need no other file.
fn one(file: &File) -> Vec<Finding> {
    let mut findings = leaks::check(file);
    if file.is("rs") {
        findings.extend(sources::check(file));
        findings.extend(purity::check(file));
    }
    findings.extend(words::check(file));
    if file.path.ends_with("Cargo.toml") {
        findings.extend(manifest::check(file));
    }
    if file.is("md") {
        findings.extend(docs::check_title(file));
    }
    findings
}

/// Reads the files that git tracks or would track; those that are not text are left out.
fn files() -> Result<Vec<File>, Failure> {
    let mut git = std::process::Command::new("git");
    git.current_dir(place::root()).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let listed = place::output(&mut git)?;
    let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    let text = |path: &str| {
        fs::read(place::root().join(path))
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
    };
    Ok(paths
        .into_iter()
        .filter_map(|path| Some(File::new(path, text(path)?)))
        .collect())
}
