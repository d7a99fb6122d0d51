//! A minimal Rust lexer: separates code, comments and strings, and finds functions, tests and paths.
//!
//! Every byte is code, comment or string. Each view keeps the length and the line breaks of the text
//! and blanks the rest, so an offset or a line number is the same in all views, and a brace in a string
//! does not unbalance a function. It expands no macros and resolves no names.

mod functions;
mod paths;
mod scripts;
#[cfg(test)]
mod tests;

pub use functions::{Function, functions};
pub use paths::{NamedPath, paths};
pub use scripts::{Language, comments};

/// A source file in two views of equal length.
pub struct Views {
    /// Code, with comments blanked and the contents of strings and characters replaced by quotation marks.
    pub code: String,
    /// Comments, with everything else blanked.
    pub comments: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Text,
}

/// Splits a source file into its views.
pub fn views(source: &str) -> Views {
    let bytes = source.as_bytes();
    let (mut code, mut comments) = (
        Vec::with_capacity(bytes.len()),
        Vec::with_capacity(bytes.len()),
    );
    let mut at = 0;
    while at < bytes.len() {
        let (kind, end) = token(bytes, at);
        for &byte in &bytes[at..end] {
            let blank = if byte == b'\n' { b'\n' } else { b' ' };
            code.push(match kind {
                Kind::Code => byte,
                Kind::Comment => blank,
                Kind::Text => {
                    if byte == b'\n' {
                        byte
                    } else {
                        b'"'
                    }
                }
            });
            comments.push(if kind == Kind::Comment { byte } else { blank });
        }
        at = end;
    }
    let text = |view: Vec<u8>| {
        String::from_utf8(view).expect("whole tokens are kept or replaced by ASCII")
    };
    Views {
        code: text(code),
        comments: text(comments),
    }
}

/// Returns the kind and the end of the token at `at`; a code token is one character or one word.
fn token(bytes: &[u8], at: usize) -> (Kind, usize) {
    let rest = &bytes[at..];
    match rest[0] {
        b'/' if rest.starts_with(b"//") => {
            (Kind::Comment, at + find(rest, b"\n").unwrap_or(rest.len()))
        }
        b'/' if rest.starts_with(b"/*") => (Kind::Comment, at + block_comment(rest)),
        b'"' => (Kind::Text, at + string(rest)),
        b'\'' => character(rest).map_or((Kind::Code, at + 1), |length| (Kind::Text, at + length)),
        byte if is_word(byte) => {
            let word = rest.iter().take_while(|&&b| is_word(b)).count();
            let raw = matches!(&rest[..word], b"r" | b"br" | b"cr");
            match raw.then(|| raw_string(&rest[word..])).flatten() {
                Some(length) => (Kind::Text, at + word + length),
                None => (Kind::Code, at + word),
            }
        }
        _ => (Kind::Code, at + 1),
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of `#"…"#` after an `r`; `None` if it is a raw identifier.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest.iter().take_while(|&&b| b == b'#').count();
    (rest.get(hashes) == Some(&b'"')).then(|| {
        let close = [b"\"".as_slice(), &rest[..hashes]].concat();
        let start = hashes + 1;
        find(&rest[start..], &close).map_or(rest.len(), |length| start + length + close.len())
    })
}

/// Returns the length of a character literal; `None` if the quote begins a lifetime or a label.
fn character(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        return find(rest.get(3..)?, b"'").map(|length| 3 + length + 1);
    }
    let text = std::str::from_utf8(&rest[1..rest.len().min(6)]);
    let text = text
        .or_else(|error| std::str::from_utf8(&rest[1..=error.valid_up_to()]))
        .ok()?;
    let length = 1 + text.chars().next()?.len_utf8();
    (rest.get(length) == Some(&b'\'')).then_some(length + 1)
}

/// Returns the code with every `#[cfg(test)]` item blanked.
pub fn without_tests(code: &str) -> String {
    let mut left = code.to_owned();
    let mut from = 0;
    while let Some(start) = left[from..].find("#[cfg(test)]").map(|at| from + at) {
        let end = item_end(&left, start + "#[cfg(test)]".len());
        let blank: String = left[start..end]
            .chars()
            .map(|c| if c == '\n' { '\n' } else { ' ' })
            .collect();
        left.replace_range(start..end, &blank);
        from = start;
    }
    left
}

const ITEM_WORDS: [&str; 14] = [
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "macro_rules",
    "mod",
    "pub",
    "static",
    "struct",
    "trait",
    "type",
    "use",
];

/// Returns the end of the item that starts after `from`: after its block or semicolon, or before its comma.
fn item_end(code: &str, from: usize) -> usize {
    let first = code[from..]
        .find(|c: char| !c.is_whitespace())
        .map_or(code.len(), |at| from + at);
    if code[first..].starts_with("#[") {
        return item_end(
            code,
            first + bracket_length(&code[first + 1..], b'[', b']') + 1,
        );
    }
    let word: String = code[first..]
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    let is_item = ITEM_WORDS.contains(&word.as_str());
    if word == "use" {
        return code[first..]
            .find(';')
            .map_or(code.len(), |at| first + at + 1);
    }
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(first) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => return at,
            b')' | b']' => depth -= 1,
            b',' if depth == 0 && !is_item => return at,
            b';' if depth == 0 => return at + 1,
            b'{' if depth == 0 => return at + bracket_length(&code[at..], b'{', b'}'),
            _ => {}
        }
    }
    code.len()
}

/// Returns the length from an opening bracket to the end of its closing bracket.
pub fn bracket_length(code: &str, open: u8, close: u8) -> usize {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate() {
        depth += i32::from(byte == open) - i32::from(byte == close);
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// Returns the line, from 1, of a byte offset.
pub fn line(text: &str, offset: usize) -> usize {
    1 + text[..offset].matches('\n').count()
}

/// Returns the offsets at which `word` stands alone.
pub fn words(text: &str, word: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let edge = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at))
            .is_none_or(|&byte| !is_word(byte))
    };
    let offsets = text.match_indices(word).map(|(at, _)| at);
    offsets
        .filter(|&at| edge(at.checked_sub(1)) && edge(Some(at + word.len())))
        .collect()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}
