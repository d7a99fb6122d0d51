//! The adaptation policy of a stream: which parts of layered video are dropped first.
//!
//! *The idea.* Quality has two dimensions: the picture rate, and the quality of each picture. A
//! policy decides once what is dropped first, by the importance of every ADU; a queue that drops by
//! importance follows it without knowledge of video. Pictures have temporal levels as in a dyadic
//! hierarchy, so that dropping the highest level halves the picture rate evenly:
//!
//! ```text
//! picture    0  1  2  3  4  5  6  7  8        rank, temporal bias    layer · LEVELS + level
//! level      0  3  2  3  1  3  2  3  0              spatial bias     level · LAYERS + layer
//! importance = 255 − rank · ⌊255 / (LEVELS · layers)⌋
//! ```
//!
//! With a temporal bias every picture loses its refinements before any loses its base; with a
//! spatial bias whole pictures are dropped before the remaining ones lose anything. A table sets
//! every cell.
//!
//! *What it does not do.* It knows no codecs: interdependent pictures get their importance from
//! their dependants (`thalweg_media::nal`).
//!
//! *Sources.* spec PL-18 (two dimensions), PL-19 (eight ADUs a frame), PL-20 (temporal bias).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use super::Importance;
use crate::limits::LAYERS_MAX;

#[cfg(test)]
mod tests;

/// Number of temporal levels; half of all pictures are in the last.
pub const LEVELS: usize = 4;

/// What is dropped first when a link carries less than the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum AdaptationPolicy {
    /// Layers from the highest, the same for all pictures: 255 − 24 · layer.
    #[default]
    Layers,
    /// Spatial refinements first, from the highest layer and the last level; then whole pictures.
    Temporal,
    /// Whole pictures first, from the last level; then refinements of the remaining ones.
    Spatial,
    /// As in the table.
    Table(Table),
}

/// The importance of each layer by temporal level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    rows: [[Importance; LAYERS_MAX]; LEVELS],
    /// Number of layers; further ones have the importance of the last.
    layers: u8,
}

/// The policy is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPolicy {
    /// A word that is no policy.
    #[error("`{0}` is no adaptation policy: use layers, temporal, spatial, or a table")]
    Word(String),
    /// The number of rows differs from the number of temporal levels.
    #[error("the table has {rows} rows: it needs {LEVELS}, one for each temporal level")]
    Rows {
        /// Number of rows.
        rows: usize,
    },
    /// Rows of different lengths, or with no or too many layers.
    #[error(
        "row {row} has {layers} layers: every row needs as many as the first, 1 to {LAYERS_MAX}"
    )]
    Layers {
        /// The row, from 0.
        row: usize,
        /// Number of layers.
        layers: usize,
    },
    /// A layer with a higher importance than one that it needs.
    #[error(
        "row {row}: layer {layer} matters more than the layer below it, without which it is of no use"
    )]
    Inverted {
        /// The row, from 0.
        row: usize,
        /// The layer, from 0.
        layer: usize,
    },
}

impl AdaptationPolicy {
    /// Returns the importance of a layer of a picture, given by its number in the stream, from 0.
    pub fn importance(&self, picture: u64, layer: u8, layers: u8) -> Importance {
        let level = level_of(picture);
        let layer = usize::from(layer);
        let layers = usize::from(layers).max(layer + 1);
        let rank = match self {
            Self::Layers => return Importance(255u8.saturating_sub((24 * layer).min(255) as u8)),
            Self::Table(table) => {
                let last = usize::from(table.layers) - 1;
                return table.rows[level][layer.min(last)];
            }
            Self::Temporal => layer * LEVELS + level,
            Self::Spatial => level * layers + layer,
        };
        let step = (255 / (LEVELS * layers)).max(1);
        Importance(255u8.saturating_sub((rank * step).min(255) as u8))
    }
}

/// Returns the temporal level of a picture: 0 for every eighth, and so on to 3 for every second.
pub fn level_of(picture: u64) -> usize {
    let zeros = picture.trailing_zeros() as usize;
    (LEVELS - 1).saturating_sub(zeros)
}

impl Table {
    /// Returns the table with these rows, one per temporal level.
    ///
    /// Fails   there are not [`LEVELS`] rows of equal length, or a layer outranks one that it needs
    pub fn new(rows: &[Vec<u8>]) -> Result<Self, BadPolicy> {
        if rows.len() != LEVELS {
            return Err(BadPolicy::Rows { rows: rows.len() });
        }
        let layers = rows[0].len();
        let mut table = Self {
            rows: [[Importance::LOWEST; LAYERS_MAX]; LEVELS],
            layers: layers.min(LAYERS_MAX) as u8,
        };
        for (at, row) in rows.iter().enumerate() {
            if row.len() != layers || !(1..=LAYERS_MAX).contains(&row.len()) {
                let layers = row.len();
                return Err(BadPolicy::Layers { row: at, layers });
            }
            if let Some(below) = row.windows(2).position(|pair| pair[1] > pair[0]) {
                let layer = below + 1;
                return Err(BadPolicy::Inverted { row: at, layer });
            }
            for (cell, importance) in table.rows[at].iter_mut().zip(row) {
                *cell = Importance(*importance);
            }
        }
        Ok(table)
    }

    fn rows(&self) -> Vec<Vec<u8>> {
        let layers = usize::from(self.layers);
        let row =
            |row: &[Importance; LAYERS_MAX]| row[..layers].iter().map(|cell| cell.0).collect();
        self.rows.iter().map(row).collect()
    }
}

/// A policy as written in a file: a word, or rows of numbers.
#[derive(Clone, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "layers, temporal, spatial, or a table of importances by level and layer"
)]
enum Written {
    Word(String),
    Table(Vec<Vec<u8>>),
}

impl TryFrom<Written> for AdaptationPolicy {
    type Error = BadPolicy;

    fn try_from(written: Written) -> Result<Self, BadPolicy> {
        match written {
            Written::Table(rows) => Table::new(&rows).map(Self::Table),
            Written::Word(word) => match &*word {
                "layers" => Ok(Self::Layers),
                "temporal" => Ok(Self::Temporal),
                "spatial" => Ok(Self::Spatial),
                _ => Err(BadPolicy::Word(word.chars().take(80).collect())),
            },
        }
    }
}

impl From<AdaptationPolicy> for Written {
    fn from(policy: AdaptationPolicy) -> Self {
        match policy {
            AdaptationPolicy::Layers => Self::Word("layers".into()),
            AdaptationPolicy::Temporal => Self::Word("temporal".into()),
            AdaptationPolicy::Spatial => Self::Word("spatial".into()),
            AdaptationPolicy::Table(table) => Self::Table(table.rows()),
        }
    }
}

impl fmt::Display for AdaptationPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Layers => "layers",
            Self::Temporal => "temporal",
            Self::Spatial => "spatial",
            Self::Table(_) => "table",
        })
    }
}
