//! What a link requires of the stream on it.
//!
//! *The idea.* PA-6: a link that is fast and safe enough requires nothing. A slow one first
//! requires what shrinks the stream reversibly, then the loss of layers; an insecure one requires
//! what hides it.

use super::super::states::fits;
use super::Chain;
use super::layout::{Layout, Span};

/// The requirements of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remedy {
    /// Layers kept.
    pub(super) layers: u8,
    /// The pairs that are on, as a bit mask by index in the chain's list.
    pairs: u32,
}

impl Remedy {
    /// Returns the remedy with the most layers, up to `layers`, that fits a link; among those, the
    /// fewest transforms, then the lowest rate. If nothing fits, returns the remedy with the lowest
    /// rate.
    pub(super) fn of(chain: &Chain<'_, '_>, link: usize, layers: u8) -> Self {
        let states = &chain.problem.states;
        let arc = &chain.arcs[link];
        let rate = chain.problem.topology().links()[arc.link as usize].rate;
        let mut closest: Option<(f64, Self)> = None;
        for kept in (states.least_layers()..=layers).rev() {
            let mut fitting: Option<(u32, f64, Self)> = None;
            for pairs in 0..1u32 << chain.pairs.len() {
                let remedy = Self {
                    layers: kept,
                    pairs,
                };
                let state = remedy.state(chain);
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
        closest.map_or(Self { layers, pairs: 0 }, |(_, remedy)| remedy)
    }

    pub(super) fn has(self, pair: usize) -> bool {
        self.pairs >> pair & 1 == 1
    }

    /// Returns the state that it requires.
    fn state(self, chain: &Chain<'_, '_>) -> u16 {
        let mut bits = 0usize;
        for (at, pair) in chain.pairs.iter().enumerate() {
            if self.has(at) {
                bits |= 1 << pair.bit;
            }
        }
        chain.problem.states.state(self.layers, bits)
    }
}

/// Returns every link's remedies next to it.
pub(super) fn selected(chain: &Chain<'_, '_>) -> Layout {
    let mut layout = Layout::new(chain.nodes.len(), chain.pairs.len());
    let all = chain.problem.states.layers();
    for link in 0..chain.arcs.len() {
        let remedy = Remedy::of(chain, link, all);
        if remedy.layers < all {
            layout.keep(link, remedy.layers);
        }
        for pair in 0..chain.pairs.len() {
            if remedy.has(pair) {
                let (from, to) = (link, link + 1);
                layout.cover(pair, Span { from, to });
            }
        }
    }
    layout
}
