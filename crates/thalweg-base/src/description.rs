//! What a stream carries: its encoding, its schema, and labels by which it is found.
//!
//! *The idea.* A producer states once what its ADUs are, so that a recorder, a viewer or a gateway
//! at the other end needs no further advice. Encodings have the names of MCAP and Foxglove where
//! those have one. All of it is optional: a stream without a description is a stream of bytes.
//!
//! *What it does not do.* It changes nothing on the data path, and no node checks that ADUs are
//! what their description says.
//!
//! *Sources.* design.md, "Streams have a type"; docs/reference/protocol.md §5.1.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::limits::{
    ENCODING_BYTES_MAX, LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX, SCHEMA_BYTES_MAX,
};

/// What a stream's producer says of its ADUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Description {
    /// How an ADU's payload is encoded, such as `mpegts`, `json`, `text` or `bytes`; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub encoding: String,
    /// What is encoded: the name of a message type or of a version, in the producer's words; empty
    /// if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub schema: String,
    /// Words by which the stream is found, such as `kind` = `radar`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Description {
    /// Returns a description that states the encoding only.
    pub fn encoded(encoding: &str) -> Self {
        Self {
            encoding: encoding.into(),
            ..Self::default()
        }
    }

    /// Returns whether it states nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the first key that is wrong, and why.
    pub fn fault(&self) -> Option<(&'static str, String)> {
        if !self.encoding.is_empty() && !is_word(&self.encoding, ENCODING_BYTES_MAX) {
            return Some(("encoding", no_word(ENCODING_BYTES_MAX)));
        }
        if !is_line(&self.schema, SCHEMA_BYTES_MAX) {
            return Some(("schema", no_line(SCHEMA_BYTES_MAX)));
        }
        if self.labels.len() > LABELS_MAX {
            let why = format!("a stream has at most {LABELS_MAX}");
            return Some(("label", why));
        }
        for (key, value) in &self.labels {
            if !is_word(key, LABEL_KEY_BYTES_MAX) {
                let why = format!("the key `{key}`: {}", no_word(LABEL_KEY_BYTES_MAX));
                return Some(("label", why));
            }
            if !is_line(value, LABEL_VALUE_BYTES_MAX) {
                let why = format!("the value of `{key}`: {}", no_line(LABEL_VALUE_BYTES_MAX));
                return Some(("label", why));
            }
        }
        None
    }
}

/// Returns whether text is a word of lower-case letters, digits and `.+-_/`.
fn is_word(text: &str, bytes_max: usize) -> bool {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".+-_/".contains(&byte);
    !text.is_empty() && text.len() <= bytes_max && text.bytes().all(fits)
}

/// Returns whether text can be shown on one line: it goes to terminals of other nodes.
fn is_line(text: &str, bytes_max: usize) -> bool {
    text.len() <= bytes_max && !text.chars().any(char::is_control)
}

fn no_word(bytes_max: usize) -> String {
    format!("it must be 1 to {bytes_max} lower-case letters, digits and any of `.+-_/`")
}

fn no_line(bytes_max: usize) -> String {
    format!("it must have at most {bytes_max} bytes, and no control characters")
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::Description;

    #[test]
    fn fault_names_the_key() {
        let with = |encoding: &str, schema: &str, key: &str, value: &str| Description {
            encoding: encoding.into(),
            schema: schema.into(),
            labels: [(key.to_string(), value.to_string())].into(),
        };
        let long = "x".repeat(257);
        let key_of = |one: Description| one.fault().map(|(key, _)| key);
        assert_eq!(key_of(with("json", "", "kind", "radar")), None);
        assert_eq!(key_of(with("video/mp2t", "Pose v2", "kind", "")), None);
        assert_eq!(key_of(with("JSON", "", "kind", "")), Some("encoding"));
        assert_eq!(key_of(with("json", &long, "kind", "")), Some("schema"));
        assert_eq!(key_of(with("", "\u{1b}[2J", "kind", "")), Some("schema"));
        assert_eq!(key_of(with("", "", "", "")), Some("label"));
        assert_eq!(key_of(with("", "", "kind", &long)), Some("label"));
        assert_eq!(Description::default().fault(), None);
    }
}
