//! The names of adapters in a plan.
//!
//! *The idea.* Every node knows five adapters; a world may declare more by name. The name is stored
//! inline, so an adapter is a small value that is copied, compared and sorted without a table.
//! Adapters sort like their texts, because the planner's tie-break is by text.
//!
//! *What it does not do.* The effect and the cost of an adapter are in the `Catalogue`.
//!
//! *Sources.* docs/concepts/planner.md §2, §3.

use alloc::string::{String, ToString};
use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use thalweg_base::limits::ADAPTER_NAME_BYTES_MAX;

/// Index of the number in `keep:3`.
const KEEP_DIGITS_AT: usize = "keep:".len();

/// An adapter that a plan places on a node, written `keep:3`, `pack`, `unpack`, `seal`, `open`, or
/// by its declared name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Adapter {
    /// Keeps the lowest layers, as many as given, and drops the rest.
    Keep(u8),
    /// Decrypts.
    Open,
    /// Compresses.
    Pack,
    /// Encrypts.
    Seal,
    /// Decompresses.
    Unpack,
    /// An adapter that a world declares; its name is none of the above.
    Named(AdapterName),
}

/// The name of a kind of adapter: `keep`, `seal`, or a declared one such as `protect`.
///
/// Names compare like their texts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AdapterName {
    /// The text, padded with zeros.
    bytes: [u8; ADAPTER_NAME_BYTES_MAX],
}

/// The text is not an adapter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an adapter: use keep:LAYERS, pack, unpack, seal, open or the name of a declared one"
)]
pub struct BadAdapter(String);

/// The text is not a valid name of an adapter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an adapter's name: use 1 to {ADAPTER_NAME_BYTES_MAX} of a-z 0-9 . _ -, a letter first"
)]
pub struct BadAdapterName(String);

impl Adapter {
    /// Returns the kind of adapter: `keep` for `keep:3`, else its text.
    pub fn kind(self) -> AdapterName {
        match self {
            Self::Keep(_) => AdapterName::KEEP,
            Self::Open => AdapterName::OPEN,
            Self::Pack => AdapterName::PACK,
            Self::Seal => AdapterName::SEAL,
            Self::Unpack => AdapterName::UNPACK,
            Self::Named(name) => name,
        }
    }

    /// Returns the text, padded with zeros, which sorts like the text.
    fn text(self) -> AdapterName {
        let Self::Keep(layers) = self else {
            return self.kind();
        };
        let mut bytes = AdapterName::KEEP.bytes;
        bytes[KEEP_DIGITS_AT - 1] = b':';
        let digits = [layers / 100, layers / 10 % 10, layers % 10].map(|digit| b'0' + digit);
        let leading = usize::from(layers < 100) + usize::from(layers < 10);
        let digits = &digits[leading..];
        bytes[KEEP_DIGITS_AT..KEEP_DIGITS_AT + digits.len()].copy_from_slice(digits);
        AdapterName { bytes }
    }
}

impl AdapterName {
    /// The kind of all filters.
    pub const KEEP: Self = Self::of("keep");
    /// The kind that decrypts.
    pub const OPEN: Self = Self::of("open");
    /// The kind that compresses.
    pub const PACK: Self = Self::of("pack");
    /// The kind that encrypts.
    pub const SEAL: Self = Self::of("seal");
    /// The kind that decompresses.
    pub const UNPACK: Self = Self::of("unpack");
    /// The kinds that every node knows and that no declaration may redefine.
    pub const STANDARD: [Self; 5] = [Self::KEEP, Self::OPEN, Self::PACK, Self::SEAL, Self::UNPACK];

    /// Returns a name from a valid text.
    const fn of(text: &str) -> Self {
        let mut bytes = [0; ADAPTER_NAME_BYTES_MAX];
        let mut at = 0;
        while at < text.len() {
            bytes[at] = text.as_bytes()[at];
            at += 1;
        }
        Self { bytes }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        let end = self.bytes.iter().position(|byte| *byte == 0);
        let text = &self.bytes[..end.unwrap_or(ADAPTER_NAME_BYTES_MAX)];
        core::str::from_utf8(text).expect("a name is made of ASCII only")
    }

    /// Returns whether every node knows this kind.
    pub fn is_standard(&self) -> bool {
        Self::STANDARD.contains(self)
    }
}

impl Ord for Adapter {
    /// Orders like the texts: `keep:10` before `keep:2` before `open`.
    fn cmp(&self, other: &Self) -> Ordering {
        self.text().cmp(&other.text())
    }
}

impl PartialOrd for Adapter {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().as_str())
    }
}

impl fmt::Display for AdapterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for AdapterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl FromStr for AdapterName {
    type Err = BadAdapterName;

    fn from_str(text: &str) -> Result<Self, BadAdapterName> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let whole = text.len() <= ADAPTER_NAME_BYTES_MAX
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && (text.bytes()).all(|byte| plain(byte) || b"._-".contains(&byte));
        if whole {
            Ok(Self::of(text))
        } else {
            Err(BadAdapterName(text.chars().take(80).collect()))
        }
    }
}

impl FromStr for Adapter {
    type Err = BadAdapter;

    fn from_str(text: &str) -> Result<Self, BadAdapter> {
        let bad = || BadAdapter(text.chars().take(80).collect());
        if let Some(layers) = text.strip_prefix("keep:") {
            let plain = layers.bytes().all(|digit| digit.is_ascii_digit());
            let layers = layers.parse().ok().filter(|_| plain);
            return layers.map(Self::Keep).ok_or_else(bad);
        }
        match text {
            "open" => Ok(Self::Open),
            "pack" => Ok(Self::Pack),
            "seal" => Ok(Self::Seal),
            "unpack" => Ok(Self::Unpack),
            "keep" => Err(bad()),
            _ => text.parse().map(Self::Named).map_err(|_| bad()),
        }
    }
}

impl TryFrom<String> for Adapter {
    type Error = BadAdapter;

    fn try_from(text: String) -> Result<Self, BadAdapter> {
        text.parse()
    }
}

impl TryFrom<String> for AdapterName {
    type Error = BadAdapterName;

    fn try_from(text: String) -> Result<Self, BadAdapterName> {
        text.parse()
    }
}

impl From<Adapter> for String {
    fn from(adapter: Adapter) -> Self {
        adapter.to_string()
    }
}

impl From<AdapterName> for String {
    fn from(name: AdapterName) -> Self {
        name.to_string()
    }
}
