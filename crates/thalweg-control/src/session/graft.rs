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
//! A base carries ADUs of its own to the node where the two part, so it is looked up there: from the end
//! of the new path on, the plans that pass the node at that position ([`Sinks::passing`]).
//! On a tree one copy goes over each link, so these are few, however many sinks there are.
//!
//! *What it does not do.* It chooses no path: the planner does.
//!
//! *Sources.* docs/concepts/recast.md; decisions/0016.

use thalweg_base::id::{Epoch, NodeId};

use super::Part;
use super::deployment::{Deployment, Graft};
use super::sinks::Sinks;

/// The plans that a new one for a sink may be grafted on.
#[derive(Debug)]
pub(super) struct Bases<'a> {
    pub(super) sinks: &'a Sinks,
    pub(super) node: NodeId,
    /// Whether the new plan stands by.
    pub(super) is_standby: bool,
    /// The first plan with the present key.
    pub(super) first: Epoch,
}

impl<'a> Bases<'a> {
    fn get(&self, epoch: Epoch) -> Option<&'a Deployment> {
        let is_standby = self.is_standby;
        self.sinks
            .base_for(self.node, is_standby, self.first, epoch)
    }
}

/// Returns the best graft for a plan on one of these bases, if there is one. `is_silent` tells
/// whether a node of a path, other than the first, is reported silent.
///
/// Cost    O(bases that pass nodes of the path behind the graft · nodes of a path), with a logarithm
pub(super) fn best(
    bases: &Bases<'_>,
    parts: &[Part],
    is_silent: impl Fn(&[Part]) -> bool,
) -> Option<Graft> {
    let here = |at: usize| {
        let passing = bases.sinks.passing(at, &parts[at]);
        let possible = passing.filter_map(|epoch| {
            let base = bases.get(epoch)?;
            if shared(base.path().parts(), parts) != at {
                return None;
            }
            // A pending base that leads on to a silent node may never come into force, and its graft
            // would wait as long.
            if !base.is_ready() && is_silent(&base.path().parts()[at..]) {
                return None;
            }
            Some((depth(base, at, bases)?, epoch))
        });
        let (_, base) = possible.min()?;
        Some(Graft { base, at })
    };
    // A base has no part at position 0 that it would not have for another: that is the source.
    (1..parts.len()).rev().find_map(here)
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
fn depth(base: &Deployment, at: usize, bases: &Bases<'_>) -> Option<usize> {
    let (mut plan, mut place, mut depth) = (base, at, 1);
    loop {
        if place <= plan.start() || !plan.path().is_whole_to(place) {
            return None;
        }
        let Some(graft) = plan.graft() else {
            return Some(depth);
        };
        plan = bases.get(graft.base)?;
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
