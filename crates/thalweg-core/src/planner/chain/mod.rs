//! Planners that are given a path and place adapters on it: Panda's heuristic, its exhaustive baseline, and the local
//! one.
//!
//! *The idea.* All three select the same remedies (`select`: what each link requires of the stream that crosses it)
//! and differ in where these run. A [`Layout`] says so: spans of links over which a transform is on, and places of
//! filters. It is led along the path once to see what it costs and how much it breaks.
//!
//! | planner | where remedies run |
//! |---|---|
//! | `incremental` | beside their link: DO before it, UNDO behind it, each node for the link ahead |
//! | `heuristic` | as `incremental` first; then spans of one kind are merged and ends relocated while that helps |
//! | `exhaustive` | everywhere: all positions with DO before and UNDO behind their link |
//!
//! The path is the one with the fewest hops for `incremental`, as routing would give it; the others try a few more
//! (`routes`) and keep the best.
//!
//! *What it does not do.* It never searches for remedies that no link requires, so its best may cost more than that of
//! `exact`; and a remedy that does not fit is not traded for another.
//!
//! *Sources.* docs/planner.md §8; the Panda planner (Rudenko, Reiher; UCLA), PA-5 to PA-15.

mod exhaustive;
mod heuristic;
mod incremental;
mod layout;
mod routes;
mod select;

use alloc::vec::Vec;

use super::cost::Cost;
use super::policy::Planner;
use super::problem::{Arc, Exhausted, Move, Problem, Route};
use crate::model::{Adapter, Catalogue, LinkIndex, Role};
use crate::time::Duration;
use layout::Layout;

/// A path, and the adapters that may run on it.
struct Chain<'p, 'a> {
    problem: &'p Problem<'a>,
    nodes: Vec<u32>,
    /// The link behind each node but the last.
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

/// How far a layout is from a plan, and what it costs; the first decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Worth {
    breaches: u32,
    cost: Cost,
    adapters: u32,
}

/// The best that a planner of paths found.
pub(super) struct Best {
    pub(super) route: Route,
    /// Whether it breaks nothing.
    pub(super) feasible: bool,
}

/// Plans with one of the planners of paths; `None` if no path leads to the sink.
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
            Planner::Incremental => chain.incremental(),
            Planner::Exhaustive => chain.exhaustive(labels_max)?,
            _ => chain.heuristic(),
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

/// Returns the transforms that some adapter switches on and another off, those of higher classes last: what is beneath
/// must run before.
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

    /// Returns the route that a layout describes.
    fn route(&self, layout: &Layout) -> Route {
        let mut moves = Vec::new();
        let mut delay = Duration::ZERO;
        self.lead(layout, |step, at| {
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
