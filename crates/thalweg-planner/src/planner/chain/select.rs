//! What a link requires of the stream on it.
//!
//! *The idea.* PA-6: a link that is fast and safe enough requires nothing. A slow one first
//! requires what shrinks the stream reversibly, then the loss of layers; an insecure one requires
//! what hides it.

use super::super::states::fits;
use super::Chain;

/// The requirements of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remedy {
    /// Layers kept.
    pub(super) layers: u8,
    /// The pairs that are on, as a bit mask by index in the chain's list.
    pub(super) pairs: u32,
}

impl Remedy {
    pub(super) fn has(self, pair: usize) -> bool {
        self.pairs >> pair & 1 == 1
    }
}

impl Chain<'_, '_> {
    /// Returns the remedy with the most layers, up to `layers`, that fits a link; among those, the
    /// fewest transforms, then the lowest rate. If nothing fits, returns the remedy with the lowest
    /// rate.
    pub(super) fn remedy(&self, link: usize, layers: u8) -> Remedy {
        let states = &self.problem.states;
        let arc = &self.arcs[link];
        let rate = self.problem.topology().links()[arc.link as usize].rate;
        let mut closest: Option<(f64, Remedy)> = None;
        for kept in (states.least_layers()..=layers).rev() {
            let mut fitting: Option<(u32, f64, Remedy)> = None;
            for pairs in 0..1u32 << self.pairs.len() {
                let remedy = Remedy {
                    layers: kept,
                    pairs,
                };
                let state = self.state_of(remedy);
                if arc.patterns >> states.pattern_of(state) & 1 == 0 {
                    continue;
                }
                let bps = states.rate_bps(state);
                let better = |held: f64| bps < held;
                if closest.is_none_or(|(held, _)| better(held)) {
                    closest = Some((bps, remedy));
                }
                let key = (pairs.count_ones(), bps);
                let fewer = |(count, held, _)| key.0 < count || key.0 == count && better(held);
                if fits(bps, rate) && fitting.is_none_or(fewer) {
                    fitting = Some((key.0, bps, remedy));
                }
            }
            if let Some((_, _, remedy)) = fitting {
                return remedy;
            }
        }
        closest.map_or(Remedy { layers, pairs: 0 }, |(_, remedy)| remedy)
    }

    /// Returns the state that a remedy requires.
    fn state_of(&self, remedy: Remedy) -> u16 {
        let mut bits = 0usize;
        for (at, pair) in self.pairs.iter().enumerate() {
            if remedy.has(at) {
                bits |= 1 << pair.bit;
            }
        }
        self.problem.states.state(remedy.layers, bits)
    }
}
