//! Generated network topologies.
//!
//! Every node but the first is linked to one node before it; then as many links again are drawn between
//! random pairs. So the network is connected, most nodes have about four neighbours, and a few early
//! ones have many, as in networks that grew. Delays are drawn independently of the topology.

use std::collections::BTreeSet;

use thalweg_base::random::SplitMix;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;

/// The shortest delay.
const DELAY_MIN: Duration = Duration::from_millis(2);

/// Range of the delays above the shortest, µs.
const DELAY_SPREAD_MICROS: u64 = 18_000;

/// A wire between two nodes, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wire {
    /// Indices of its two ends.
    pub ends: [usize; 2],
    /// Propagation delay.
    pub delay: Duration,
    /// Rate in each direction.
    pub rate: Bitrate,
}

/// A network topology.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Number of nodes.
    pub nodes: usize,
    /// The wires between them.
    pub wires: Vec<Wire>,
}

impl Shape {
    /// Draws a connected network of `nodes` nodes with almost twice as many links of this rate.
    pub fn grown(nodes: usize, rate: Bitrate, seed: u64) -> Self {
        let mut rng = SplitMix::new(seed);
        let mut pairs = BTreeSet::new();
        for at in 1..nodes {
            pairs.insert([rng.next_below(at as u64) as usize, at]);
        }
        // A small network has fewer pairs than that.
        let most = (nodes * nodes.saturating_sub(1) / 2).min(2 * nodes);
        while pairs.len() < most.saturating_sub(1) {
            let mut draw = || rng.next_below(nodes as u64) as usize;
            let [a, b] = [draw(), draw()];
            if a != b {
                pairs.insert([a.min(b), a.max(b)]);
            }
        }
        let wire = |ends| Wire {
            ends,
            delay: DELAY_MIN + Duration::from_micros(rng.next_below(DELAY_SPREAD_MICROS)),
            rate,
        };
        Self {
            nodes,
            wires: pairs.into_iter().map(wire).collect(),
        }
    }
}
