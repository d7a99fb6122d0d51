//! Finds functions and counts their lines of code.
//!
//! Counts as clippy's `too_many_lines` does: lines strictly inside the body that contain code. Blank
//! lines and comments do not count, so comments are never shortened to meet a limit.

use super::{bracket_length, line, words};

/// A function with a body.
#[derive(Debug, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// Lines of code inside its body.
    pub code_lines: usize,
}

/// Returns the functions in the code view of [`super::views`], nested ones included.
pub fn functions(code: &str) -> Vec<Function> {
    words(code, "fn")
        .into_iter()
        .filter_map(|at| function(code, at))
        .collect()
}

fn function(code: &str, at: usize) -> Option<Function> {
    let rest = code[at + 2..].trim_start();
    // `fn(` is a function pointer type.
    let name: String = rest
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    let body = (!name.is_empty()).then(|| body(code, at))??;
    let inside = code[body..body + bracket_length(&code[body..], b'{', b'}')]
        .lines()
        .collect::<Vec<_>>();
    let inner = inside.get(1..inside.len() - 1).unwrap_or_default();
    let code_lines = inner.iter().filter(|line| !line.trim().is_empty()).count();
    Some(Function {
        name,
        line: line(code, at),
        code_lines,
    })
}

/// Returns the offset of the body's opening brace; `None` for a declaration without one.
fn body(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if depth == 0 => return None,
            b'{' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}
