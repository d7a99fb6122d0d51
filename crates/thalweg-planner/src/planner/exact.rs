//! The exact planner: relax, search, tighten what was broken, search again.
//!
//! *The idea.* Two kinds of constraints make labels incomparable and searches long, yet seldom
//! bind. One is that a path visits a node at most once (a second visit would find fresh slots, so
//! the best *walk* may be cheaper than the best path). The other is bounds on sums: the deadline
//! and the length of the path. Both are left out at first. If the best walk of the relaxed problem
//! breaks none, it is the best plan; otherwise it shows what to watch: a sum, or the nodes that it
//! visited twice. Each round watches more, so the rounds end.
//!
//! *Sources.* docs/concepts/planner.md §4; Righini and Salani 2008 (decremental state-space relaxation).

use super::cost::Cost;
use super::dual::Guides;
use super::effort::{EarlyEnd, Effort};
use super::problem::{Exhausted, Problem, Route};
use super::reach::Reach;
use super::search::{self, Seed, Walk};
use super::watch::{Watch, visited_twice};

/// Returns the best route; `None` if there is none.
pub(super) fn solve(problem: &Problem<'_>, labels_max: u32) -> Result<Option<Route>, Exhausted> {
    Ok(solve_within(problem, Effort::of(labels_max))?)
}

/// Returns the best route that costs no more than `effort.known`; `None` if there is none. The
/// error is the state of a search that ended early.
pub(super) fn solve_within(
    problem: &Problem<'_>,
    effort: Effort<'_>,
) -> Result<Option<Route>, EarlyEnd> {
    let reach = Reach::of(problem, problem.source);
    let Some(mut guides) = Guides::new(problem, &reach, effort.stop) else {
        return Ok(None);
    };
    let mut watch = Watch::nothing(problem);
    let best = tighten(problem, &mut guides, &mut watch, effort)?;
    Ok(best.map(|walk| walk.route))
}

/// Searches with existing bounds, and watches more until the best walk is a plan.
pub(super) fn tighten<'p, 'a>(
    problem: &'p Problem<'a>,
    guides: &mut Guides<'p, 'a>,
    watch: &mut Watch,
    effort: Effort<'_>,
) -> Result<Option<Walk>, EarlyEnd> {
    let seeds = [Seed::source(problem)];
    // A sum that the cheapest walk without slots exceeds, the cheapest with slots most likely
    // exceeds too.
    let walk = guides.cheapest();
    let mut late = !watch.deadline && walk.delay_ns > problem.deadline().as_nanos();
    let mut long = !watch.length && walk.hops > problem.hops_max();
    let mut bound = Cost::ZERO;
    loop {
        debug_assert!(!(late && watch.deadline), "a watched deadline was missed");
        debug_assert!(!(long && watch.length), "a watched length was exceeded");
        // Each round watches more, so the loop ends.
        watch.deadline |= late;
        watch.length |= long;
        if (late || long) && !guides.watch(watch) {
            return Ok(None);
        }
        let walk = search::best_walk(problem, guides, watch, &seeds, effort);
        let Some(walk) = walk.map_err(|cut| cut.raised(bound))? else {
            return Ok(None);
        };
        late = walk.route.delay > problem.deadline();
        long = walk.route.hops() > problem.hops_max();
        let twice = visited_twice(problem, &walk.route);
        if twice.is_empty() && !late && !long {
            return Ok(Some(walk));
        }
        // The next relaxation is tighter, so its best walk costs no less.
        bound = bound.max(walk.cost);
        watch.visit_once(twice);
    }
}

/// Returns the best route from any of several places; closed nodes are not entered.
pub(super) fn solve_from(
    problem: &Problem<'_>,
    seeds: &[Seed],
    labels_max: u32,
) -> Result<Option<Route>, Exhausted> {
    let nowhere = Reach::everywhere(problem);
    let mut guides = Guides::from_everywhere(problem, &nowhere);
    let mut watch = Watch::nothing(problem);
    loop {
        let effort = Effort::of(labels_max);
        let walk = search::best_walk(problem, &mut guides, &watch, seeds, effort)?;
        let Some(Walk { route, .. }) = walk else {
            return Ok(None);
        };
        let late = route.delay > problem.deadline();
        let long = route.hops() > problem.hops_max();
        let twice = visited_twice(problem, &route);
        if twice.is_empty() && !late && !long {
            return Ok(Some(route));
        }
        watch.deadline |= late;
        watch.length |= long;
        guides.prune(&watch);
        watch.visit_once(twice);
    }
}
