//! What there is too much of today, held by a ratchet: it is written down, and more is refused.
//!
//! *Sources.* The limits: of the codebases this one imitates, one function in fifty passes 70 lines
//! and a median file has about 190; clippy's `too_many_lines` has the same 70 and asks for a reason
//! at each exception.

use super::{File, Finding};
use crate::scan;

const RATCHET: &str = "xtask/ratchet.toml";
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;

/// One thing of which there is too much.
pub struct Excess {
    /// Where, and what to do.
    pub finding: Finding,
    /// By how much it is over its bound: lines, files, methods or circles.
    pub amount: usize,
}

/// Returns what is longer than the ratchet admits, or how to tighten it.
pub fn check(files: &[File]) -> Vec<Finding> {
    let sources: Vec<&File> = files.iter().filter(|file| file.is("rs")).collect();
    let functions: Vec<Excess> = sources
        .iter()
        .flat_map(|file| long_functions(file))
        .collect();
    let long: Vec<Excess> = sources.iter().filter_map(|file| long_file(file)).collect();
    let text = written(files);
    let mut findings = hold(text, "function_lines_over_70", functions);
    findings.extend(hold(text, "file_lines_over_600", long));
    findings
}

/// Returns the text in which the excess of today is written down.
pub fn written(files: &[File]) -> &str {
    let ratchet = files.iter().find(|file| file.path == RATCHET);
    ratchet.map_or("", |file| &file.text)
}

fn long_functions(file: &File) -> Vec<Excess> {
    let functions = scan::functions(&file.views().code).into_iter();
    let long = functions.filter(|function| function.code_lines > FUNCTION_LINES_MAX);
    let excess = |function: scan::Function| {
        let text = format!(
            "`{}` has {} lines of code, over {FUNCTION_LINES_MAX}: push its `if`s up and its `for`s down into functions of their own",
            function.name, function.code_lines
        );
        let finding = Finding::new(&file.path, function.line, text);
        Excess {
            finding,
            amount: function.code_lines - FUNCTION_LINES_MAX,
        }
    };
    long.map(excess).collect()
}

fn long_file(file: &File) -> Option<Excess> {
    let lines = file.text.lines().count();
    let text = format!(
        "{lines} lines, over {FILE_LINES_MAX}: split it by idea, into a folder with a `mod.rs`"
    );
    let finding = Finding::new(&file.path, 1, text);
    (lines > FILE_LINES_MAX).then(|| Excess {
        finding,
        amount: lines - FILE_LINES_MAX,
    })
}

/// Compares an excess with the number written under `key`.
pub fn hold(ratchet: &str, key: &str, excesses: Vec<Excess>) -> Vec<Finding> {
    let line = ratchet.lines().position(|line| {
        line.split('=')
            .next()
            .is_some_and(|found| found.trim() == key)
    });
    let written = line.and_then(|at| {
        ratchet
            .lines()
            .nth(at)?
            .split('=')
            .nth(1)?
            .trim()
            .parse::<usize>()
            .ok()
    });
    let line = line.map_or(1, |at| at + 1);
    let total: usize = excesses.iter().map(|excess| excess.amount).sum();
    match written {
        None => vec![Finding::new(
            RATCHET,
            line,
            format!("there is no `{key} = NUMBER`: write `{key} = {total}`"),
        )],
        Some(written) if total > written => {
            let mut findings: Vec<Finding> =
                excesses.into_iter().map(|excess| excess.finding).collect();
            let text = format!(
                "`{key}` has grown from {written} to {total}: mend what is listed with this"
            );
            findings.push(Finding::new(RATCHET, line, text));
            findings
        }
        Some(written) if total < written => {
            vec![Finding::new(
                RATCHET,
                line,
                format!("`{key}` is down to {total}: write `{key} = {total}`, to keep it so"),
            )]
        }
        Some(_) => Vec::new(),
    }
}
