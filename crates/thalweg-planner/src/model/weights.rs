//! The weights of the cost, and default ratios of adapters.
//!
//! *Sources.* docs/concepts/planner.md §3; the defaults are those of docs/reference/worlds.md.

use alloc::format;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::fault::{Fault, Faults};

/// The weights of the cost, and the defaults of two ratios.
///
/// Units   `quality`: cost of losing all utility · `keep`…`open`: cost per Mbit/s of input · ratios: 1
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Weights {
    /// Λ: the cost of delivering no utility at all.
    pub quality: f64,
    /// κ of dropping layers.
    pub keep: f64,
    /// κ of compressing.
    pub pack: f64,
    /// κ of decompressing.
    pub unpack: f64,
    /// κ of encrypting.
    pub seal: f64,
    /// κ of decrypting.
    pub open: f64,
    /// ρ: packed size over plain size, for a stream without its own ratio.
    pub pack_ratio: f64,
    /// ε: what sealing adds, relative to the size before, for a stream without its own ratio.
    pub seal_overhead: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            quality: 100.0,
            keep: 0.1,
            pack: 1.0,
            unpack: 0.5,
            seal: 0.4,
            open: 0.4,
            pack_ratio: 0.5,
            seal_overhead: 0.02,
        }
    }
}

impl Weights {
    /// Returns each weight with its key in a world file, in file order.
    pub fn by_key(&self) -> [(&'static str, f64); 8] {
        [
            ("quality", self.quality),
            ("keep", self.keep),
            ("pack", self.pack),
            ("unpack", self.unpack),
            ("seal", self.seal),
            ("open", self.open),
            ("pack_ratio", self.pack_ratio),
            ("seal_overhead", self.seal_overhead),
        ]
    }

    /// Returns every mistake in the weights of a world or a node, in file order.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        for (key, value) in self.by_key() {
            let path = format!("weights.{key}");
            if key == "pack_ratio" {
                faults.check_positive(path, value);
            } else {
                faults.check_not_negative(path, value);
            }
        }
        faults.0
    }
}
