//! Best-first search over labels: node, state, slots used at the node.
//!
//! *The idea.* A label is a path from the source to a node in a state. Labels pop in the order of
//! cost so far + lower bound of the rest, so the first to arrive is cheapest, and labels of equal
//! cost arrive before dearer ones. Bounds are computed on demand (`dual`): a label with a grown
//! bound is pushed back. A label is dropped when another at the same place is at least as good in
//! *every* respect that can matter later:
//!
//! - the total order: cost, adapters, hops, node names, adapters' texts, link indices;
//! - slots used at this node, and its CPU where that is bounded;
//! - delay, if the deadline is watched; hops, if the length is;
//! - the watched nodes it has visited, as a subset.
//!
//! *What it does not do.* It searches walks: only watched nodes, source and sink are visited at
//! most once (`exact` closes the gap).
//!
//! *Sources.* docs/concepts/planner.md §4; Desrochers and Soumis 1988 (label setting with resources).

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

use thalweg_base::time::Duration;

use super::cost::Cost;
use super::dual::Guides;
use super::effort::{EarlyEnd, Effort, STEPS_BETWEEN};
use super::potential::Sums;
use super::problem::{Move, Problem, Route};
use super::states::Step;
use super::watch::{Watch, visited_twice};
use crate::model::LinkIndex;

/// No label, or no next label.
const NONE: u32 = u32::MAX;

/// A path from the source to a node, in a state.
#[derive(Clone, Copy)]
struct Label {
    cost: Cost,
    delay_ns: u64,
    /// CPU used by the adapters at this node, where it is bounded.
    picocores: u64,
    /// The label before the last move.
    parent: u32,
    /// The next label at the same place.
    next: u32,
    node: u32,
    via: Via,
    state: u16,
    adapters: u16,
    hops: u16,
    slots: u8,
    alive: bool,
}

const _: () = assert!(
    size_of::<Label>() <= 64,
    "the label limit assumes a cache line per label"
);

/// The last move of a label.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Via {
    Start,
    /// An adapter, by rank.
    Run(u16),
    Hop(u32),
}

/// Returns a label's sums.
fn sums(label: &Label) -> Sums {
    Sums {
        cost: label.cost,
        delay_ns: label.delay_ns,
        hops: u32::from(label.hops),
    }
}

/// The order in which labels pop, then the label.
type Entry = Reverse<(Cost, u16, u16, u32)>;

/// A start of a search: the source, or a place on an existing tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed {
    /// The seed before the last move, by index.
    pub(super) parent: Option<u32>,
    /// The last move; `None` at the source.
    pub(super) via: Option<Move>,
    pub(super) node: u32,
    pub(super) state: u16,
    pub(super) delay: Duration,
    pub(super) adapters: u16,
    pub(super) hops: u16,
    /// Slots in use at the node.
    pub(super) slots: u8,
    /// CPU in use at the node, where it is bounded.
    pub(super) picocores: u64,
}

impl Seed {
    /// Returns the stream at its source.
    pub(super) fn source(problem: &Problem<'_>) -> Self {
        Self {
            parent: None,
            via: None,
            node: problem.source as u32,
            state: problem.states.start(),
            delay: Duration::ZERO,
            adapters: 0,
            hops: 0,
            slots: 0,
            picocores: 0,
        }
    }
}

/// A walk to delivery.
pub(super) struct Walk {
    pub(super) cost: Cost,
    pub(super) route: Route,
    /// Labels that the search kept.
    pub(super) labels: u32,
}

struct Search<'a, 'p, 'b> {
    problem: &'p Problem<'a>,
    guides: &'b mut Guides<'p, 'a>,
    watch: &'b Watch,
    labels: Vec<Label>,
    /// Bit sets of the watched nodes that each label has visited, `words` words per label.
    visited: Vec<u64>,
    words: usize,
    /// The first label of each place, `node · states + state`.
    heads: Vec<u32>,
    heap: BinaryHeap<Entry>,
    effort: Effort<'b>,
}

/// Returns the best walk that keeps the watched constraints; `None` if there is none.
pub(super) fn best_walk<'p, 'a>(
    problem: &'p Problem<'a>,
    guides: &mut Guides<'p, 'a>,
    watch: &Watch,
    seeds: &[Seed],
    effort: Effort<'_>,
) -> Result<Option<Walk>, EarlyEnd> {
    let words = watch.once_count.div_ceil(64) as usize;
    let places = problem.topology().nodes().len() * problem.states.count();
    let mut search = Search {
        problem,
        guides,
        watch,
        labels: Vec::new(),
        visited: Vec::new(),
        words,
        heads: vec![NONE; places],
        heap: BinaryHeap::new(),
        effort,
    };
    search.start(seeds);
    match search.run() {
        Ok(best) => Ok(best.map(|best| Walk {
            cost: search.labels[best as usize].cost,
            route: search.route(best),
            labels: search.labels.len() as u32,
        })),
        Err(bound) => Err(search.cut(bound)),
    }
}

impl Search<'_, '_, '_> {
    /// Adds a label for each seed; one that leads nowhere keeps its index, as others refer to it.
    fn start(&mut self, seeds: &[Seed]) {
        for (index, seed) in seeds.iter().enumerate() {
            let label = Label {
                cost: self.problem.states.quality(seed.state),
                delay_ns: seed.delay.as_nanos(),
                picocores: seed.picocores,
                parent: seed.parent.unwrap_or(NONE),
                next: NONE,
                node: seed.node,
                via: match seed.via {
                    None => Via::Start,
                    Some(Move::Run(adapter)) => {
                        let rank = self.problem.states.rank(adapter);
                        Via::Run(rank.expect("a tree runs adapters of the catalogue"))
                    }
                    Some(Move::Hop { link, .. }) => Via::Hop(link.0),
                },
                state: seed.state,
                adapters: seed.adapters,
                hops: seed.hops,
                slots: seed.slots,
                alive: true,
            };
            self.labels.push(label);
            self.visited.resize(self.labels.len() * self.words, 0);
            if self.problem.may_be(seed.node, seed.state) {
                let bound = self.guides.bound(&sums(&label), seed.node, seed.state);
                self.activate(index as u32, bound);
            }
        }
    }

    /// Pops labels until no better one can reach the goal; the error is the bound at which it had
    /// to stop.
    fn run(&mut self) -> Result<Option<u32>, Cost> {
        let mut steps = 0u32;
        // The cost of the first walk found, and the best by tie-break among those of equal cost.
        let mut best: Option<(Cost, u32)> = None;
        while let Some(Reverse((cost, _, _, index))) = self.heap.pop() {
            // Labels of equal cost are still compared by tie-break.
            if best.is_some_and(|(least, _)| cost.exceeds(least)) {
                break;
            }
            let label = self.labels[index as usize];
            // Dominated since it was queued.
            if !label.alive {
                continue;
            }
            let raised = self
                .guides
                .raised(&sums(&label), label.node, label.state, cost);
            // The bound has grown: the label may no longer be the next one.
            if raised > cost {
                self.push(index, raised);
                continue;
            }
            let at_sink = label.node as usize == self.problem.sink;
            if at_sink && self.problem.states.is_goal(label.state) {
                best = Some(match best {
                    Some((least, held)) if self.tie_break(held, index) != Ordering::Greater => {
                        (least, held)
                    }
                    Some((least, _)) => (least, index),
                    None => (cost, index),
                });
                continue;
            }
            let is_time = steps.is_multiple_of(STEPS_BETWEEN) && (self.effort.stop)();
            steps = steps.wrapping_add(1);
            if is_time || self.labels.len() >= self.effort.labels_max as usize {
                return Err(cost);
            }
            self.run_adapters(index, &label);
            // A path ends at the sink.
            if !at_sink {
                self.hop(index, &label);
            }
        }
        Ok(best.map(|(_, index)| index))
    }

    fn run_adapters(&mut self, index: u32, label: &Label) {
        let problem = self.problem;
        let Some(penalty) = problem.slot_penalty(label.node, label.slots) else {
            return;
        };
        let must_hide = problem.hides_at(label.node);
        for step in problem.states.steps(label.state) {
            let Step { to, delay, .. } = *step;
            if must_hide && !problem.states.is_hidden(to) {
                continue;
            }
            let Some(lack) = problem.shortage_penalty(label.node, label.picocores, step) else {
                continue;
            };
            self.copy_visited(index);
            self.add(Label {
                cost: label.cost + step.cost + penalty + lack + problem.delay_penalty(delay),
                delay_ns: label.delay_ns.saturating_add(delay.as_nanos()),
                picocores: problem.used_picocores(label.node, label.picocores, step),
                parent: index,
                via: Via::Run(step.adapter),
                state: to,
                adapters: label.adapters.saturating_add(1),
                slots: label.slots + 1,
                ..*label
            });
        }
    }

    fn hop(&mut self, index: u32, label: &Label) {
        let problem = self.problem;
        for arc in problem.arcs_from(label.node) {
            if !problem.may_enter(arc.to) {
                continue;
            }
            let bit = self.watch.once[arc.to as usize];
            if bit.is_some_and(|bit| self.has_visited(index, bit)) {
                continue;
            }
            let Some(cost) = problem.hop_cost(arc, label.state) else {
                continue;
            };
            self.copy_visited(index);
            if let Some(bit) = bit {
                let at = self.visited.len() - self.words + bit as usize / 64;
                self.visited[at] |= 1 << (bit % 64);
            }
            self.add(Label {
                cost: label.cost + cost,
                delay_ns: label.delay_ns.saturating_add(arc.delay_ns),
                parent: index,
                node: arc.to,
                via: Via::Hop(arc.link),
                hops: label.hops.saturating_add(1),
                slots: 0,
                picocores: 0,
                ..*label
            });
        }
    }

    fn visited_of(&self, index: u32) -> &[u64] {
        let from = index as usize * self.words;
        &self.visited[from..from + self.words]
    }

    fn has_visited(&self, index: u32, bit: u32) -> bool {
        self.visited_of(index)[bit as usize / 64] >> (bit % 64) & 1 == 1
    }

    /// Copies a label's visited set to the label about to be added.
    fn copy_visited(&mut self, index: u32) {
        let from = index as usize * self.words;
        self.visited.extend_from_within(from..from + self.words);
    }

    /// Adds a label with its visited words in place, unless it cannot arrive or another dominates
    /// it.
    fn add(&mut self, mut label: Label) {
        let bound = self.guides.bound(&sums(&label), label.node, label.state);
        // It cannot arrive, or only at a higher cost than a known plan.
        if bound == Cost::MAX || bound.exceeds(self.effort.known) {
            self.visited.truncate(self.labels.len() * self.words);
            return;
        }
        let index = self.labels.len() as u32;
        label.next = NONE;
        self.labels.push(label);
        if !self.activate(index, bound) {
            self.labels.pop();
            self.visited.truncate(self.labels.len() * self.words);
        }
    }

    /// Makes a stored label active; returns false if another dominates it.
    fn activate(&mut self, index: u32, bound: Cost) -> bool {
        let label = &self.labels[index as usize];
        let states = self.problem.states.count();
        let place = label.node as usize * states + usize::from(label.state);
        if self.is_dominated(place, index) {
            return false;
        }
        self.labels[index as usize].next = self.heads[place];
        self.heads[place] = index;
        self.push(index, bound);
        true
    }

    fn push(&mut self, index: u32, bound: Cost) {
        let label = &self.labels[index as usize];
        if bound < Cost::MAX {
            let key = (bound, label.adapters, label.hops, index);
            self.heap.push(Reverse(key));
        }
    }

    /// Returns whether a label at the place dominates the new one, and drops those that the new one
    /// dominates.
    fn is_dominated(&mut self, place: usize, new: u32) -> bool {
        let (mut before, mut at) = (NONE, self.heads[place]);
        while at != NONE {
            let next = self.labels[at as usize].next;
            if self.dominates(at, new) {
                return true;
            }
            if self.dominates(new, at) {
                self.labels[at as usize].alive = false;
                match before {
                    NONE => self.heads[place] = next,
                    _ => self.labels[before as usize].next = next,
                }
            } else {
                before = at;
            }
            at = next;
        }
        false
    }

    /// Returns whether `one` is at least as good as `other` in everything that can matter later.
    fn dominates(&self, one: u32, other: u32) -> bool {
        let (a, b) = (&self.labels[one as usize], &self.labels[other as usize]);
        if a.slots > b.slots || a.picocores > b.picocores || a.cost.exceeds(b.cost) {
            return false;
        }
        if self.watch.deadline && a.delay_ns > b.delay_ns || self.watch.length && a.hops > b.hops {
            return false;
        }
        let (seen, allowed) = (self.visited_of(one), self.visited_of(other));
        if seen.iter().zip(allowed).any(|(a, b)| a & !b != 0) {
            return false;
        }
        b.cost.exceeds(a.cost) || self.tie_break(one, other) != Ordering::Greater
    }

    /// Compares two labels of equal cost: adapters, hops, then names, adapters' texts and links.
    fn tie_break(&self, one: u32, other: u32) -> Ordering {
        let (a, b) = (&self.labels[one as usize], &self.labels[other as usize]);
        (a.adapters, a.hops)
            .cmp(&(b.adapters, b.hops))
            .then_with(|| self.order_moves(one, other))
    }

    /// Compares two labels with equally many moves by names, adapters' texts and links, from their
    /// last common label.
    fn order_moves(&self, mut one: u32, mut other: u32) -> Ordering {
        let mut moves: Vec<[&Label; 2]> = Vec::new();
        while one != other {
            let pair = [&self.labels[one as usize], &self.labels[other as usize]];
            moves.push(pair);
            [one, other] = [pair[0].parent, pair[1].parent];
        }
        moves.reverse();
        let hops = |side: usize| {
            let labels = moves.iter().map(move |pair| pair[side]);
            labels.filter_map(|label| match label.via {
                Via::Hop(link) => Some((label.node, link)),
                Via::Run(_) | Via::Start => None,
            })
        };
        let nodes = self.problem.topology().nodes();
        let names = |side| hops(side).map(|(node, _)| &nodes[node as usize].name);
        // A hop ends a node's list, and sorts before any adapter that would continue it.
        let adapters = |side: usize| {
            moves.iter().map(move |pair| match pair[side].via {
                Via::Run(rank) => Some(rank),
                Via::Hop(_) | Via::Start => None,
            })
        };
        let links = |side| hops(side).map(|(_, link)| link);
        (names(0).cmp(names(1)))
            .then_with(|| adapters(0).cmp(adapters(1)))
            .then_with(|| links(0).cmp(links(1)))
    }

    /// Returns the state of a search that had to stop.
    fn cut(&self, bound: Cost) -> EarlyEnd {
        let problem = self.problem;
        let mut best: Option<(Cost, Route)> = None;
        for (index, label) in self.labels.iter().enumerate() {
            let at_goal =
                label.node as usize == problem.sink && problem.states.is_goal(label.state);
            if !at_goal || best.as_ref().is_some_and(|(held, _)| *held <= label.cost) {
                continue;
            }
            let route = self.route(index as u32);
            if route.delay <= problem.deadline()
                && route.hops() <= problem.hops_max()
                && visited_twice(problem, &route).is_empty()
            {
                best = Some((label.cost, route));
            }
        }
        EarlyEnd {
            labels: self.labels.len() as u32,
            bound,
            best,
        }
    }

    fn route(&self, best: u32) -> Route {
        let mut moves = Vec::new();
        let mut at = best;
        while at != NONE {
            let label = &self.labels[at as usize];
            match label.via {
                Via::Start => {}
                Via::Run(rank) => moves.push(Move::Run(self.problem.states.adapter(rank))),
                Via::Hop(link) => moves.push(Move::Hop {
                    link: LinkIndex(link),
                    to: label.node as usize,
                }),
            }
            at = label.parent;
        }
        moves.reverse();
        Route {
            source: self.problem.source,
            moves,
            delay: Duration::from_nanos(self.labels[best as usize].delay_ns),
        }
    }
}
