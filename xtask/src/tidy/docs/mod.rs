//! Documents keep their word: one title each, links that lead somewhere, commands that exist.
//!
//! *The idea.* Markdown is read by lines, as far as headings, fences and inline links; that is all
//! these checks need.

mod commands;
mod help;
#[cfg(test)]
mod tests;

pub use commands::{Built, check as check_commands};

use super::{File, Finding};
use crate::place;

/// Returns a finding unless the document has exactly one `# Title`.
pub fn check_title(file: &File) -> Option<Finding> {
    let titles: Vec<usize> = headings(&file.text)
        .into_iter()
        .filter(|(_, t)| t.starts_with("# "))
        .map(|h| h.0)
        .collect();
    match titles[..] {
        [_] => None,
        [] => Some(Finding::new(
            &file.path,
            1,
            "the document has no `# Title`: give it one, as its first heading",
        )),
        [_, second, ..] => Some(Finding::new(
            &file.path,
            second,
            "a second `# Title`: make it a `## Section`",
        )),
    }
}

/// Returns the headings outside fences, each with its line from 1 and its `#` marks.
pub fn headings(text: &str) -> Vec<(usize, &str)> {
    let is_heading =
        |line: &str| line.trim_start_matches('#').starts_with(' ') && line.starts_with('#');
    prose(text)
        .into_iter()
        .filter(|(_, line)| is_heading(line))
        .collect()
}

/// Returns the lines outside fences and comments, each with its number from 1.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mark = line.trim_start();
        match fence {
            Some(open) if mark.starts_with(open) => fence = None,
            Some(_) => {}
            None if mark.starts_with("```") => fence = Some("```"),
            None if mark.starts_with("~~~") => fence = Some("~~~"),
            None if mark.starts_with("<!--") && !mark.contains("-->") => fence = Some("-->"),
            None => lines.push((at + 1, line)),
        }
    }
    lines
}

/// Returns the anchor that a heading gets on the usual code hosts.
pub fn slug(title: &str) -> String {
    let kept = title
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Returns the relative links that lead nowhere.
pub fn check_links(files: &[File]) -> Vec<Finding> {
    check_links_in(files, &|path| place::root().join(path).exists())
}

fn check_links_in(files: &[File], exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is("md")) {
        for (line, text) in prose(&file.text) {
            for target in targets(&without_code(text)) {
                if let Some(text) = dead(&target, file, files, exists) {
                    findings.push(Finding::new(&file.path, line, text));
                }
            }
        }
    }
    findings
}

fn without_code(line: &str) -> String {
    // What stands between two backticks is at the odd places.
    line.split('`')
        .enumerate()
        .map(|(at, part)| if at % 2 == 0 { part } else { "" })
        .collect()
}

/// Returns the targets of `[text](target)`, `[name]: target`, `src="target"` and `href="target"`.
fn targets(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (open, shut) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
        let starts = line
            .match_indices(open)
            .map(|(at, _)| &line[at + open.len()..]);
        found.extend(starts.filter_map(|rest| Some(rest[..rest.find(shut)?].to_owned())));
    }
    if let Some((_, target)) = line.split_once("]: ").filter(|_| line.starts_with('[')) {
        found.push(target.to_owned());
    }
    found
        .into_iter()
        .filter_map(|target| target.split_whitespace().next().map(str::to_owned))
        .collect()
}

fn dead(
    target: &str,
    file: &File,
    files: &[File],
    exists: &dyn Fn(&str) -> bool,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = resolve(&file.path, path) else {
        return Some(format!(
            "the link `{target}` leaves the repository: link something inside, or write the full address"
        ));
    };
    if !exists(&path) {
        return Some(format!(
            "the link `{target}` leads to {path}, which does not exist: correct it or write that file"
        ));
    }
    let page = files
        .iter()
        .find(|file| file.path == path && file.is("md"))?;
    let found = headings(&page.text)
        .into_iter()
        .any(|(_, title)| slug(title.trim_start_matches('#')) == anchor);
    (!anchor.is_empty() && !found).then(|| {
        format!("{path} has no heading for `#{anchor}`: correct the link, or name the heading so")
    })
}

/// Returns the path from the root; an empty link is the file itself; `None` if it leads out.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(from.to_owned());
    }
    let mut folders: Vec<&str> = if link.starts_with('/') {
        Vec::new()
    } else {
        from.split('/').collect()
    };
    folders.pop();
    for part in link
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
    {
        match part {
            ".." => folders.pop().map(|_| ())?,
            _ => folders.push(part),
        }
    }
    Some(folders.join("/"))
}
