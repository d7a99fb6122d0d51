//! Grafts: where the plan for one sink leaves that for another, so that the shared path carries one copy.
//!
//! *The idea.* Plans are made for each sink on its own. If a new one starts like an existing one
//! (the same nodes with the same adapters, so that the same bytes arrive), the rest of it is
//! grafted there. The nodes before have no part of it. The node where the two part, the *caster*,
//! feeds it a copy of what arrives for its *base*.
//!
//! ```text
//!  source ═══► relay ═══► sink A            base: the plan for A
//!                └─────► sink B             graft: the plan for B, from the relay on
//! ```
//!
//! The base with the longest shared path is taken; a grafted base only if the paths agree beyond
//! its own caster. This yields trees of any depth, with one copy on each link. Consequences:
//!
//! - the source sends under a base for as long as a plan in force is grafted on it, directly or
//!   through others;
//! - it is renewed as long, and not released before;
//! - when it is no longer its sink's plan, the sinks of its grafts are planned again.
//!
//! *What it does not do.* It chooses no path: the planner does.
//!
//! *Sources.* docs/concepts/recast.md; decisions/0016.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use thalweg_base::feed::Given;
use thalweg_base::id::Epoch;

use super::Part;
use super::deployment::{Deployment, Graft};

/// Which plan each grafted one is copied from.
#[derive(Debug)]
pub(super) struct Grafts(BTreeMap<Epoch, Epoch>);

impl Grafts {
    /// Returns those of some plans.
    pub(super) fn of<'a>(plans: impl Iterator<Item = &'a Deployment>) -> Self {
        let grafted = plans.filter_map(|plan| Some((plan.epoch(), plan.graft()?.base)));
        Self(grafted.collect())
    }

    /// Returns a plan and those that it is grafted on, directly or indirectly.
    pub(super) fn with_bases(&self, plan: Epoch) -> impl Iterator<Item = Epoch> {
        core::iter::successors(Some(plan), |plan| self.0.get(plan).copied())
    }

    /// Returns the plans that the source sends ADUs under, each with the plans in force that it
    /// feeds.
    pub(super) fn given(&self, active: impl Iterator<Item = Epoch>) -> Vec<Given> {
        let mut given: BTreeMap<Epoch, Vec<Epoch>> = BTreeMap::new();
        for epoch in active {
            let root = root(epoch, |plan| self.0.get(&plan).copied());
            given.entry(root).or_default().push(epoch);
        }
        let given = given.into_iter().map(|(epoch, mut serves)| {
            serves.sort_unstable();
            Given { epoch, serves }
        });
        given.collect()
    }
}

/// Returns the best graft for a plan on one of these bases, if there is one. `is_silent` tells
/// whether a node of a path, other than the first, is reported silent.
///
/// Cost    O(bases · nodes of a path)
pub(super) fn best(
    bases: &BTreeMap<Epoch, &Deployment>,
    parts: &[Part],
    is_silent: impl Fn(&[Part]) -> bool,
) -> Option<Graft> {
    let best = bases.values().filter_map(|base| {
        let at = shared(base.path().parts(), parts);
        // A pending base that leads on to a silent node may never come into force, and its graft
        // would wait as long.
        if !base.is_ready() && is_silent(&base.path().parts()[at..]) {
            return None;
        }
        let depth = depth(base, at, bases)?;
        Some((at, depth, base.epoch()))
    });
    let (at, _, base) = best.min_by_key(|(at, depth, epoch)| (usize::MAX - at, *depth, *epoch))?;
    Some(Graft { base, at })
}

/// Follows bases up to the plan that is not grafted.
pub(super) fn root(mut epoch: Epoch, base_of: impl Fn(Epoch) -> Option<Epoch>) -> Epoch {
    // A base is older than its grafts, so this ends.
    while let Some(base) = base_of(epoch) {
        epoch = base;
    }
    epoch
}

/// Returns the number of plans between the source and a graft on this base at this position; `None`
/// if it is invalid.
fn depth(base: &Deployment, at: usize, plans: &BTreeMap<Epoch, &Deployment>) -> Option<usize> {
    let (mut plan, mut place, mut depth) = (base, at, 1);
    loop {
        if place <= plan.start() || !plan.path().is_whole_to(place) {
            return None;
        }
        let Some(graft) = plan.graft() else {
            return Some(depth);
        };
        plan = plans.get(&graft.base)?;
        place = graft.at;
        depth += 1;
    }
}

/// Returns the last position up to which two plans carry the same bytes.
fn shared(one: &[Part], other: &[Part]) -> usize {
    let mut last = 0;
    for (at, (one, other)) in one.iter().zip(other).enumerate() {
        if (one.node, one.plaintext) != (other.node, other.plaintext) {
            break;
        }
        last = at;
        if one.adapters != other.adapters {
            break;
        }
    }
    last
}
