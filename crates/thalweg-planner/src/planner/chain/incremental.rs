//! The local planner: each node considers the next link only.
//!
//! *The idea.* A node runs what the next link requires of the stream that arrives, and the node
//! after that link undoes it. A DO moves upstream to the nearest node with a slot for it that may
//! see what it sees, an UNDO downstream; a span that grows over another merges with it.
//!
//! *Sources.* PA-15; docs/concepts/planner.md §8.

use super::layout::{Layout, Span};
use super::select::Remedy;
use super::{Chain, Worth};
use crate::model::{Adapter, AdapterName};

/// Adapts link by link.
///
/// Cost    O(path² · adapters)
pub(super) fn plan(chain: &Chain<'_, '_>) -> (Worth, Layout) {
    let mut layout = Layout::new(chain.nodes.len(), chain.pairs.len());
    let mut layers = chain.problem.states.layers();
    for link in 0..chain.arcs.len() {
        let remedy = Remedy::of(chain, link, layers);
        if remedy.layers < layers {
            layers = remedy.layers;
            let at = nearest(chain, &layout, AdapterName::KEEP, (0..=link).rev());
            layout.keep(at.unwrap_or(link), layers);
        }
        for pair in 0..chain.pairs.len() {
            if remedy.has(pair) && !layout.covers(pair, link) {
                let [on, off] = [chain.pairs[pair].on, chain.pairs[pair].off].map(Adapter::kind);
                let from = nearest(chain, &layout, on, (0..=link).rev());
                let to = nearest(chain, &layout, off, link + 1..chain.nodes.len());
                let span = Span {
                    from: from.unwrap_or(link),
                    to: to.unwrap_or(link + 1),
                };
                layout.cover(pair, span);
            }
        }
    }
    (chain.worth(&layout), layout)
}

/// Returns the first of these nodes that holds the adapter, has a slot left and may see what
/// the adapter sees.
fn nearest(
    chain: &Chain<'_, '_>,
    layout: &Layout,
    kind: AdapterName,
    mut nodes: impl Iterator<Item = usize>,
) -> Option<usize> {
    nodes.find(|at| {
        let node = chain.nodes[*at];
        let place = &chain.problem.topology().nodes()[node as usize];
        let blind = kind != AdapterName::KEEP && chain.problem.hides_at(node);
        !blind && place.holds(kind) && layout.used(*at) < usize::from(place.slots)
    })
}
