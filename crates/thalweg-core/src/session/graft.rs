//! Grafts: where the plan for one sink leaves that for another, so that the way up to there bears one copy for both.
//!
//! *The idea.* Plans are made for each sink on its own. Where a new one begins like one that is there (the same nodes with the
//! same adapters, so that the same arrives), the rest of it is grafted there: the nodes before have no part of it, and the
//! node where the two part, the *caster*, gives it a copy of what arrives for its *base*.
//!
//! ```text
//!  source ═══► relay ═══► sink A            base: the plan for A
//!                └─────► sink B             graft: the plan for B, from the relay on
//! ```
//!
//! Of all plans the one with the longest beginning in common is taken, and one that is grafted only if it is followed further
//! than to its own caster: so trees of any depth come about, each link of which bears one copy. What follows:
//!
//! - a base is given ADUs by the source for as long as a plan in force is grafted on it, itself or by others between;
//! - it is renewed as long, and not released before;
//! - when it is not the plan of its own sink any more, the sinks whose plans are grafted on it are planned anew.
//!
//! A plan that is still to come into force, and leads on to a node that was said not to answer, is no base: it may never come
//! into force, and who waited for it would be silent as long.
//!
//! *What it does not do.* It chooses no way: that is the planner's.
//!
//! *Sources.* docs/recast.md; decisions/0016.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::deployment::Deployment;
use super::{Part, Session, Sink};
use crate::id::{Epoch, NodeId, Sequence};
use crate::time::Instant;

/// Where a plan is fed from, if not by the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graft {
    /// The plan whose ADUs it has copies of.
    pub base: Epoch,
    /// The place on its way of the node where it gets them: never 0, which is the source.
    pub at: usize,
}

/// What a plan that is grafted is given at its caster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// Nothing any more.
    Off,
    /// A copy of every ADU that arrives for its base from now on.
    Live,
    /// The same, and first what is kept of that base since its newest key ADU, for its sink begins with it.
    Replay,
    /// A copy of what has a smaller sequence: what was given while the plan was in force and has not arrived yet. The rest goes by
    /// the plan that took over.
    Until(Sequence),
}

impl Feed {
    /// Returns whether whoever asks waits for the answer.
    pub const fn begins(self) -> bool {
        matches!(self, Self::Live | Self::Replay)
    }
}

/// A plan under which the source gives ADUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The plan.
    pub epoch: Epoch,
    /// The plans in force that bring these ADUs to sinks: itself, and those that are grafted on it.
    pub serves: Vec<Epoch>,
}

impl Session {
    /// Returns the best graft for a sink's plan, if there is a base for it.
    ///
    /// Cost    O(sinks · nodes of a way)
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
        // One that stands by may never come into force.
        let plans = others.filter_map(|(_, other)| {
            let coming = other.coming()?;
            let is_base = is_standby || !coming.stands_by();
            Some(coming).filter(|_| is_base).or(other.active.as_ref())
        });
        // What a base of an earlier key brings cannot be opened with the present one.
        let plans = plans.filter(|plan| plan.epoch >= self.rekey.first);
        let plans: BTreeMap<Epoch, &Deployment> = plans.map(|plan| (plan.epoch, plan)).collect();
        let best = plans.values().filter_map(|base| {
            let at = shared(&base.parts, parts);
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

    /// Returns whether one of these nodes, other than the first, was said not to answer.
    fn is_silent(&self, parts: &[Part], now: Instant) -> bool {
        let until = |part: &Part| self.silent.get(&part.node);
        let mut until = parts.iter().skip(1).filter_map(until);
        until.any(|until| *until > now)
    }

    /// Returns the plans that are in force or to come into it.
    pub(super) fn live(&self) -> BTreeSet<Epoch> {
        self.plans().map(|plan| plan.epoch).collect()
    }

    fn plans(&self) -> impl Iterator<Item = &Deployment> {
        let sinks = self.sinks.values();
        sinks.flat_map(|sink| sink.active.iter().chain(&sink.pending))
    }

    /// Returns the plans on which plans that are in force, or to come into it, are grafted, themselves or by others between.
    ///
    /// Cost    O(sinks · depth), with a logarithm
    pub(super) fn bases(&self) -> BTreeSet<Epoch> {
        let mut bases: BTreeSet<Epoch> = BTreeSet::new();
        let direct = self.plans().filter_map(|plan| Some(plan.graft?.base));
        bases.extend(direct);
        if self.retiring.is_empty() {
            // Those between are in force too, and have named what they are grafted on.
            return bases;
        }
        let grafts = self.grafts();
        for base in bases.clone() {
            let further = core::iter::successors(Some(base), |plan| grafts.get(plan).copied());
            bases.extend(further);
        }
        bases
    }

    /// Asks for the plans of the sinks whose base is not the plan of its own sink any more.
    pub(super) fn want_orphans(&mut self) {
        let live = self.live();
        let is_orphan = |sink: &Sink| {
            let base = sink.coming().and_then(|plan| plan.graft);
            sink.retry.is_none() && base.is_some_and(|graft| !live.contains(&graft.base))
        };
        let orphans = self.sinks.iter().filter(|(_, sink)| is_orphan(sink));
        let orphans: BTreeSet<NodeId> = orphans.map(|(node, _)| *node).collect();
        self.want_plans(|sink, _| orphans.contains(sink));
    }

    /// Doubts the plans that are grafted on one that a node will not have any more, themselves or by others between.
    pub(super) fn doubt_grafts(&mut self, base: Epoch) {
        let grafts = self.grafts();
        let lives_on_it = |plan: Epoch| {
            let mut bases = core::iter::successors(Some(plan), |plan| grafts.get(plan).copied());
            bases.any(|of| of == base)
        };
        for sink in self.sinks.values_mut() {
            for plan in sink.plans_mut() {
                if plan.graft.is_some_and(|graft| lives_on_it(graft.base)) {
                    plan.whole_hops = 0;
                }
            }
        }
    }

    /// Returns the plan under which the source gives what goes by a plan.
    pub fn root(&self, epoch: Epoch) -> Epoch {
        root(epoch, |plan| Some(self.graft(plan)?.base))
    }

    /// Returns where a plan is grafted, if it is.
    pub fn graft(&self, epoch: Epoch) -> Option<Graft> {
        let retiring = self.retiring.iter().map(|retiring| &retiring.deployment);
        let mut plans = self.plans().chain(retiring);
        plans.find(|plan| plan.epoch == epoch)?.graft
    }

    /// Returns the plans under which the source gives ADUs, with those that bring them to sinks.
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

/// Follows grafts, of each of which the base is told, to the plan that is none.
fn root(mut epoch: Epoch, base_of: impl Fn(Epoch) -> Option<Epoch>) -> Epoch {
    // A base is older than what is grafted on it, so this ends.
    while let Some(base) = base_of(epoch) {
        epoch = base;
    }
    epoch
}

/// Returns how many plans lie between one that is grafted on this at that place and the source; `None` if it cannot be.
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

/// Returns the place of the last node up to which two plans bring the same.
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
