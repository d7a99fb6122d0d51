//! A sentence that code quotes from a specification still stands there.
//!
//! ```text
//! //= docs/protocol.md#deadlines
//! //# A node that holds an ADU longer than its remaining budget discards it.
//! ```
//!
//! *The idea.* The anchor is a heading's slug or its number (`#7.3`); the sentence must stand under
//! that heading, below it and its own sub-headings. Line breaks, emphasis and code marks do not
//! count. Quotes of other documents (RFCs) name no file of ours and are left alone.

use super::{File, Finding};

struct Quote {
    line: usize,
    target: String,
    sentence: String,
}

/// Returns the quotes whose file, heading or sentence is gone.
pub fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is("rs")) {
        for quote in quotes(file) {
            if let Some(text) = fault(&quote, files) {
                findings.push(Finding::new(&file.path, quote.line, text));
            }
        }
    }
    findings
}

fn quotes(file: &File) -> Vec<Quote> {
    let comments = &file.views().comments;
    let mut found: Vec<Quote> = Vec::new();
    let mut open = false;
    for (at, line) in comments.lines().enumerate() {
        let line = line.trim();
        if let Some(target) = line.strip_prefix("//=") {
            found.push(Quote {
                line: at + 1,
                target: target.trim().to_owned(),
                sentence: String::new(),
            });
            open = true;
        } else if let (Some(words), true, Some(quote)) =
            (line.strip_prefix("//#"), open, found.last_mut())
        {
            quote.sentence = format!("{} {}", quote.sentence, words.trim());
        } else {
            open = false;
        }
    }
    found.retain(|quote| quote.target.starts_with("docs/"));
    found
}

fn fault(quote: &Quote, files: &[File]) -> Option<String> {
    let (path, anchor) = quote.target.split_once('#').unwrap_or((&quote.target, ""));
    let Some(spec) = files.iter().find(|file| file.path == path) else {
        return Some(format!(
            "the quoted document {path} does not exist: correct the path, or write the document"
        ));
    };
    let Some(section) = section(&spec.text, anchor) else {
        return Some(format!(
            "{path} has no heading `#{anchor}`: quote the heading that holds the sentence now"
        ));
    };
    let sentence = plain(&quote.sentence);
    if sentence.is_empty() {
        return Some("a `//=` line without a `//#` sentence under it: quote the sentence".into());
    }
    let stands = plain(section).contains(&sentence);
    (!stands).then(|| {
        format!("{path}#{anchor} no longer says \"{sentence}\": read what it says now, and change the code or the quote")
    })
}

/// Returns the text under a heading, down to the next heading of its level or above; all of it
/// without an anchor.
fn section<'a>(text: &'a str, anchor: &str) -> Option<&'a str> {
    if anchor.is_empty() {
        return Some(text);
    }
    let mut start: Option<(usize, usize)> = None;
    for (line, title) in super::docs::headings(text) {
        let level = title.len() - title.trim_start_matches('#').len();
        let offset = line_offset(text, line);
        match start {
            Some((from, above)) if level <= above => return Some(&text[from..offset]),
            None if anchored(title, anchor) => start = Some((offset, level)),
            _ => {}
        }
    }
    start.map(|(from, _)| &text[from..])
}

fn anchored(title: &str, anchor: &str) -> bool {
    let title = title.trim_start_matches('#').trim();
    let number = title
        .split_whitespace()
        .next()
        .unwrap_or("")
        .trim_start_matches('§')
        .trim_end_matches('.');
    super::docs::slug(title) == anchor
        || (number == anchor && number.starts_with(|c: char| c.is_ascii_digit()))
}

fn line_offset(text: &str, line: usize) -> usize {
    text.split_inclusive('\n')
        .take(line - 1)
        .map(str::len)
        .sum()
}

fn plain(text: &str) -> String {
    let text: String = text.chars().filter(|c| !"*`".contains(*c)).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
