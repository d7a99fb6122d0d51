//! Every dependency has its sentence, and its version stands once, at the root.
//!
//! *The rule.* In a crate's manifest, directly above each dependency stands a comment that says why
//! it is there. One comment may speak for several lines if they follow it without a blank line or
//! another comment between. The root's
//! `[workspace.dependencies]` holds the versions, and explains only what is odd about one.

use super::{File, Finding};

/// Returns the dependencies that are unexplained or bring a version of their own.
pub fn check(file: &File) -> Vec<Finding> {
    // The fuzz crate is a workspace of its own, so it has no root to take versions from.
    let versions_at_root = !file.path.starts_with("fuzz/");
    let (mut findings, mut inside, mut explained, mut open) = (Vec::new(), false, false, 0_i32);
    for (at, line) in file.text.lines().enumerate() {
        let line = line.trim();
        if open > 0 {
            // The rest of a value that spans lines.
            open += depth(line);
        } else if line.starts_with('[') {
            inside = dependency_table(line);
            explained = false;
        } else if line.starts_with('#') {
            explained = true;
        } else if line.is_empty() {
            explained = false;
        } else if inside {
            findings.extend(dependency(file, at + 1, line, explained, versions_at_root));
            open = depth(line);
        }
    }
    findings
}

fn dependency_table(line: &str) -> bool {
    let name = line.trim_matches(['[', ']']);
    let last = name.rsplit('.').next().unwrap_or(name);
    name != "workspace.dependencies"
        && ["dependencies", "dev-dependencies", "build-dependencies"].contains(&last)
}

fn depth(line: &str) -> i32 {
    let count = |open, shut| (line.matches(open).count(), line.matches(shut).count());
    let ((a, b), (c, d)) = (count('[', ']'), count('{', '}'));
    i32::try_from(a + c).unwrap_or(0) - i32::try_from(b + d).unwrap_or(0)
}

fn dependency(
    file: &File,
    line: usize,
    text: &str,
    explained: bool,
    versions_at_root: bool,
) -> Vec<Finding> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let (name, inherits) = match key.trim().split_once('.') {
        Some((name, "workspace")) => (name, true),
        _ => (
            key.trim(),
            value.replace(' ', "").contains("workspace=true"),
        ),
    };
    let mut findings = Vec::new();
    if !explained {
        let text = format!(
            "`{name}` is not explained: write directly above it, as a comment, what it is here for"
        );
        findings.push(Finding::new(&file.path, line, text));
    }
    if versions_at_root && !inherits {
        let text = format!(
            "`{name}` brings its own version: put it under [workspace.dependencies] of the root and write `{name}.workspace = true`"
        );
        findings.push(Finding::new(&file.path, line, text));
    }
    findings
}

/// Returns the crates whose `clippy.toml` forgets a line of the root's, which it replaces.
pub fn check_clippy(files: &[File]) -> Vec<Finding> {
    let Some(root) = files.iter().find(|file| file.path == "clippy.toml") else {
        return Vec::new();
    };
    let shared = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let mut findings = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.path.ends_with("/clippy.toml"))
    {
        for line in root
            .text
            .lines()
            .filter(shared)
            .filter(|line| !file.text.lines().any(|own| own == *line))
        {
            let text = format!(
                "this replaces the root's clippy.toml and lacks its line `{line}`: repeat it here"
            );
            findings.push(Finding::new(&file.path, 1, text));
        }
    }
    findings
}
