//! Nothing below the purity line asks the machine: time, seeds and bytes arrive as arguments.
//!
//! *The idea.* `#![no_std]` proves it for most crates there; clippy's `disallowed-*` lists catch
//! the calls they name; this check catches the modules, also the ones that nobody thought of
//! listing. Tests, examples and benches are free.

use super::{File, Finding, graph};
use crate::scan;

/// A path that may not be named, and what to do instead.
const FORBIDDEN: &[(&[&str], &str)] = &[
    (&["std", "env"], "take the setting as an argument"),
    (
        &["std", "fs"],
        "take the bytes as an argument, and let the caller read the file",
    ),
    (
        &["std", "net"],
        "sockets belong to thalweg-net; addresses are in `core::net`",
    ),
    (
        &["std", "os"],
        "the operating system belongs to thalweg-net and above",
    ),
    (&["std", "process"], "processes belong to the binary"),
    (
        &["std", "thread"],
        "threads belong to thalweg-net and above",
    ),
    (
        &["std", "time", "Instant"],
        "take a `thalweg_base::time::Instant` as an argument",
    ),
    (
        &["std", "time", "UNIX_EPOCH"],
        "take a `thalweg_base::time::Instant` as an argument",
    ),
    (
        &["std", "time", "*"],
        "take a `thalweg_base::time::Instant` as an argument",
    ),
    (
        &["SystemTime"],
        "take a `thalweg_base::time::Instant` as an argument",
    ),
    (
        &["HashMap"],
        "its order changes from run to run: use a BTreeMap, or a Vec by dense id",
    ),
    (
        &["HashSet"],
        "its order changes from run to run: use a BTreeSet, or a Vec by dense id",
    ),
    (
        &["RandomState"],
        "its seed comes from the machine: use a BTreeMap, or take the seed as an argument",
    ),
    (
        &["SystemRandom"],
        "take the seed, key or nonce as an argument",
    ),
    (
        &["aws_lc_rs", "rand"],
        "take the seed, key or nonce as an argument",
    ),
    (&["getrandom"], "take the seed as an argument"),
    (&["rand"], "take the seed as an argument"),
    (
        &["tokio"],
        "nothing waits below the purity line: return from `poll_timeout` when to come back",
    ),
];

/// Files that may name one forbidden path, and why.
const ALLOWED: &[(&str, &[&str])] = &[
    // noq's times are `std::time::Instant`, which has no constant: virtual time is counted from one
    // that is read once, and no decision sees which it was.
    (
        "crates/thalweg-sim/src/transport/time.rs",
        &["std", "time", "Instant"],
    ),
];

/// Returns what a file below the purity line may not name.
pub fn check(file: &File) -> Vec<Finding> {
    let pure = |name: &&&str| file.path.starts_with(&format!("crates/{name}/src/"));
    let Some(name) = graph::PURE.iter().find(pure) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    if !file.is_proof() {
        for path in scan::paths(file.code()) {
            if let Some((forbidden, instead)) = FORBIDDEN
                .iter()
                .find(|(forbidden, _)| names(&path, forbidden))
                .filter(|(forbidden, _)| !ALLOWED.contains(&(file.path.as_str(), *forbidden)))
            {
                let text = format!(
                    "`{}` in {name}, below the purity line: {instead}",
                    forbidden.join("::")
                );
                findings.push(Finding::new(&file.path, path.line, text));
            }
        }
    }
    if graph::NO_STD.contains(name) && file.path == format!("crates/{name}/src/lib.rs") {
        findings.extend(no_std_attributes(name, file));
    }
    findings
}

/// Whether a path begins with the forbidden one; a single capitalised name is forbidden wherever it stands.
fn names(path: &scan::NamedPath, forbidden: &[&str]) -> bool {
    let segments = &path.segments;
    match forbidden {
        [name] if name.starts_with(char::is_uppercase) => {
            segments.iter().any(|segment| segment == name)
        }
        // A variable may be called `rand`; a crate is followed by something.
        [name] => segments.len() > 1 && segments[0] == *name,
        _ => {
            segments.len() >= forbidden.len() && forbidden.iter().zip(segments).all(|(a, b)| a == b)
        }
    }
}

fn no_std_attributes(name: &str, file: &File) -> Vec<Finding> {
    let missing = ["#![no_std]", "#![forbid(unsafe_code)]"]
        .into_iter()
        .filter(|a| !file.text.lines().any(|l| l == *a));
    let text =
        |attribute: &str| format!("`{name}` has lost `{attribute}`: put it back under the header");
    missing
        .map(|attribute| Finding::new(&file.path, 1, text(attribute)))
        .collect()
}
