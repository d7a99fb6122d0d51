//! The comments of files that are not Rust: TOML, Python, shell and JavaScript.
//!
//! *The idea.* A line is read from its start: texts in quotation marks are passed over, and what follows the
//! language's mark is a comment. A text of several lines is a comment in Python, where it documents what it
//! stands in, and none elsewhere. Regular expressions of JavaScript and here-documents of the shell are not
//! known.

/// How a language writes comments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// `#`; texts of several lines between three quotation marks.
    Toml,
    /// As TOML, but such texts are comments.
    Python,
    /// `#` at the start of a word.
    Shell,
    /// `//` and `/* */`; texts of several lines between back quotes.
    JavaScript,
}

impl Language {
    /// Returns a file's language by its extension; `None` for any other, Rust too.
    pub fn of(path: &str) -> Option<Language> {
        match path.rsplit_once('.')?.1 {
            "toml" => Some(Language::Toml),
            "py" => Some(Language::Python),
            "sh" => Some(Language::Shell),
            "js" | "mjs" => Some(Language::JavaScript),
            _ => None,
        }
    }
}

/// What goes on after the end of a line, until its closing mark.
#[derive(Clone, Copy)]
struct Open {
    close: &'static str,
    is_comment: bool,
}

/// Returns a view of the comments, line by line, with everything else left out.
pub fn comments(text: &str, language: Language) -> String {
    let mut open = None;
    let lines = text.lines().map(|line| comment(line, language, &mut open));
    let lines: Vec<String> = lines.collect();
    lines.join("\n")
}

/// Returns the comments of one line.
fn comment(line: &str, language: Language, open: &mut Option<Open>) -> String {
    let mut found = String::new();
    let mut rest = line;
    loop {
        if let Some(Open { close, is_comment }) = *open {
            let end = rest.find(close);
            let inside = &rest[..end.unwrap_or(rest.len())];
            if is_comment {
                found.push_str(inside);
            }
            let Some(end) = end else {
                return found;
            };
            rest = &rest[end + close.len()..];
            *open = None;
        }
        let at = rest.len() - rest.trim_start_matches(|c| !"\"'`#/".contains(c)).len();
        let starts_word = line[..line.len() - rest.len() + at]
            .chars()
            .next_back()
            .is_none_or(char::is_whitespace);
        rest = &rest[at..];
        if rest.is_empty() {
            return found;
        }
        let is_comment = match language {
            Language::JavaScript => rest.starts_with("//"),
            _ => rest.starts_with('#') && starts_word,
        };
        if is_comment {
            return found + rest;
        }
        *open = opened(rest, language);
        rest = match *open {
            Some(Open { close, .. }) => &rest[close.len()..],
            None => &rest[quoted(rest)..],
        };
    }
}

/// Returns what begins here and may end on another line.
fn opened(rest: &str, language: Language) -> Option<Open> {
    let is_comment = language == Language::Python;
    let long = |close| {
        let open = Open { close, is_comment };
        (rest.starts_with(close) && language != Language::Shell).then_some(open)
    };
    let text = |close| Open {
        close,
        is_comment: false,
    };
    match language {
        Language::JavaScript if rest.starts_with("/*") => Some(Open {
            close: "*/",
            is_comment: true,
        }),
        Language::JavaScript if rest.starts_with('`') => Some(text("`")),
        Language::JavaScript => None,
        _ => long("\"\"\"").or_else(|| long("'''")),
    }
}

/// Returns the length of the text in quotation marks that begins here; 1 if none does, or it does not end.
fn quoted(rest: &str) -> usize {
    let mark = rest.as_bytes()[0];
    if ![b'"', b'\''].contains(&mark) {
        return 1;
    }
    let mut is_escaped = false;
    for (at, &byte) in rest.as_bytes().iter().enumerate().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if byte == b'\\' {
            is_escaped = true;
        } else if byte == mark {
            return at + 1;
        }
    }
    1
}
