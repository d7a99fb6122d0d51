//! What every source file of the house has, and what none has.

use super::{File, Finding};
use crate::scan;

/// Words that no comment may hold, and what to do.
const UNFINISHED: [(&str, &str); 2] = [
    (
        "TODO",
        "do it, or file it and describe today's behaviour here",
    ),
    ("FIXME", "put it right"),
];

/// Returns what is wrong with one Rust file.
pub fn check(file: &File) -> Vec<Finding> {
    let views = file.views();
    let mut faults = Vec::new();
    if !file.text.starts_with("//!") {
        let text = "the file does not open with `//!`: say what it is, the idea, what it does not do, its sources";
        faults.push((0, text.to_owned()));
    }
    for (word, instead) in UNFINISHED {
        let found = scan::words(&views.comments, word).into_iter();
        faults.extend(found.map(|at| (at, format!("{word}: {instead}"))));
    }
    for name in ["todo", "unimplemented", "dbg"] {
        let calls = scan::words(&views.code, name).into_iter();
        let calls = calls.filter(|at| views.code[at + name.len()..].starts_with('!'));
        let text = format!("`{name}!` has no place in what lands: finish it or take it out");
        faults.extend(calls.map(|at| (at, text.clone())));
    }
    let text = "`#[ignore]`: assert today's behaviour and say why it is wrong, or delete the test";
    faults.extend(
        views
            .code
            .match_indices("#[ignore")
            .map(|(at, _)| (at, text.to_owned())),
    );
    // rustfmt breaks a long attribute over lines, so white space does not count.
    let dense: String = file.text.split_whitespace().collect();
    if !dense.contains("#![expect(unsafe_code,reason") {
        let text = "`unsafe` in a file that does not announce it: avoid it, or open the file with `#![expect(unsafe_code, reason = \"…\")]` and give each block its proof";
        faults.extend(
            scan::words(&views.code, "unsafe")
                .into_iter()
                .map(|at| (at, text.to_owned())),
        );
    }
    let finding =
        |(at, text): (usize, String)| Finding::new(&file.path, scan::line(&file.text, at), text);
    faults.into_iter().map(finding).collect()
}

/// Returns each `foo.rs` that stands beside a folder `foo/`.
pub fn check_folders(files: &[File]) -> Vec<Finding> {
    let folder = |stem: &str| {
        files.iter().any(|file| {
            file.path
                .strip_prefix(stem)
                .is_some_and(|p| p.starts_with('/'))
        })
    };
    let stems = files
        .iter()
        .filter_map(|file| Some((file, file.path.strip_suffix(".rs")?)));
    let beside = stems.filter(|(_, stem)| folder(stem));
    let text =
        |stem: &str| format!("this stands beside the folder `{stem}/`: move it to `{stem}/mod.rs`");
    beside
        .map(|(file, stem)| Finding::new(&file.path, 1, text(stem)))
        .collect()
}
