//! What streams put on links, each way.
//!
//! *The idea.* Rates are summed as whole numbers, so that taking a stream off leaves exactly what was there before it
//! came, in whatever order that happens.

use alloc::collections::BTreeMap;

use super::super::problem::{Move, Problem, Route};
use super::super::product::Plan;
use crate::model::LinkIndex;

/// Parts of one bit/s: far below the tolerance of any rate that a link has.
const QUANTA: f64 = 1e9;

/// By the node that sends and the link: the sum of the rates.
#[derive(Clone, Debug, Default)]
pub(super) struct Loads(BTreeMap<(u32, u32), u128>);

impl Loads {
    /// Adds what a stream sends.
    pub(super) fn put(&mut self, uses: &[Use]) {
        for used in uses {
            *self.0.entry(used.key()).or_default() += used.quanta();
        }
    }

    /// Takes it off again.
    pub(super) fn take(&mut self, uses: &[Use]) {
        for used in uses {
            if let Some(load) = self.0.get_mut(&used.key()) {
                *load = load.saturating_sub(used.quanta());
            }
        }
    }

    /// Takes all of it away from what a problem's links may carry.
    pub(super) fn burden(&self, problem: &mut Problem<'_>) {
        for ((from, link), load) in self.0.iter().filter(|(_, load)| **load > 0) {
            problem.burden(*from, LinkIndex(*link), *load as f64 / QUANTA);
        }
    }

    /// Returns whether a stream may send all this beside what is there, where the links have these rates in bit/s.
    pub(super) fn have_room(&self, uses: &[Use], most_bps: impl Fn(LinkIndex) -> f64) -> bool {
        uses.iter().all(|used| {
            let load = self.0.get(&used.key()).copied().unwrap_or(0);
            used.bps <= most_bps(used.link) - load as f64 / QUANTA
        })
    }

    /// Returns whether anything is sent on a link, either way, by who uses it so.
    pub(super) fn meet(uses: &[Use], wanted: &[Use]) -> bool {
        let links = || wanted.iter().map(|used| used.link);
        uses.iter()
            .any(|used| links().any(|link| link == used.link))
    }
}

/// What a stream sends on one link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    from: u32,
    link: LinkIndex,
    bps: f64,
}

impl Use {
    /// Returns what a route's stream puts on each of its links.
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
