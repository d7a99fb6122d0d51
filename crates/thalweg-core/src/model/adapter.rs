//! Adapters as data: what each does to a stream's state, and what it costs.
//!
//! *The idea.* The search knows states and steps, not compression or ciphers. A *transform* is one bit of the state: it
//! multiplies the rate, and may hide the payload. A *profile* is an adapter: it lowers the layers, or switches a
//! transform on (DO) or off (UNDO), and says what it costs, how long it takes, and whether it must see plaintext. A
//! further adapter is a further profile.
//!
//! *Sources.* docs/planner.md §2.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Stream, Weights};
use crate::time::Duration;

/// The transform of `pack` and `unpack` in [`Catalogue::standard`].
pub const PACK: usize = 0;
/// The transform of `seal` and `open` in [`Catalogue::standard`].
pub const SEAL: usize = 1;

/// An adapter that a plan places on a node, written `keep:3`, `pack`, `unpack`, `seal`, `open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Adapter {
    /// Keeps the first so many layers and drops the rest.
    Keep(u8),
    /// Decrypts.
    Open,
    /// Compresses.
    Pack,
    /// Encrypts.
    Seal,
    /// Decompresses.
    Unpack,
}

/// The text is not an adapter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an adapter: use keep:LAYERS, pack, unpack, seal or open")]
pub struct BadAdapter(String);

/// One bit of a stream's state: something done to the payload that can be undone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transform {
    /// What it multiplies the rate by.
    pub rate_factor: f64,
    /// Whether nobody can read the payload while it is on.
    pub hides: bool,
}

/// What an adapter does to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Lowers the number of layers; one profile stands for all targets.
    Keep,
    /// Switches a transform on; it must be off.
    Do(usize),
    /// Switches a transform off; it must be on.
    Undo(usize),
}

/// An adapter as the planner knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Which adapter; for [`Role::Keep`] the number in it is of no meaning.
    pub adapter: Adapter,
    /// What it does to the state.
    pub role: Role,
    /// κ: cost per Mbit/s of its input.
    pub cost_per_mbps: f64,
    /// What it adds to the delay of the path.
    pub delay: Duration,
    /// Whether it works only while no transform hides the payload.
    pub needs_plaintext: bool,
}

/// The transforms of a stream's state and the adapters that work on them.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    /// The bits of the state, at most [`Catalogue::TRANSFORMS_MAX`].
    pub transforms: Vec<Transform>,
    /// The adapters.
    pub profiles: Vec<Profile>,
}

impl Catalogue {
    /// Transforms beyond this are ignored: states number layers × 2^transforms.
    pub const TRANSFORMS_MAX: usize = 6;

    /// Returns `keep`, `pack`/`unpack` and `seal`/`open` with the weights' costs, the stream's ratios and no delays.
    pub fn standard(weights: &Weights, stream: &Stream) -> Self {
        let profile = |adapter, role, cost_per_mbps, needs_plaintext| Profile {
            adapter,
            role,
            cost_per_mbps,
            delay: Duration::ZERO,
            needs_plaintext,
        };
        Self {
            transforms: vec![
                Transform {
                    rate_factor: stream.pack_ratio(weights),
                    hides: false,
                },
                Transform {
                    rate_factor: 1.0 + stream.seal_overhead(weights),
                    hides: true,
                },
            ],
            profiles: vec![
                profile(Adapter::Keep(0), Role::Keep, weights.keep, false),
                profile(Adapter::Pack, Role::Do(PACK), weights.pack, true),
                profile(Adapter::Unpack, Role::Undo(PACK), weights.unpack, true),
                profile(Adapter::Seal, Role::Do(SEAL), weights.seal, false),
                profile(Adapter::Open, Role::Undo(SEAL), weights.open, false),
            ],
        }
    }
}

impl Adapter {
    /// Returns numbers that sort as the adapter's text does, without making the text.
    fn text_order(self) -> (u8, [u8; 3]) {
        match self {
            Self::Keep(layers) => (0, digits(layers)),
            Self::Open => (1, [0; 3]),
            Self::Pack => (2, [0; 3]),
            Self::Seal => (3, [0; 3]),
            Self::Unpack => (4, [0; 3]),
        }
    }
}

/// Returns the decimal digits from the first, each plus one, so that a shorter text sorts before its continuation.
fn digits(number: u8) -> [u8; 3] {
    match number {
        0..10 => [number + 1, 0, 0],
        10..100 => [number / 10 + 1, number % 10 + 1, 0],
        _ => [number / 100 + 1, number / 10 % 10 + 1, number % 10 + 1],
    }
}

impl Ord for Adapter {
    /// Orders as the texts do: `keep:10` before `keep:2` before `open`.
    fn cmp(&self, other: &Self) -> Ordering {
        self.text_order().cmp(&other.text_order())
    }
}

impl PartialOrd for Adapter {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep(layers) => write!(f, "keep:{layers}"),
            Self::Open => f.write_str("open"),
            Self::Pack => f.write_str("pack"),
            Self::Seal => f.write_str("seal"),
            Self::Unpack => f.write_str("unpack"),
        }
    }
}

impl FromStr for Adapter {
    type Err = BadAdapter;

    fn from_str(text: &str) -> Result<Self, BadAdapter> {
        let bad = || BadAdapter(text.chars().take(80).collect());
        match text {
            "open" => Ok(Self::Open),
            "pack" => Ok(Self::Pack),
            "seal" => Ok(Self::Seal),
            "unpack" => Ok(Self::Unpack),
            _ => {
                let layers = text.strip_prefix("keep:").ok_or_else(bad)?;
                let plain = layers.bytes().all(|digit| digit.is_ascii_digit());
                let layers = layers.parse().ok().filter(|_| plain);
                layers.map(Self::Keep).ok_or_else(bad)
            }
        }
    }
}

impl TryFrom<String> for Adapter {
    type Error = BadAdapter;

    fn try_from(text: String) -> Result<Self, BadAdapter> {
        text.parse()
    }
}

impl From<Adapter> for String {
    fn from(adapter: Adapter) -> Self {
        adapter.to_string()
    }
}
