//! Identifiers: nodes, streams, sequences, epochs.
//!
//! *The idea.* Each id is its own type, so that a sequence is never compared with an epoch. A node
//! *is* its public key. On the wire a stream is eight bytes derived from its producer's key, its
//! name and a random number, so a restarted stream is another stream; people use the name.
//!
//! *What it does not do.* It derives nothing: hashing and keys belong to `thalweg-net` and
//! `thalweg-node`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits::STREAM_NAME_BYTES_MAX;

mod pattern;
#[cfg(test)]
mod tests;

pub use pattern::{BadStreamPattern, StreamPattern};

/// A node's identity: its Ed25519 public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub [u8; 32]);

/// A stream on the wire: the first eight bytes of a hash over its producer's key, its name and a
/// random number drawn when it starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamId(pub u64);

/// The number of an ADU in its stream, from zero, without gaps at the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

/// The number of a plan of a stream; each deployed plan has a larger one than those before.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Epoch(pub u32);

/// The name of a stream as people write it: `survey/radar`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StreamName(String);

/// The text is not a valid name of a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a stream name: use 1 to {STREAM_NAME_BYTES_MAX} of the characters a-z A-Z 0-9 . _ - and / between parts, of which none is `.` or `..`"
)]
pub struct BadStreamName(String);

/// The text is not the 64 hexadecimal digits of a node's key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a node's key: it has 64 hexadecimal digits, as `thalweg id` prints them")]
pub struct BadNodeId(String);

impl StreamName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for StreamName {
    type Err = BadStreamName;

    fn from_str(text: &str) -> Result<Self, BadStreamName> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let whole = text.len() <= STREAM_NAME_BYTES_MAX
            && text
                .split('/')
                .all(|part| !matches!(part, "" | "." | "..") && part.chars().all(allowed));
        if whole {
            Ok(Self(text.to_string()))
        } else {
            Err(BadStreamName(text.chars().take(80).collect()))
        }
    }
}

impl TryFrom<String> for StreamName {
    type Error = BadStreamName;

    fn try_from(text: String) -> Result<Self, BadStreamName> {
        text.parse()
    }
}

impl From<StreamName> for String {
    fn from(name: StreamName) -> Self {
        name.0
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Hexadecimal digits of a shortened key, enough to distinguish nodes in a log and to refer to one.
const SHORT_DIGITS: usize = 10;

impl NodeId {
    /// Returns the first ten hexadecimal digits, enough to distinguish nodes in a log.
    pub fn short(&self) -> String {
        self.to_string().chars().take(SHORT_DIGITS).collect()
    }

    /// Returns whether a word is the key or a prefix of at least ten hexadecimal digits.
    fn begins_with(&self, word: &str) -> bool {
        let begins = |key: String| {
            key.get(..word.len())
                .is_some_and(|digits| digits.eq_ignore_ascii_case(word))
        };
        word.len() >= SHORT_DIGITS && begins(self.to_string())
    }

    /// Returns the nodes that a word refers to, sorted and without repetition: by key or key prefix
    /// of at least ten digits, otherwise by name.
    ///
    /// A key takes precedence over a name, since a node may choose any name.
    pub fn meant<N: AsRef<str>>(
        word: &str,
        nodes: impl IntoIterator<Item = (Self, N)>,
    ) -> Vec<Self> {
        let (mut keyed, mut named) = (Vec::new(), Vec::new());
        for (key, name) in nodes {
            if key.begins_with(word) {
                keyed.push(key);
            } else if name.as_ref() == word {
                named.push(key);
            }
        }
        let mut meant = if keyed.is_empty() { named } else { keyed };
        meant.sort_unstable();
        meant.dedup();
        meant
    }
}

impl FromStr for NodeId {
    type Err = BadNodeId;

    fn from_str(text: &str) -> Result<Self, BadNodeId> {
        let bad = || BadNodeId(text.chars().take(80).collect());
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let mut key = [0; 32];
        for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = core::str::from_utf8(digits).map_err(|_| bad())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| bad())?;
        }
        Ok(Self(key))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({})", self.short())
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamId({self})")
    }
}

impl Serialize for NodeId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
