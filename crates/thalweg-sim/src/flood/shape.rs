//! Made-up networks: who is linked with whom.
//!
//! *The idea.* Every node but the first is linked with one of those before it, and then as many links again are drawn between
//! any two. So all are joined, most nodes have about four neighbours, and a few of the first have many, as in networks that grew.
//!
//! *What it does not do.* It places nobody: how long a wire is has nothing to do with where it leads.

use std::collections::BTreeSet;

use thalweg_core::random::SplitMix;
use thalweg_core::time::Duration;
use thalweg_core::units::Bitrate;

/// The shortest wire.
const DELAY_MIN: Duration = Duration::from_millis(2);

/// How much longer the longest is, in steps of a microsecond.
const DELAY_SPREAD_MICROS: u64 = 18_000;

/// A wire between two nodes, the same both ways.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wire {
    /// Its two ends.
    pub ends: [usize; 2],
    /// How long a bit takes.
    pub delay: Duration,
    /// What it carries.
    pub rate: Bitrate,
}

/// Who is linked with whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// How many nodes.
    pub nodes: usize,
    /// The wires between them.
    pub wires: Vec<Wire>,
}

impl Shape {
    /// Draws a network of so many nodes, and almost twice as many links of this rate.
    pub fn grown(nodes: usize, rate: Bitrate, seed: u64) -> Self {
        let mut dice = SplitMix::new(seed);
        let mut pairs = BTreeSet::new();
        for at in 1..nodes {
            pairs.insert([dice.next_below(at as u64) as usize, at]);
        }
        // A small network has not so many pairs.
        let most = (nodes * nodes.saturating_sub(1) / 2).min(2 * nodes);
        while pairs.len() < most.saturating_sub(1) {
            let mut draw = || dice.next_below(nodes as u64) as usize;
            let [a, b] = [draw(), draw()];
            if a != b {
                pairs.insert([a.min(b), a.max(b)]);
            }
        }
        let wire = |ends| Wire {
            ends,
            delay: DELAY_MIN + Duration::from_micros(dice.next_below(DELAY_SPREAD_MICROS)),
            rate,
        };
        Self {
            nodes,
            wires: pairs.into_iter().map(wire).collect(),
        }
    }
}
