//! The types that an ADU has on its way from a publisher to a subscriber: a table in ARCHITECTURE.md.
//!
//! *The idea.* Each change of type costs moves, and a reader a look. So the table names every type that
//! holds a header with its payload, in order; each must be in its file, and there are few enough.
//!
//! *What it does not do.* It does not find a type that the table leaves out: a reader does.

use super::{File, Finding, rooms};

/// The line before the table.
const MARK: &str = "<!-- types of an ADU -->";

/// How often an ADU may change its type.
const CHANGES_MAX: usize = 8;

/// Checks the table.
pub fn check(files: &[File]) -> Vec<Finding> {
    let Some(map) = files.iter().find(|file| file.path == rooms::MAP) else {
        return Vec::new();
    };
    let lines = map.text.lines().enumerate();
    let behind = lines.skip_while(|(_, line)| *line != MARK).skip(1);
    let table = behind.skip_while(|(_, line)| line.is_empty());
    let rows = table.take_while(|(_, line)| line.starts_with('|')).skip(2);
    let mut findings = Vec::new();
    let mut types = 0;
    let mut last = 1;
    for (at, line) in rows {
        (types, last) = (types + 1, at + 1);
        // Behind every second backtick stands what is quoted: the type, then its file.
        let quoted: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        let [name, path, ..] = quoted[..] else {
            let text = "a row of the types of an ADU names a type and its file, in backticks";
            findings.push(Finding::new(rooms::MAP, at + 1, text));
            continue;
        };
        let path = format!("crates/thalweg-{path}");
        let file = files.iter().find(|file| file.path == path);
        let is_there = file.is_some_and(|file| {
            let words = ["struct", "enum", "fn"];
            let mut named = words.iter().map(|word| format!("{word} {name}"));
            named.any(|named| {
                let mut ends = file.code().split(named.as_str()).skip(1);
                ends.any(|end| !end.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
            })
        });
        if !is_there {
            let text = format!("`{path}` has no `{name}`: name the type that an ADU has there");
            findings.push(Finding::new(rooms::MAP, at + 1, text));
        }
    }
    if types == 0 {
        let text = format!("`{MARK}` and the table of an ADU's types are missing");
        findings.push(Finding::new(rooms::MAP, last, text));
    } else if types > CHANGES_MAX + 1 {
        let text = format!(
            "an ADU changes its type {} times, and {CHANGES_MAX} are allowed: spare one",
            types - 1
        );
        findings.push(Finding::new(rooms::MAP, last, text));
    }
    findings
}
