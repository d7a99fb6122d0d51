//! Finds the paths in code, with `use` trees expanded.
//!
//! `use std::{fs, net::Ipv4Addr}` gives `std::fs` and `std::net::Ipv4Addr`.

/// A path as written, without generics.
#[derive(Debug, PartialEq)]
pub struct NamedPath {
    /// `["std", "net", "Ipv4Addr"]`.
    pub segments: Vec<String>,
    /// The line of its last segment, from 1.
    pub line: usize,
}

#[derive(Debug, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Join,
    Other(char),
}

/// Returns the paths in a code view, in order.
pub fn paths(code: &str) -> Vec<NamedPath> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        at = match tokens[at].0 {
            Token::Word("use") if !matches!(tokens.get(at + 1), Some((Token::Other('<'), _))) => {
                tree(&tokens, at + 1, &[], &mut found)
            }
            Token::Word(_) => plain(&tokens, at, &mut found),
            _ => at + 1,
        };
    }
    found
}

fn tokens(code: &str) -> Vec<(Token<'_>, usize)> {
    let (mut found, mut line, mut at) = (Vec::new(), 1, 0);
    while let Some(first) = code[at..].chars().next() {
        let rest = &code[at..];
        let length = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let (token, length) = match first {
            _ if length > 0 => (Token::Word(&rest[..length]), length),
            _ if rest.starts_with("::") => (Token::Join, 2),
            _ => (Token::Other(first), first.len_utf8()),
        };
        line += usize::from(first == '\n');
        if !first.is_whitespace() {
            found.push((token, line));
        }
        at += length;
    }
    found
}

/// Parses `a::b::c` and returns its end.
fn plain(tokens: &[(Token<'_>, usize)], mut at: usize, found: &mut Vec<NamedPath>) -> usize {
    let mut path = NamedPath {
        segments: Vec::new(),
        line: tokens[at].1,
    };
    while let Some((Token::Word(word), line)) = tokens.get(at) {
        path.segments.push((*word).to_owned());
        path.line = *line;
        at += 1;
        if !matches!(
            tokens.get(at..at + 2),
            Some([(Token::Join, _), (Token::Word(_), _)])
        ) {
            break;
        }
        at += 1;
    }
    found.push(path);
    at
}

/// Parses one branch of a `use` tree; returns its end: at a comma or closing brace, or after the semicolon.
fn tree(
    tokens: &[(Token<'_>, usize)],
    mut at: usize,
    stem: &[String],
    found: &mut Vec<NamedPath>,
) -> usize {
    let mut segments = stem.to_vec();
    let mut branched = false;
    while let Some((token, line)) = tokens.get(at) {
        match token {
            Token::Word("as") => at += 1,
            Token::Word(word) => segments.push((*word).to_owned()),
            Token::Other('*') => segments.push("*".to_owned()),
            Token::Other('{') => {
                branched = true;
                while !matches!(tokens.get(at), None | Some((Token::Other('}' | ';'), _))) {
                    at = tree(tokens, at + 1, &segments, found);
                }
            }
            Token::Other(',' | '}' | ';') => {
                if !branched && segments.len() > stem.len() {
                    found.push(NamedPath {
                        segments,
                        line: *line,
                    });
                }
                return at;
            }
            Token::Join | Token::Other(_) => {}
        }
        at += 1;
    }
    at
}
