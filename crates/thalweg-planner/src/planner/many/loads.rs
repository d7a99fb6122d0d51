//! The load of streams on links, by direction.
//!
//! *The idea.* Rates are summed as whole numbers, so that removing a stream restores exactly the
//! load before it, in any order.

use alloc::collections::BTreeMap;

use super::super::problem::{Move, Problem, Route};
use super::super::product::Plan;
use crate::model::LinkIndex;

/// Quanta per bit/s: far finer than the tolerance of a link's rate.
const QUANTA: f64 = 1e9;

/// The sum of rates by sending node and link.
#[derive(Clone, Debug, Default)]
pub(super) struct Loads(BTreeMap<(u32, u32), u128>);

impl Loads {
    /// Adds a stream's load.
    pub(super) fn put(&mut self, uses: &[Use]) {
        for used in uses {
            *self.0.entry(used.key()).or_default() += used.quanta();
        }
    }

    /// Removes a stream's load.
    pub(super) fn take(&mut self, uses: &[Use]) {
        for used in uses {
            if let Some(load) = self.0.get_mut(&used.key()) {
                *load = load.saturating_sub(used.quanta());
            }
        }
    }

    /// Reduces what a problem's links may carry by the load.
    pub(super) fn reserve(&self, problem: &mut Problem<'_>) {
        for ((from, link), load) in self.0.iter().filter(|(_, load)| **load > 0) {
            problem.reserve(*from, LinkIndex(*link), *load as f64 / QUANTA);
        }
    }

    /// Returns whether a stream fits beside the load, given the links' capacity in bit/s.
    pub(super) fn have_room(&self, uses: &[Use], most_bps: impl Fn(LinkIndex) -> f64) -> bool {
        uses.iter().all(|used| {
            let load = self.0.get(&used.key()).copied().unwrap_or(0);
            used.bps <= most_bps(used.link) - load as f64 / QUANTA
        })
    }

    /// Returns whether two streams use a common link, in either direction.
    pub(super) fn meet(uses: &[Use], wanted: &[Use]) -> bool {
        let links = || wanted.iter().map(|used| used.link);
        uses.iter()
            .any(|used| links().any(|link| link == used.link))
    }
}

/// A stream's load on one link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    from: u32,
    link: LinkIndex,
    bps: f64,
}

impl Use {
    /// Returns a route's load on each of its links.
    pub(super) fn all_of(route: &Route, plan: &Plan) -> alloc::vec::Vec<Self> {
        let mut from = route.source as u32;
        let hops = route.moves.iter().filter_map(|step| match step {
            Move::Hop { link, to } => Some((*link, *to as u32)),
            Move::Run(_) => None,
        });
        let mut uses = alloc::vec::Vec::new();
        for ((link, to), used) in hops.zip(&plan.links) {
            uses.push(Self {
                from,
                link,
                bps: used.rate_bps,
            });
            from = to;
        }
        uses
    }

    fn key(&self) -> (u32, u32) {
        (self.from, self.link.0)
    }

    fn quanta(&self) -> u128 {
        (self.bps * QUANTA) as u128
    }
}
