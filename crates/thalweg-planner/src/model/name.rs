//! The name of a node, as written in a world, a configuration or a plan.
//!
//! *The idea.* Names are for people and files, keys ([`thalweg_base::id::NodeId`]) are for the network; a
//! plan uses names.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use thalweg_base::limits::NODE_NAME_BYTES_MAX;

/// The name of a node: `aircraft`, `relay-2`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(String);

/// The text is not a valid name of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a node's name: use 1 to {NODE_NAME_BYTES_MAX} bytes of printable text that neither begins nor ends with a space",
    .0.escape_debug()
)]
pub struct BadNodeName(String);

impl NodeName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = BadNodeName;

    fn from_str(text: &str) -> Result<Self, BadNodeName> {
        let whole = (1..=NODE_NAME_BYTES_MAX).contains(&text.len())
            && text.trim() == text
            && !text.chars().any(is_unseen);
        if whole {
            Ok(Self(text.to_string()))
        } else {
            Err(BadNodeName(text.chars().take(80).collect()))
        }
    }
}

/// Returns whether a character is invisible and affects others: a name with one could pass for
/// another, or reverse a line on a terminal. Joiners are allowed, as some scripts and emoji need
/// them.
fn is_unseen(c: char) -> bool {
    let is_format = matches!(c,
        '\u{61c}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' |
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    c.is_control() || is_format
}

/// Returns a text for people with control and invisible characters escaped; line breaks stay.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unseen(c) && c != '\n' {
            shown.extend(c.escape_debug());
        } else {
            shown.push(c);
        }
    }
    shown
}

impl TryFrom<String> for NodeName {
    type Error = BadNodeName;

    fn try_from(text: String) -> Result<Self, BadNodeName> {
        text.parse()
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
