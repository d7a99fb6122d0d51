//! The baseline: every position of every selected adapter.
//!
//! *The idea.* With DO anywhere before its link and UNDO anywhere after it, and overlaps merged,
//! the adapters of one kind form disjoint spans that cover all links requiring it, where each span
//! covers one such link. Positions with the same spans are the same plan, so spans are enumerated
//! instead of positions: this baseline is stronger than the published one. A filter may be anywhere
//! before its link. Every combination is evaluated along the path.
//!
//! *What it does not do.* As a baseline it does no other pruning. If there are more combinations
//! than the policy allows, it fails before it starts.
//!
//! *Sources.* PA-13; docs/concepts/planner.md §8.

use alloc::vec;
use alloc::vec::Vec;

use super::super::problem::Exhausted;
use super::layout::{Layout, Span};
use super::select::selected;
use super::{Chain, Worth};

/// Labels that count as one combination: a label takes one step, a combination is evaluated along a
/// whole path.
const LABELS_PER_COMBINATION: u32 = 8;

/// Tries all positions.
///
/// Cost    exponential in links and filters
pub(super) fn plan(chain: &Chain<'_, '_>, labels_max: u32) -> Result<(Worth, Layout), Exhausted> {
    let selected = selected(chain);
    let links = chain.arcs.len();
    let exhausted = Exhausted { labels: labels_max };
    let most = u64::from(labels_max / LABELS_PER_COMBINATION);
    let mut choices: Vec<Vec<Vec<Span>>> = Vec::new();
    let mut product = 1u64;
    for pair in 0..chain.pairs.len() {
        let required = (0..links).map(|link| selected.covers(pair, link));
        let required: Vec<bool> = required.collect();
        product = product.saturating_mul(count_coverings(links, &required));
        if product > most {
            return Err(exhausted);
        }
        choices.push(coverings(links, &required));
    }
    let filters = needed_filters(chain, &selected);
    for (at, _) in &filters {
        product = product.saturating_mul(*at as u64 + 1);
    }
    if product > most {
        return Err(exhausted);
    }
    Ok(best_of(chain, &choices, &filters))
}

/// Returns the filters that no earlier filter makes redundant.
fn needed_filters(chain: &Chain<'_, '_>, selected: &Layout) -> Vec<(usize, u8)> {
    let mut least = chain.problem.states.layers();
    let mut filters = Vec::new();
    for (at, filter) in selected.filters.iter().enumerate() {
        if let Some(layers) = filter.filter(|layers| *layers < least) {
            least = layers;
            filters.push((at, layers));
        }
    }
    filters
}

/// Evaluates every combination, counting like an odometer, and returns the best.
fn best_of(
    chain: &Chain<'_, '_>,
    choices: &[Vec<Vec<Span>>],
    filters: &[(usize, u8)],
) -> (Worth, Layout) {
    let pairs = choices.len();
    let sizes = choices.iter().map(Vec::len);
    let sizes: Vec<usize> = sizes.chain(filters.iter().map(|(at, _)| at + 1)).collect();
    let mut wheel = vec![0usize; sizes.len()];
    let mut layout = Layout::new(chain.nodes.len(), pairs);
    let mut best: Option<(Worth, Layout)> = None;
    loop {
        for (pair, choice) in choices.iter().enumerate() {
            layout.spans[pair].clone_from(&choice[wheel[pair]]);
        }
        layout.filters.fill(None);
        for (at, (_, layers)) in filters.iter().enumerate() {
            layout.keep(wheel[pairs + at], *layers);
        }
        let worth = chain.worth(&layout);
        if best.as_ref().is_none_or(|(held, _)| worth < *held) {
            best = Some((worth, layout.clone()));
        }
        // Advance the first wheel that can; those before it start over.
        let Some(turn) = (0..wheel.len()).find(|at| wheel[*at] + 1 < sizes[*at]) else {
            break;
        };
        wheel[..turn].fill(0);
        wheel[turn] += 1;
    }
    best.unwrap_or_else(|| (chain.worth(&layout), layout))
}

/// Counts the results of [`coverings`].
fn count_coverings(links: usize, required: &[bool]) -> u64 {
    // By link: the number of lists for the links from it on.
    let mut counts = vec![1u64; links + 1];
    for start in (0..links).rev() {
        let Some(next) = (start..links).find(|link| required[*link]) else {
            continue;
        };
        let begins = (next - start + 1) as u64;
        let rests = counts[next + 1..].iter();
        let rests = rests.fold(0u64, |sum, rest| sum.saturating_add(*rest));
        counts[start] = begins.saturating_mul(rests);
    }
    counts[0]
}

/// Returns every list of disjoint spans that cover all required links, where each span covers one.
fn coverings(links: usize, required: &[bool]) -> Vec<Vec<Span>> {
    let mut begun = vec![Vec::new()];
    let mut done: Vec<Vec<Span>> = Vec::new();
    while let Some(spans) = begun.pop() {
        let start = spans.last().map_or(0, |span: &Span| span.to);
        let Some(next) = (start..links).find(|link| required[*link]) else {
            done.push(spans);
            continue;
        };
        for from in start..=next {
            for to in next + 1..=links {
                let mut longer = spans.clone();
                longer.push(Span { from, to });
                begun.push(longer);
            }
        }
    }
    done
}
