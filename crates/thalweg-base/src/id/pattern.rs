//! Patterns of stream names: `survey/*`, `robot-?/cam/**`.
//!
//! *The idea.* A pattern has parts, as a name has. `*` stands for any characters of a part, `?` for one
//! character, and a part `**` for any number of whole parts, also none. A name is a pattern that matches
//! itself alone.
//!
//! | pattern | matches | does not match |
//! |---|---|---|
//! | `survey/*` | `survey/radar` | `survey`, `survey/a/b` |
//! | `survey/**` | `survey`, `survey/radar`, `survey/a/b` | `surveys` |
//! | `robot-?/cam*` | `robot-1/cam`, `robot-2/camera` | `robot-12/cam` |
//!
//! *Sources.* The shell's wildcards; Zenoh's key expressions have the same `**`.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use super::StreamName;
use crate::limits::STREAM_NAME_BYTES_MAX;

/// A pattern of stream names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StreamPattern(String);

/// The text is not a pattern of stream names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a pattern of stream names: use 1 to {STREAM_NAME_BYTES_MAX} of the characters a-z A-Z 0-9 . _ -, `/` between parts, `*` and `?` within a part, and `**` as a whole part"
)]
pub struct BadStreamPattern(String);

impl StreamPattern {
    /// Returns the pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the one name that it matches; `None` if it has a wildcard.
    pub fn name(&self) -> Option<StreamName> {
        self.0.parse().ok()
    }

    /// Returns whether a name matches.
    ///
    /// Cost    O(pattern × name), both at most [`STREAM_NAME_BYTES_MAX`]
    pub fn matches(&self, name: &StreamName) -> bool {
        parts_match(&self.0, name.as_str())
    }
}

/// Matches part by part. Of all `**` only the last one need be tried again: an earlier one that took more
/// parts would leave fewer for what follows the last.
fn parts_match(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (Some(pattern), Some(name));
    // Where to go on if the parts after the last `**` do not match: behind it, with one more part taken.
    let mut retry: Option<(Option<&str>, Option<&str>)> = None;
    loop {
        if let Some(("**", rest)) = pattern.map(first) {
            pattern = rest;
            retry = Some((rest, name));
            continue;
        }
        match (pattern.map(first), name.map(first)) {
            (None, None) => return true,
            (Some((wanted, rest)), Some((part, others))) if part_matches(wanted, part) => {
                (pattern, name) = (rest, others);
            }
            _ => {
                let Some((behind, Some(taken))) = retry else {
                    return false;
                };
                let (_, others) = first(taken);
                retry = Some((behind, others));
                (pattern, name) = (behind, others);
            }
        }
    }
}

/// Returns the first part, and the rest if there is one.
fn first(text: &str) -> (&str, Option<&str>) {
    match text.split_once('/') {
        Some((part, rest)) => (part, Some(rest)),
        None => (text, None),
    }
}

/// Matches the characters of one part, all ASCII.
fn part_matches(pattern: &str, part: &str) -> bool {
    let (pattern, part) = (pattern.as_bytes(), part.as_bytes());
    let (mut at, mut of) = (0, 0);
    // Where to go on if the characters after the last `*` do not match.
    let mut retry: Option<(usize, usize)> = None;
    while of < part.len() {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                retry = Some((at, of));
            }
            Some(wanted) if *wanted == b'?' || *wanted == part[of] => {
                at += 1;
                of += 1;
            }
            _ => {
                let Some((behind, taken)) = retry else {
                    return false;
                };
                retry = Some((behind, taken + 1));
                (at, of) = (behind, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|wanted| *wanted == b'*')
}

impl FromStr for StreamPattern {
    type Err = BadStreamPattern;

    fn from_str(text: &str) -> Result<Self, BadStreamPattern> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-*?".contains(c);
        let is_part = |part: &str| {
            !matches!(part, "" | "." | "..")
                && part.chars().all(allowed)
                && (part == "**" || !part.contains("**"))
        };
        if text.len() <= STREAM_NAME_BYTES_MAX && text.split('/').all(is_part) {
            Ok(Self(text.to_string()))
        } else {
            Err(BadStreamPattern(text.chars().take(80).collect()))
        }
    }
}

impl From<StreamName> for StreamPattern {
    fn from(name: StreamName) -> Self {
        Self(name.into())
    }
}

impl TryFrom<String> for StreamPattern {
    type Error = BadStreamPattern;

    fn try_from(text: String) -> Result<Self, BadStreamPattern> {
        text.parse()
    }
}

impl From<StreamPattern> for String {
    fn from(pattern: StreamPattern) -> Self {
        pattern.0
    }
}

impl fmt::Display for StreamPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
