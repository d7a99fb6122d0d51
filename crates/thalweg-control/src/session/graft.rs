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

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use thalweg_base::feed::Given;
use thalweg_base::id::{Epoch, NodeId};
use thalweg_base::time::Instant;

use super::deployment::{Deployment, Graft};
use super::{Part, Session, Sink};

impl Session {
    /// Returns the best graft for a sink's plan, if there is a base.
    ///
    /// Cost    O(sinks · nodes of a path)
    pub(super) fn graft_for(
        &self,
        sink: NodeId,
        parts: &[Part],
        is_standby: bool,
        now: Instant,
    ) -> Option<Graft> {
        if !self.is_recast {
            return None;
        }
        let others = self.sinks.iter().filter(|(other, _)| **other != sink);
        // A standby plan may never come into force.
        let plans = others.filter_map(|(_, other)| {
            let coming = other.next_plan()?;
            let is_base = is_standby || !coming.stands_by();
            Some(coming).filter(|_| is_base).or(other.active.as_ref())
        });
        // A base with a former key carries ADUs that the present key cannot open.
        let plans = plans.filter(|plan| plan.epoch >= self.rekey.first);
        let plans: BTreeMap<Epoch, &Deployment> = plans.map(|plan| (plan.epoch, plan)).collect();
        let best = plans.values().filter_map(|base| {
            let at = shared(&base.parts, parts);
            // A pending base that leads on to a silent node may never come into force, and its
            // graft would wait as long.
            if !base.is_ready() && self.is_silent(&base.parts[at..], now) {
                return None;
            }
            let depth = depth(base, at, &plans)?;
            Some((at, depth, base.epoch))
        });
        let (at, _, base) =
            best.min_by_key(|(at, depth, epoch)| (usize::MAX - at, *depth, *epoch))?;
        Some(Graft { base, at })
    }

    /// Returns whether one of these nodes, other than the first, is reported silent.
    fn is_silent(&self, parts: &[Part], now: Instant) -> bool {
        let until = |part: &Part| self.silent.get(&part.node);
        let mut until = parts.iter().skip(1).filter_map(until);
        until.any(|until| *until > now)
    }

    /// Returns the plans in force or pending.
    pub(super) fn live(&self) -> BTreeSet<Epoch> {
        self.plans().map(|plan| plan.epoch).collect()
    }

    fn plans(&self) -> impl Iterator<Item = &Deployment> {
        let sinks = self.sinks.values();
        sinks.flat_map(|sink| sink.active.iter().chain(&sink.pending))
    }

    /// Returns the plans that others, in force or pending, are grafted on, directly or indirectly.
    ///
    /// Cost    O(sinks · depth), with a logarithm
    pub(super) fn bases(&self) -> BTreeSet<Epoch> {
        let mut bases: BTreeSet<Epoch> = BTreeSet::new();
        let direct = self.plans().filter_map(|plan| Some(plan.graft?.base));
        bases.extend(direct);
        if self.retiring.is_empty() {
            // Intermediate plans are in force too, so their bases are already in the set.
            return bases;
        }
        let grafts = self.grafts();
        for base in bases.clone() {
            let further = core::iter::successors(Some(base), |plan| grafts.get(plan).copied());
            bases.extend(further);
        }
        bases
    }

    /// Requests plans for the sinks with a base that is no longer its own sink's plan.
    pub(super) fn request_orphans(&mut self) {
        let live = self.live();
        let is_orphan = |sink: &Sink| {
            let base = sink.next_plan().and_then(|plan| plan.graft);
            sink.retry.is_none() && base.is_some_and(|graft| !live.contains(&graft.base))
        };
        let orphans = self.sinks.iter().filter(|(_, sink)| is_orphan(sink));
        let orphans: BTreeSet<NodeId> = orphans.map(|(node, _)| *node).collect();
        self.request_plans(|sink, _| orphans.contains(sink));
    }

    /// Doubts the plans that are grafted, directly or indirectly, on one that a node refuses.
    pub(super) fn doubt_grafts_on(&mut self, base: Epoch) {
        let grafts = self.grafts();
        let depends_on_it = |plan: Epoch| {
            let mut bases = core::iter::successors(Some(plan), |plan| grafts.get(plan).copied());
            bases.any(|of| of == base)
        };
        for sink in self.sinks.values_mut() {
            for plan in sink.plans_mut() {
                if plan.graft.is_some_and(|graft| depends_on_it(graft.base)) {
                    plan.whole_hops = 0;
                }
            }
        }
    }

    /// Returns the plan that the source sends under for the ADUs of a plan.
    pub fn root(&self, epoch: Epoch) -> Epoch {
        root(epoch, |plan| Some(self.graft(plan)?.base))
    }

    /// Returns where a plan is grafted, if it is.
    pub fn graft(&self, epoch: Epoch) -> Option<Graft> {
        let retiring = self.retiring.iter().map(|retiring| &retiring.deployment);
        let mut plans = self.plans().chain(retiring);
        plans.find(|plan| plan.epoch == epoch)?.graft
    }

    /// Returns the plans that the source sends ADUs under, each with the plans that it feeds.
    ///
    /// Cost    O(sinks · depth), with a logarithm
    pub fn given(&self) -> Vec<Given> {
        let grafts = self.grafts();
        let mut given: BTreeMap<Epoch, Vec<Epoch>> = BTreeMap::new();
        for (_, epoch) in self.active() {
            given
                .entry(root(epoch, |plan| grafts.get(&plan).copied()))
                .or_default()
                .push(epoch);
        }
        let given = given.into_iter().map(|(epoch, mut serves)| {
            serves.sort_unstable();
            Given { epoch, serves }
        });
        given.collect()
    }

    fn grafts(&self) -> BTreeMap<Epoch, Epoch> {
        let retiring = self.retiring.iter().map(|retiring| &retiring.deployment);
        let plans = self.plans().chain(retiring);
        plans
            .filter_map(|plan| Some((plan.epoch, plan.graft?.base)))
            .collect()
    }
}

/// Follows bases up to the plan that is not grafted.
fn root(mut epoch: Epoch, base_of: impl Fn(Epoch) -> Option<Epoch>) -> Epoch {
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
        if place <= plan.start() || place > plan.whole_hops {
            return None;
        }
        let Some(graft) = plan.graft else {
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
