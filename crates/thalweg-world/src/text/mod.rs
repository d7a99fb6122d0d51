//! Parses text to values, and reports mistakes with file, line and key.
//!
//! *The idea.* A mistake is found either by the parser, which knows an offset, or by a check of the
//! value, which knows a key. A `map` of the text converts between the two, so both are reported
//! alike. The map is built only when there is a mistake.
//!
//! *What it does not do.* It opens no file.

mod map;

use std::fmt;

use serde::de::DeserializeOwned;
use thalweg_planner::model::visible;

use map::Map;

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON of the same structure.
    Json,
}

/// A mistake in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The file, as named by the caller.
    pub file: String,
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
    /// The key, such as `link[0].rate`; empty if the mistake concerns none.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

impl std::error::Error for TextError {}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The file may be untrusted, and its keys are part of the message: none may control the
        // terminal or break the line.
        let shown = |text: &str| visible(text).replace('\n', "\\n");
        f.write_str(&shown(&self.file))?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        if !self.path.is_empty() {
            write!(f, "{}: ", shown(&self.path))?;
        }
        f.write_str(&shown(&self.message))
    }
}

impl Format {
    /// Returns JSON for a name that ends in `.json`, TOML for any other.
    pub fn of_file_name(name: &str) -> Self {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension);
        if extension.is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
            Self::Json
        } else {
            Self::Toml
        }
    }
}

/// Parses a value from TOML.
pub fn from_toml<T: DeserializeOwned>(text: &str, file_name: &str) -> Result<T, TextError> {
    toml::from_str(text).map_err(|error| {
        let offset = error.span().map(|span| span.start);
        at_offset(text, Format::Toml, file_name, offset, error.message())
    })
}

/// Parses a value from JSON.
pub fn from_json<T: DeserializeOwned>(text: &str, file_name: &str) -> Result<T, TextError> {
    serde_json::from_str(text).map_err(|error| {
        // The parser stops after the rejected token, so the last byte consumed is inside it.
        let line = text.split_inclusive('\n').take(error.line().max(1) - 1);
        let before: usize = line.map(str::len).sum();
        let offset = (before + error.column().saturating_sub(1)).min(text.len());
        // The parser appends its own position to the message; ours has line and key.
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = message.strip_suffix(&place).unwrap_or(&message);
        at_offset(text, Format::Json, file_name, Some(offset), message)
    })
}

/// Parses a value from text in either format.
pub fn from_str<T: DeserializeOwned>(
    text: &str,
    format: Format,
    file_name: &str,
) -> Result<T, TextError> {
    match format {
        Format::Toml => from_toml(text, file_name),
        Format::Json => from_json(text, file_name),
    }
}

/// Returns the error that a value parsed from `text` is wrong at a key, such as `link[0].ends[1]`.
///
/// A key that is absent (its default is wrong) is reported at the nearest enclosing key.
pub fn error_at(
    text: &str,
    format: Format,
    file_name: &str,
    path: &str,
    message: &str,
) -> TextError {
    let offset = Map::of(text, format).offset_of(path);
    TextError {
        file: file_name.to_owned(),
        line: offset.map(|offset| line_of(text, offset)),
        path: path.to_owned(),
        message: message.to_owned(),
    }
}

fn at_offset(
    text: &str,
    format: Format,
    file_name: &str,
    offset: Option<usize>,
    message: &str,
) -> TextError {
    let map = Map::of(text, format);
    let path = offset.and_then(|offset| map.path_at(offset));
    TextError {
        file: file_name.to_owned(),
        line: offset.map(|offset| line_of(text, offset)),
        path: path.unwrap_or_default(),
        message: message.trim_end().replace('\n', "; "),
    }
}

/// Returns the line of a byte, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    before.split(|byte| *byte == b'\n').count()
}
