//! The positions of remedies on a path, and their cost.
//!
//! *The idea.* A transform is on over spans of links: its DO runs on the node before the first link
//! of a span, its UNDO on the node after the last. Spans of one kind never overlap, because a
//! sealed stream cannot be sealed again; they may touch, and then the node between opens and seals
//! again. At a node UNDOs run first, then the filter, then DOs, those of higher classes last: the
//! only order in which they work.

use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::time::Duration;

use super::super::cost::{Cost, link_cost};
use super::super::states::Step;
use super::{Chain, Worth};
use crate::model::Adapter;

/// Links `from` to `to` − 1: DO at node `from`, UNDO at node `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub(super) from: usize,
    pub(super) to: usize,
}

/// The positions of remedies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// By node of the path: the layers that its filter keeps.
    pub(super) filters: Vec<Option<u8>>,
    /// By pair: its spans, in path order, without overlap.
    pub(super) spans: Vec<Vec<Span>>,
}

impl Layout {
    pub(super) fn new(nodes: usize, pairs: usize) -> Self {
        Self {
            filters: vec![None; nodes],
            spans: vec![Vec::new(); pairs],
        }
    }

    /// Keeps at most `layers` layers from a node on.
    pub(super) fn keep(&mut self, node: usize, layers: u8) {
        let filter = &mut self.filters[node];
        *filter = Some(filter.map_or(layers, |held| held.min(layers)));
    }

    /// Adds a span, merged with those that it overlaps.
    pub(super) fn cover(&mut self, pair: usize, mut span: Span) {
        let spans = &mut self.spans[pair];
        spans.retain(|other| {
            let apart = other.to <= span.from || span.to <= other.from;
            if !apart {
                span.from = span.from.min(other.from);
                span.to = span.to.max(other.to);
            }
            apart
        });
        let at = spans.partition_point(|other| other.from < span.from);
        spans.insert(at, span);
    }

    /// Returns whether a pair is on over a link.
    pub(super) fn covers(&self, pair: usize, link: usize) -> bool {
        let mut spans = self.spans[pair].iter();
        spans.any(|span| (span.from..span.to).contains(&link))
    }

    /// Returns the number of adapters on a node.
    pub(super) fn used(&self, at: usize) -> usize {
        let ends = (self.spans.iter().flatten())
            .map(|span| usize::from(span.from == at) + usize::from(span.to == at));
        usize::from(self.filters[at].is_some()) + ends.sum::<usize>()
    }
}

impl Chain<'_, '_> {
    /// Executes the layout along the path: calls `visit` with each step and its node's index, and
    /// with `None` for each link.
    ///
    /// Returns the number of breaches: adapters that cannot work or are not held, CPU and slots
    /// exceeded, links that are too slow or lose too much, plaintext shown.
    pub(super) fn execute(
        &self,
        layout: &Layout,
        mut visit: impl FnMut(Option<&Step>, usize),
    ) -> u32 {
        let states = &self.problem.states;
        let mut state = states.start();
        let mut breaches = 0;
        for (at, node) in self.nodes.iter().enumerate() {
            let guarded = self.problem.hides_at(*node);
            let mut picocores = 0;
            let mut shown = guarded && !states.is_hidden(state);
            let used = self.each_adapter(layout, at, |adapter| {
                // A filter that would drop nothing does not run.
                if matches!(adapter, Adapter::Keep(kept) if kept >= states.layers_of(state)) {
                    return false;
                }
                let Some(step) = states.step(state, adapter) else {
                    breaches += 1;
                    return false;
                };
                let lack = self.problem.shortage_penalty(*node, picocores, step);
                breaches += u32::from(lack.is_none());
                picocores = self.problem.used_picocores(*node, picocores, step);
                visit(Some(step), at);
                state = step.to;
                shown |= guarded && !states.is_hidden(state);
                true
            });
            let slots = u32::from(self.problem.topology().nodes()[*node as usize].slots);
            breaches += used.saturating_sub(slots) + u32::from(shown);
            if let Some(arc) = self.arcs.get(at) {
                visit(None, at);
                breaches += u32::from(self.problem.hop_cost(arc, state).is_none());
            }
        }
        breaches + u32::from(!states.is_goal(state))
    }

    /// Runs the adapters of a node in their order; returns for how many `run` was true.
    fn each_adapter(
        &self,
        layout: &Layout,
        at: usize,
        mut run: impl FnMut(Adapter) -> bool,
    ) -> u32 {
        let mut used = 0;
        let pairs = || self.pairs.iter().zip(&layout.spans);
        for (pair, spans) in pairs().rev() {
            if spans.iter().any(|span| span.to == at) {
                used += u32::from(run(pair.off));
            }
        }
        if let Some(layers) = layout.filters[at] {
            used += u32::from(run(Adapter::Keep(layers)));
        }
        for (pair, spans) in pairs() {
            if spans.iter().any(|span| span.from == at) {
                used += u32::from(run(pair.on));
            }
        }
        used
    }

    /// Returns the breaches and the cost of a layout.
    ///
    /// Cost    O(path · adapters)
    pub(super) fn worth(&self, layout: &Layout) -> Worth {
        let states = &self.problem.states;
        let mut state = states.start();
        let mut cost = Cost::ZERO;
        let mut delay = Duration::ZERO;
        let mut adapters = 0;
        let breaches = self.execute(layout, |step, at| {
            if let Some(step) = step {
                cost += step.cost;
                delay += step.delay;
                state = step.to;
                adapters += 1;
            } else {
                let arc = &self.arcs[at];
                cost += link_cost(states.rate_bps(state), arc.rate_bps);
                delay += Duration::from_nanos(arc.delay_ns);
            }
        });
        let late = u32::from(delay > self.problem.deadline());
        Worth {
            breaches: breaches + late,
            cost,
            adapters,
        }
    }
}
