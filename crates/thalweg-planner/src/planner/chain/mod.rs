//! Planners that place adapters on a given path: Panda's heuristic, its exhaustive baseline, and a
//! local one.
//!
//! *The idea.* All three select the same remedies (`select`: what each link requires of the stream
//! on it) and differ in where these run. A [`Layout`] holds the positions: spans of links over
//! which a transform is on, and the nodes of filters. It is executed along the path to get its cost
//! and its breaches.
//!
//! | planner | positions of remedies |
//! |---|---|
//! | `incremental` | next to their link: DO before, UNDO after it, each node for the next link only |
//! | `heuristic` | first as `incremental`; then spans of one kind merge and ends move while that helps |
//! | `exhaustive` | all positions with DO before and UNDO after their link |
//!
//! `incremental` uses the path with the fewest hops, as routing would; the others try a few more
//! (`routes`) and keep the best.
//!
//! *What it does not do.* It considers no remedy that no link requires, so its best plan may cost
//! more than that of `exact`; and it never replaces a remedy that does not fit by another.
//!
//! *Sources.* docs/concepts/planner.md §8; the Panda planner (Rudenko, Reiher; UCLA), PA-5 to PA-15.

mod exhaustive;
mod heuristic;
mod incremental;
mod layout;
mod routes;
mod select;

use alloc::vec::Vec;

use layout::Layout;
use thalweg_base::time::Duration;

use super::cost::Cost;
use super::problem::{Arc, Exhausted, Move, Problem, Route};
use crate::model::Planner;
use crate::model::{Adapter, Catalogue, LinkIndex, Role};

/// A path, and the adapters that may run on it.
struct Chain<'p, 'a> {
    problem: &'p Problem<'a>,
    nodes: Vec<u32>,
    /// The link after each node but the last.
    arcs: Vec<Arc>,
    pairs: Vec<Pair>,
}

/// The adapters that switch one transform on and off.
#[derive(Clone, Copy, Debug)]
struct Pair {
    bit: usize,
    order: u8,
    on: Adapter,
    off: Adapter,
}

/// A layout's breaches and cost, compared in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Worth {
    breaches: u32,
    cost: Cost,
    adapters: u32,
}

/// The best result of a path planner.
pub(super) struct Best {
    pub(super) route: Route,
    /// Whether it breaks nothing.
    pub(super) feasible: bool,
}

/// Plans with one of the path planners; `None` if no path leads to the sink.
pub(super) fn plan(
    problem: &Problem<'_>,
    planner: Planner,
    labels_max: u32,
) -> Result<Option<Best>, Exhausted> {
    let pairs = pairs_of(problem.catalogue());
    let mut best: Option<(Worth, Route)> = None;
    for arcs in routes::candidates(problem, planner == Planner::Incremental) {
        let chain = Chain::new(problem, arcs, pairs.clone());
        let (worth, layout) = match planner {
            Planner::Incremental => incremental::plan(&chain),
            Planner::Exhaustive => exhaustive::plan(&chain, labels_max)?,
            _ => heuristic::plan(&chain),
        };
        if best.as_ref().is_none_or(|(held, _)| worth < *held) {
            best = Some((worth, chain.route(&layout)));
        }
    }
    Ok(best.map(|(worth, route)| Best {
        route,
        feasible: worth.breaches == 0,
    }))
}

/// Returns the transforms that can be switched on and off, those of higher classes last: lower
/// classes must run first.
fn pairs_of(catalogue: &Catalogue) -> Vec<Pair> {
    let with = |role| {
        let mut profiles = catalogue.profiles.iter();
        profiles
            .find(|profile| profile.role == role)
            .map(|profile| profile.adapter)
    };
    let transforms = catalogue.transforms.iter().take(Catalogue::TRANSFORMS_MAX);
    let pair = |(bit, transform): (usize, &crate::model::Transform)| {
        Some(Pair {
            bit,
            order: transform.order,
            on: with(Role::Do(bit))?,
            off: with(Role::Undo(bit))?,
        })
    };
    let mut pairs: Vec<Pair> = transforms.enumerate().filter_map(pair).collect();
    pairs.sort_by_key(|pair| (pair.order, pair.bit));
    pairs
}

impl<'p, 'a> Chain<'p, 'a> {
    fn new(problem: &'p Problem<'a>, arcs: Vec<Arc>, pairs: Vec<Pair>) -> Self {
        let mut nodes = alloc::vec![problem.source as u32];
        nodes.extend(arcs.iter().map(|arc| arc.to));
        Self {
            problem,
            nodes,
            arcs,
            pairs,
        }
    }

    /// Returns the route of a layout.
    fn route(&self, layout: &Layout) -> Route {
        let mut moves = Vec::new();
        let mut delay = Duration::ZERO;
        self.execute(layout, |step, at| {
            if let Some(step) = step {
                moves.push(Move::Run(self.problem.states.adapter(step.adapter)));
                delay += step.delay;
            } else {
                let arc = &self.arcs[at];
                delay += Duration::from_nanos(arc.delay_ns);
                moves.push(Move::Hop {
                    link: LinkIndex(arc.link),
                    to: arc.to as usize,
                });
            }
        });
        Route {
            source: self.problem.source,
            moves,
            delay,
        }
    }
}
