//! Plain words: what a comment may not say, how wide it may be, and how long a test's name may be.
//!
//! *The idea.* A comment reads like the field's own English if its sentences have subjects with
//! names. That cannot be checked; what riddles are made of can be counted: pronouns for machines,
//! and relative pronouns where a noun should stand. The counts are those of codebases that read well.

use super::{File, Finding};
use crate::scan::{self, Language};

/// Comments end here, in every language; rustfmt ends code at 100.
const COLUMNS_MAX: usize = 110;

/// Words that no comment and no document needs, and what to write.
const NEVER: [(&str, &str); 4] = [
    ("he", "name the machine, or write `it`"),
    ("him", "name the machine, or write `it`"),
    ("his", "name the machine, or write `its`"),
    ("anew", "write `again`"),
];

/// Words for people: at most so many in 1,000 lines of comments.
const PEOPLE: [&str; 4] = ["who", "whom", "whose", "whoever"];
const PEOPLE_PER_1000_MAX: usize = 2;

/// Characters of a test's name, at most and in the middle.
const TEST_NAME_MAX: usize = 60;
const TEST_NAME_MEDIAN_MAX: usize = 35;

/// Returns what is wrong with the words of one file, if it is a document or has comments.
pub fn check(file: &File) -> Vec<Finding> {
    if file.is("md") {
        return never(file, &file.text.to_lowercase());
    }
    if let Some(language) = Language::of(&file.path) {
        let comments = scan::comments(&file.text, language);
        let mut findings = never(file, &comments.to_lowercase());
        findings.extend(long_comments(file, &comments));
        return findings;
    }
    if !file.is("rs") {
        return Vec::new();
    }
    let views = file.views();
    let mut findings = never(file, &views.comments.to_lowercase());
    findings.extend(long_comments(file, &views.comments));
    for (name, line) in test_names(&views.code) {
        if name.len() > TEST_NAME_MAX {
            let text = format!(
                "`{name}` has {} characters: name the test `subject_verb_result` in at most {TEST_NAME_MAX}",
                name.len()
            );
            findings.push(Finding::new(&file.path, line, text));
        }
    }
    findings
}

/// Returns the comments that are too wide, by the view of a file's comments.
fn long_comments(file: &File, comments: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, (comment, line)) in comments.lines().zip(file.text.lines()).enumerate() {
        // What is quoted stands as in its source, and an address cannot be broken.
        let is_fixed = comment.trim_start().starts_with("//#") || comment.contains("://");
        let columns = line.chars().count();
        if !comment.trim().is_empty() && columns > COLUMNS_MAX && !is_fixed {
            let text =
                format!("a comment of {columns} columns: break it before column {COLUMNS_MAX}");
            findings.push(Finding::new(&file.path, at + 1, text));
        }
    }
    findings
}

/// Returns what is wrong with all sources together.
pub fn check_all(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut lines, mut people, mut names) = (0, Vec::new(), Vec::new());
    for file in files.iter().filter(|file| file.is("rs")) {
        let views = file.views();
        let comments = views.comments.to_lowercase();
        lines += comments
            .lines()
            .filter(|line| !line.trim().is_empty())
            .count();
        for word in PEOPLE {
            let found = scan::words(&comments, word).into_iter();
            people.extend(found.map(|at| {
                let text = format!("`{word}` is for people: name the subject");
                Finding::new(&file.path, scan::line(&comments, at), text)
            }));
        }
        names.extend(
            test_names(&views.code)
                .into_iter()
                .map(|(name, _)| name.len()),
        );
    }
    let most = lines * PEOPLE_PER_1000_MAX / 1_000;
    if people.len() > most {
        let text = format!(
            "{} comments say {} in {lines} lines, and {most} may: name the subjects of those listed with this",
            people.len(),
            PEOPLE.join(", ")
        );
        findings.extend(people);
        findings.push(Finding::new("xtask/src/tidy/words.rs", 1, text));
    }
    names.sort_unstable();
    if let Some(&median) = names
        .get(names.len() / 2)
        .filter(|median| **median > TEST_NAME_MEDIAN_MAX)
    {
        let text = format!(
            "half of the tests have names of {median} characters and more, and {TEST_NAME_MEDIAN_MAX} is the bound: shorten some"
        );
        findings.push(Finding::new("xtask/src/tidy/words.rs", 1, text));
    }
    findings
}

fn never(file: &File, lowercase: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (word, instead) in NEVER {
        for at in scan::words(lowercase, word) {
            let text = format!("`{word}`: {instead}");
            findings.push(Finding::new(&file.path, scan::line(lowercase, at), text));
        }
    }
    findings
}

/// Returns the names of the tests in a code view, each with its line from 1.
fn test_names(code: &str) -> Vec<(String, usize)> {
    let mut names = Vec::new();
    let mut is_test = false;
    for (at, line) in code.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.contains("::test");
            continue;
        }
        let function = line.split_once("fn ").filter(|(before, _)| {
            let mut words = before.split_whitespace();
            words.all(|word| ["pub", "async", "const", "unsafe"].contains(&word))
        });
        if let Some((_, rest)) = function.filter(|_| is_test) {
            let is_name = |c: &char| c.is_alphanumeric() || *c == '_';
            names.push((rest.chars().take_while(is_name).collect(), at + 1));
        }
        is_test &= line.is_empty();
    }
    names
}
