//! Panda's heuristic: select, place locally, merge, relocate.
//!
//! *The idea.* Each link's remedies start next to it. Then the best of these changes is made while
//! one helps: two neighbouring spans of one kind merge into one over both; an end of a span moves
//! outwards; a filter moves upstream, or merges with the filter before it. A change helps if it has
//! fewer breaches or, with equally many, less cost. So repairs come before savings, and the loop
//! ends.
//!
//! *Sources.* PA-9 to PA-12; docs/concepts/planner.md §8.

use super::layout::{Layout, Span};
use super::select::selected;
use super::{Chain, Worth};

/// A layout that is being improved.
struct Search<'c, 'p, 'a> {
    chain: &'c Chain<'p, 'a>,
    layout: Layout,
    worth: Worth,
}

/// Improves the local placement.
///
/// Cost    O(path · adapters) evaluations of a layout for each change made
pub(super) fn plan(chain: &Chain<'_, '_>) -> (Worth, Layout) {
    let layout = selected(chain);
    let worth = chain.worth(&layout);
    let mut search = Search {
        chain,
        layout,
        worth,
    };
    loop {
        let merged = search.improve(Search::each_merge);
        let relocated = search.improve(Search::each_relocation);
        if !merged && !relocated {
            return (search.worth, search.layout);
        }
    }
}

impl Search<'_, '_, '_> {
    /// Makes the best change of a kind while one helps; returns whether any did.
    fn improve(&mut self, each: fn(&Self, &mut dyn FnMut(Layout))) -> bool {
        let mut any = false;
        loop {
            let mut best: Option<(Worth, Layout)> = None;
            each(self, &mut |changed| {
                let then = self.chain.worth(&changed);
                let held = best.as_ref().map_or(self.worth, |(held, _)| *held);
                if then < held {
                    best = Some((then, changed));
                }
            });
            let Some((then, changed)) = best else {
                return any;
            };
            (self.worth, self.layout) = (then, changed);
            any = true;
        }
    }

    /// Tries to merge each two neighbouring spans of one kind, and each two filters.
    fn each_merge(&self, tried: &mut dyn FnMut(Layout)) {
        for (pair, spans) in self.layout.spans.iter().enumerate() {
            for two in spans.windows(2) {
                let mut changed = self.layout.clone();
                let (from, to) = (two[0].from, two[1].to);
                changed.cover(pair, Span { from, to });
                tried(changed);
            }
        }
        let filters = self.layout.filters.iter().enumerate();
        let filters = filters.filter_map(|(at, filter)| filter.map(|layers| (at, layers)));
        let mut before: Option<usize> = None;
        for (at, layers) in filters {
            if let Some(upstream) = before {
                let mut changed = self.layout.clone();
                changed.filters[at] = None;
                changed.keep(upstream, layers);
                tried(changed);
            }
            before = Some(at);
        }
    }

    /// Tries to move each end of a span outwards, and each filter upstream, by any number of nodes.
    fn each_relocation(&self, tried: &mut dyn FnMut(Layout)) {
        let last = self.chain.nodes.len() - 1;
        for (pair, spans) in self.layout.spans.iter().enumerate() {
            for span in spans {
                let mut grow = |from, to| {
                    let mut changed = self.layout.clone();
                    changed.cover(pair, Span { from, to });
                    tried(changed);
                };
                for from in (0..span.from).rev() {
                    grow(from, span.to);
                }
                for to in span.to + 1..=last {
                    grow(span.from, to);
                }
            }
        }
        for at in 1..=last {
            if let Some(layers) = self.layout.filters[at] {
                for upstream in (0..at).rev() {
                    let mut changed = self.layout.clone();
                    changed.filters[at] = None;
                    changed.keep(upstream, layers);
                    tried(changed);
                }
            }
        }
    }
}
