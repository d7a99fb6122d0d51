//! The choice of a node's congestion controller.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// A congestion controller, by its name in configurations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// This crate's own: [`super::Controller`].
    #[default]
    Thalweg,
    /// RFC 9438, by the transport's library.
    Cubic,
    /// `BBRv3`, by the transport's library, which calls it unfinished.
    Bbr,
    /// RFC 9002, by the transport's library: for comparisons.
    NewReno,
}

/// The error for a name of no congestion controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no congestion controller; there are thalweg, cubic, bbr and new-reno")]
pub struct UnknownAlgorithm(pub alloc::string::String);

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 4] = [Self::Thalweg, Self::Cubic, Self::Bbr, Self::NewReno];

    /// Returns its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Thalweg => "thalweg",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::NewReno => "new-reno",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|algorithm| algorithm.name() == word)
            .ok_or_else(|| UnknownAlgorithm(word.into()))
    }
}
