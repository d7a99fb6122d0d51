//! The rooms of each crate: no import circle between files, no arrow up between rooms, and the map of both.
//!
//! *The idea.* A file imports another if a path in its code leads there. A file may name what its
//! own parents define, for it is part of them; apart from that the arrows between files have a
//! direction, and so have those between rooms, the crate's top-level modules. A room's floor is one
//! above the highest that it imports. So the map in ARCHITECTURE.md is drawn from the code, and
//! `cargo xtask tidy --draw` draws it again.
//!
//! *What it does not do.* It resolves modules and their `pub use`, not types, traits or macros:
//! what the compiler infers is no arrow.

mod circles;
mod modules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::ratchet::Excess;
use super::{File, Finding};
use modules::{Module, Modules};

pub use modules::crate_of;

/// The document that holds the map, and the lines around it.
pub const MAP: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- rooms: drawn by `cargo xtask tidy --draw` -->";
const END: &str = "<!-- /rooms -->";

/// What a crate's code imports of itself.
struct House {
    name: String,
    /// From file to file, with the line of one import.
    files: BTreeMap<String, BTreeMap<String, usize>>,
    /// From room to room, with one import that ties them.
    rooms: BTreeMap<String, BTreeMap<String, (String, usize)>>,
}

/// What all crates import of themselves: read once, asked for circles, arrows and the map.
pub struct Houses(Vec<House>);

impl Houses {
    /// Reads the imports of all crates.
    pub fn read(files: &[File]) -> Self {
        let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
        for file in files
            .iter()
            .filter(|file| file.is("rs") && !file.is_proof())
        {
            if let Some(name) = crate_of(&file.path) {
                crates.entry(name).or_default().push(file);
            }
        }
        let read = crates.into_iter().map(|(name, files)| house(name, &files));
        Self(read.collect())
    }

    /// Returns the import circles between files, for the ratchet.
    pub fn file_circles(&self) -> Vec<Excess> {
        let mut excesses = Vec::new();
        for house in &self.0 {
            let arrows = house.files.iter();
            let graph = arrows.map(|(from, to)| (from.clone(), to.keys().cloned().collect()));
            for circle in circles::circles(&graph.collect()) {
                let tie = |from: &String| {
                    let to = house.files[from]
                        .iter()
                        .find(|(to, _)| circle.contains(*to));
                    to.map(|(to, line)| format!("{from}:{line} -> {to}"))
                };
                let ties: Vec<String> = circle.iter().filter_map(tie).collect();
                let text = format!(
                    "{} files import each other in a circle: move what is shared into a file below them ({})",
                    circle.len(),
                    ties.join(", ")
                );
                let first = circle.first().expect("a circle has files");
                excesses.push(Excess {
                    finding: Finding::new(first, 1, text),
                    amount: 1,
                });
            }
        }
        excesses
    }

    /// Returns the rooms of a crate that import each other in a circle, for the ratchet.
    pub fn room_circles(&self) -> Vec<Excess> {
        let mut excesses = Vec::new();
        for house in &self.0 {
            for circle in circles::circles(&house.graph()) {
                let mut ties = Vec::new();
                for from in &circle {
                    for (to, (file, line)) in &house.rooms[from] {
                        if circle.contains(to) {
                            ties.push(format!("{from} -> {to} at {file}:{line}"));
                        }
                    }
                }
                let text = format!(
                    "rooms of {} import each other, so one arrow goes up: lower what they share ({})",
                    house.name,
                    ties.join(", ")
                );
                let first = circle.first().expect("a circle has rooms");
                let (file, line) = &house.rooms[first].values().next().expect("it imports");
                excesses.push(Excess {
                    finding: Finding::new(file, *line, text),
                    amount: circle.len() - 1,
                });
            }
        }
        excesses
    }

    /// Returns a finding if the map in the document is not that of the code.
    pub fn check_map(&self, files: &[File]) -> Vec<Finding> {
        let Some(document) = files.iter().find(|file| file.path == MAP) else {
            return Vec::new();
        };
        match self.drawn(&document.text) {
            Some(text) if text == document.text => Vec::new(),
            Some(_) => {
                let text = "the map of rooms is not the code's any more: `cargo xtask tidy --draw`";
                vec![Finding::new(MAP, line_of(&document.text, BEGIN), text)]
            }
            None => {
                let text =
                    format!("there is no place for the map of rooms: write `{BEGIN}` and `{END}`");
                vec![Finding::new(MAP, 1, text)]
            }
        }
    }

    /// Returns the document with the map of today's code; `None` if it has no place for one.
    pub fn drawn(&self, document: &str) -> Option<String> {
        let (before, rest) = document.split_once(BEGIN)?;
        let (_, after) = rest.split_once(END)?;
        Some(format!(
            "{before}{BEGIN}\n```text\n{}```\n{END}{after}",
            self.map()
        ))
    }

    /// Draws the rooms of each crate by floors, the highest first.
    fn map(&self) -> String {
        let mut text = String::new();
        for house in &self.0 {
            let floors = circles::floors(&house.graph());
            let highest = floors.values().copied().max().unwrap_or_default();
            // A crate of one room needs no map.
            if floors.len() < 2 {
                continue;
            }
            let _ = writeln!(text, "{}", house.name);
            for floor in (1..=highest).rev() {
                let rooms = floors.iter().filter(|(_, at)| **at == floor);
                let rooms: Vec<&str> = rooms.map(|(room, _)| room.as_str()).collect();
                let _ = writeln!(text, "  {floor}  {}", rooms.join(" · "));
            }
        }
        text
    }
}

impl House {
    fn graph(&self) -> BTreeMap<String, BTreeSet<String>> {
        let rooms = self.rooms.iter();
        rooms
            .map(|(from, to)| (from.clone(), to.keys().cloned().collect()))
            .collect()
    }
}

fn house(name: &str, files: &[&File]) -> House {
    let modules = Modules::new(files);
    let mut house = House {
        name: name.to_owned(),
        files: BTreeMap::new(),
        rooms: BTreeMap::new(),
    };
    for (path, module) in modules.all() {
        if let Some(room) = path.first() {
            house.rooms.entry(room.clone()).or_default();
        }
        house.files.entry(module.file.clone()).or_default();
        for (target, line) in modules.imports(path) {
            draw(
                &mut house,
                (path, module),
                (&target, modules.file(&target)),
                line,
            );
        }
    }
    house
}

fn draw(
    house: &mut House,
    (path, module): (&[String], &Module),
    (target, file): (&[String], &str),
    line: usize,
) {
    // A file is part of its parents, and what a tests-only path leads to is no arrow.
    if path.starts_with(target) {
        return;
    }
    let arrows = house.files.entry(module.file.clone()).or_default();
    arrows.entry(file.to_owned()).or_insert(line);
    if let (Some(from), Some(to)) = (path.first(), target.first())
        && from != to
    {
        let arrows = house.rooms.entry(from.clone()).or_default();
        let tie = (module.file.clone(), line);
        arrows.entry(to.clone()).or_insert(tie);
    }
}

fn line_of(text: &str, what: &str) -> usize {
    text.find(what).map_or(1, |at| crate::scan::line(text, at))
}
