//! Owners: an inherent `impl` stands in its type's room, in three files at most, with 60 methods at most.
//!
//! *The idea.* A type that is implemented all over a crate owns nothing: whoever reads one of its
//! fields must read all of those files. So the methods of a type stand where the type does, or in
//! private children of that file. Blocks are found by their braces, and types by name: the nearest
//! of that name, looked for in the file itself, then in its parents, then in the rest of the crate.

use std::collections::{BTreeMap, BTreeSet};

use super::ratchet::Excess;
use super::rooms::crate_of;
use super::{File, Finding};
use crate::scan;

const FILES_MAX: usize = 3;
const METHODS_MAX: usize = 60;
const LINES_MAX: usize = 1_500;

/// What the ratchet counts.
#[derive(Default)]
pub struct Owners {
    /// Blocks that stand neither in their type's file nor below it.
    pub strays: Vec<Excess>,
    /// Types in more files than [`FILES_MAX`].
    pub scattered: Vec<Excess>,
    /// Types of more methods than [`METHODS_MAX`].
    pub large: Vec<Excess>,
    /// Types of more lines than [`LINES_MAX`].
    pub long: Vec<Excess>,
}

/// One inherent `impl`.
struct Block {
    name: String,
    file: String,
    line: usize,
    lines: usize,
    methods: usize,
}

/// A type: its name, and the file that defines it.
type Owner = (String, String);

/// Measures all inherent `impl`s.
pub fn check(files: &[File]) -> Owners {
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for file in files
        .iter()
        .filter(|file| file.is("rs") && !file.is_proof())
    {
        if let Some(name) = crate_of(&file.path) {
            let source = (file.path.as_str(), file.code());
            crates.entry(name).or_default().push(source);
        }
    }
    let mut owners = Owners::default();
    for sources in crates.values() {
        check_crate(sources, &mut owners);
    }
    owners
}

fn check_crate(sources: &[(&str, &str)], owners: &mut Owners) {
    let mut types: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (path, code) in sources {
        for name in defined(code) {
            types.entry(name).or_default().push(path);
        }
    }
    let mut blocks: BTreeMap<Owner, Vec<Block>> = BTreeMap::new();
    for (path, code) in sources {
        for block in inherent(path, code) {
            // What is implemented for a foreign type or a generic one has no owner here.
            if let Some(home) = types
                .get(&block.name)
                .and_then(|homes| nearest(homes, path))
            {
                blocks
                    .entry((block.name.clone(), home.to_owned()))
                    .or_default()
                    .push(block);
            }
        }
    }
    for ((name, home), blocks) in blocks {
        check_type(&name, &home, &blocks, owners);
    }
}

fn check_type(name: &str, home: &str, blocks: &[Block], owners: &mut Owners) {
    for block in blocks.iter().filter(|block| !is_within(&block.file, home)) {
        let text = format!(
            "`{name}` is defined in {home}: move the methods there or into a private child, or make them functions of this file's own type"
        );
        owners.strays.push(excess(&block.file, block.line, text, 1));
    }
    let files: BTreeSet<&str> = blocks.iter().map(|block| &block.file[..]).collect();
    let methods: usize = blocks.iter().map(|block| block.methods).sum();
    let lines: usize = blocks.iter().map(|block| block.lines).sum();
    let mut over =
        |list: fn(&mut Owners) -> &mut Vec<Excess>, count: usize, most: usize, what: &str| {
            if count > most {
                let text = format!(
                    "`{name}` has {count} {what}, over {most}: give parts of it owners of their own"
                );
                list(owners).push(excess(home, 1, text, count - most));
            }
        };
    over(
        |owners| &mut owners.scattered,
        files.len(),
        FILES_MAX,
        "files with methods",
    );
    over(|owners| &mut owners.large, methods, METHODS_MAX, "methods");
    over(
        |owners| &mut owners.long,
        lines,
        LINES_MAX,
        "lines of methods",
    );
}

fn excess(path: &str, line: usize, text: String, amount: usize) -> Excess {
    Excess {
        finding: Finding::new(path, line, text),
        amount,
    }
}

/// Returns the names of the types that a code view defines.
fn defined(code: &str) -> Vec<String> {
    let at = ["struct", "enum", "union"].map(|word| {
        scan::words(code, word)
            .into_iter()
            .map(move |at| at + word.len())
    });
    at.into_iter()
        .flatten()
        .map(|at| word(&code[at..]))
        .collect()
}

/// Returns the first word behind blanks.
fn word(code: &str) -> String {
    let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
    code.trim_start().chars().take_while(is_word).collect()
}

/// Returns the inherent `impl`s of a code view.
fn inherent(path: &str, code: &str) -> Vec<Block> {
    let block = |at: usize| {
        let open = at + code[at..].find('{')?;
        let head = without_generics(&code[at + "impl".len()..open]);
        // `impl Trait` as an argument or a result begins no block of its own.
        let is_item =
            code[..at].trim_end().ends_with(['}', ';', ']', '"']) || code[..at].trim().is_empty();
        if !is_item || !scan::words(&head, "for").is_empty() {
            return None;
        }
        let body = &code[open..open + scan::bracket_length(&code[open..], b'{', b'}')];
        Some(Block {
            name: word(head.split("where").next()?.rsplit("::").next()?),
            file: path.to_owned(),
            line: scan::line(code, at),
            lines: body.lines().count(),
            methods: scan::functions(body).len(),
        })
    };
    scan::words(code, "impl")
        .into_iter()
        .filter_map(block)
        .collect()
}

/// Leaves out what stands between angle brackets.
fn without_generics(head: &str) -> String {
    let mut depth = 0;
    let mut left = String::new();
    for (at, c) in head.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !head[..at].ends_with('-') => depth -= 1,
            _ if depth == 0 => left.push(c),
            _ => {}
        }
    }
    left
}

/// Returns the file that defines a type for a block in `path`: that itself, else the closest
/// parent, else any.
fn nearest<'a>(homes: &[&'a str], path: &str) -> Option<&'a str> {
    let mut within: Vec<&&str> = homes.iter().filter(|home| is_within(path, home)).collect();
    within.sort_by_key(|home| home.len());
    within
        .last()
        .map(|home| **home)
        .or_else(|| homes.first().copied())
}

/// Whether a file is that, or in the folder of that module.
fn is_within(path: &str, home: &str) -> bool {
    let folder = home
        .strip_suffix("mod.rs")
        .or_else(|| home.strip_suffix("lib.rs"))
        .or_else(|| home.strip_suffix("main.rs"));
    path == home || folder.is_some_and(|folder| path.starts_with(folder))
}
