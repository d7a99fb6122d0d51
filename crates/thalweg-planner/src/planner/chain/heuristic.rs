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
use super::{Chain, Worth};

impl Chain<'_, '_> {
    /// Improves the local placement.
    ///
    /// Cost    O(path · adapters) evaluations of a layout for each change made
    pub(super) fn heuristic(&self) -> (Worth, Layout) {
        let mut layout = self.selected();
        let mut worth = self.worth(&layout);
        loop {
            let merged = self.improve(&mut layout, &mut worth, Self::each_merge);
            let relocated = self.improve(&mut layout, &mut worth, Self::each_relocation);
            if !merged && !relocated {
                return (worth, layout);
            }
        }
    }

    /// Returns every link's remedies next to it.
    pub(super) fn selected(&self) -> Layout {
        let mut layout = Layout::new(self.nodes.len(), self.pairs.len());
        let all = self.problem.states.layers();
        for link in 0..self.arcs.len() {
            let remedy = self.remedy(link, all);
            if remedy.layers < all {
                layout.keep(link, remedy.layers);
            }
            for pair in 0..self.pairs.len() {
                if remedy.has(pair) {
                    let (from, to) = (link, link + 1);
                    layout.cover(pair, Span { from, to });
                }
            }
        }
        layout
    }

    /// Makes the best change of a kind while one helps; returns whether any did.
    fn improve(
        &self,
        layout: &mut Layout,
        worth: &mut Worth,
        each: fn(&Self, &Layout, &mut dyn FnMut(Layout)),
    ) -> bool {
        let mut any = false;
        loop {
            let mut best: Option<(Worth, Layout)> = None;
            each(self, layout, &mut |changed| {
                let then = self.worth(&changed);
                let held = best.as_ref().map_or(*worth, |(held, _)| *held);
                if then < held {
                    best = Some((then, changed));
                }
            });
            let Some((then, changed)) = best else {
                return any;
            };
            (*worth, *layout) = (then, changed);
            any = true;
        }
    }

    /// Tries to merge each two neighbouring spans of one kind, and each two filters.
    fn each_merge(_: &Self, layout: &Layout, tried: &mut dyn FnMut(Layout)) {
        for (pair, spans) in layout.spans.iter().enumerate() {
            for two in spans.windows(2) {
                let mut changed = layout.clone();
                let (from, to) = (two[0].from, two[1].to);
                changed.cover(pair, Span { from, to });
                tried(changed);
            }
        }
        let filters = layout.filters.iter().enumerate();
        let filters = filters.filter_map(|(at, filter)| filter.map(|layers| (at, layers)));
        let mut before: Option<usize> = None;
        for (at, layers) in filters {
            if let Some(upstream) = before {
                let mut changed = layout.clone();
                changed.filters[at] = None;
                changed.keep(upstream, layers);
                tried(changed);
            }
            before = Some(at);
        }
    }

    /// Tries to move each end of a span outwards, and each filter upstream, by any number of nodes.
    fn each_relocation(&self, layout: &Layout, tried: &mut dyn FnMut(Layout)) {
        let last = self.nodes.len() - 1;
        for (pair, spans) in layout.spans.iter().enumerate() {
            for span in spans {
                let mut grow = |from, to| {
                    let mut changed = layout.clone();
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
            if let Some(layers) = layout.filters[at] {
                for upstream in (0..at).rev() {
                    let mut changed = layout.clone();
                    changed.filters[at] = None;
                    changed.keep(upstream, layers);
                    tried(changed);
                }
            }
        }
    }
}
