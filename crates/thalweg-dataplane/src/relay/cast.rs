//! The plans that are grafted on others here: each gets a copy of what arrives for its base.
//!
//! *The idea.* The branches of a base stand side by side in one shared list. An ADU that begins to
//! arrive takes the list as it is; a change makes a new one. So taking it copies nothing, and each
//! ADU is either in the group that a new branch begins with, or copied to it.
//!
//! ```text
//!  ADU of e1 ─► whole ─┬─► e1 ─► link
//!                      ├─► e2 ─► link
//!                      └─► e3 ─► link or mailbox
//! ```
//!
//! *What it does not do.* It chooses no graft, and a copy is not copied again here.
//!
//! *Sources.* docs/concepts/recast.md.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, Sequence};

use super::plans::Seat;
use crate::replay::Plan;

/// A plan that gets copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    /// Its number.
    pub(super) epoch: Epoch,
    /// Its seat when it was cast.
    pub(super) seat: Seat,
    /// The first sequence that is not copied, if another plan took over.
    pub(super) until: Option<Sequence>,
}

/// The branches of one plan at one moment, by rising epoch.
#[derive(Clone, Debug, Default)]
pub(super) struct Branches(Option<Arc<[Branch]>>);

/// The branches of all plans of a machine.
#[derive(Debug, Default)]
pub(super) struct Casts {
    by_base: BTreeMap<Plan, Arc<[Branch]>>,
    /// The base of each plan that gets copies.
    bases: BTreeMap<Plan, Epoch>,
}

impl Branch {
    /// Returns whether it gets an ADU of this sequence.
    pub(super) fn has(&self, sequence: Sequence) -> bool {
        self.until.is_none_or(|until| sequence < until)
    }
}

impl Branches {
    /// Returns the plans that get an ADU of this sequence.
    pub(super) fn having(&self, sequence: Sequence) -> impl Iterator<Item = &Branch> {
        let all = self.as_slice().iter();
        all.filter(move |branch| branch.has(sequence))
    }

    /// Returns whether any plan gets an ADU of this sequence.
    pub(super) fn has_any(&self, sequence: Sequence) -> bool {
        self.having(sequence).next().is_some()
    }

    fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }

    fn as_slice(&self) -> &[Branch] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Returns the branches that get an ADU of this sequence now, or when it began to arrive, as
    /// `self` says.
    #[must_use]
    pub(super) fn joined(self, present: &Self, sequence: Sequence) -> Self {
        if self.is_same(present) {
            // The usual case. Comparing each branch with all others costs the square of their number.
            return self;
        }
        let mut all: Vec<Branch> = present.having(sequence).copied().collect();
        all.extend(self.having(sequence).copied());
        all.sort_by_key(|branch| branch.epoch);
        all.dedup_by_key(|branch| branch.epoch);
        Self(Some(all.into()))
    }
}

impl Casts {
    /// Returns the branches of a plan.
    pub(super) fn of(&self, plan: Plan) -> Branches {
        Branches(self.by_base.get(&plan).cloned())
    }

    /// Starts copies from a base to a plan at a seat, or sets where they end if `until` is given;
    /// returns whether the plan had none from that base. A plan has one base: copies from another one
    /// stop.
    pub(super) fn start(
        &mut self,
        (stream, base): Plan,
        (epoch, seat): (Epoch, Seat),
        until: Option<Sequence>,
    ) -> bool {
        let plan = (stream, epoch);
        if self.base_of(plan).is_some_and(|of| of != base) {
            self.stop(plan);
        }
        self.bases.insert(plan, base);
        let branches = self.by_base.entry((stream, base));
        let branches = branches.or_insert_with(|| Arc::new([]));
        let mut all = branches.to_vec();
        let is_new = match all.binary_search_by_key(&epoch, |branch| branch.epoch) {
            Ok(at) if until.is_none() || all[at].until == until => return false,
            Ok(at) => {
                all[at].until = until;
                false
            }
            Err(at) => {
                all.insert(at, Branch { epoch, seat, until });
                true
            }
        };
        *branches = all.into();
        is_new
    }

    /// Stops copies to a plan.
    pub(super) fn stop(&mut self, (stream, epoch): Plan) {
        let Some(base) = self.bases.remove(&(stream, epoch)) else {
            return;
        };
        let Some(branches) = self.by_base.get_mut(&(stream, base)) else {
            return;
        };
        let others = branches.iter().filter(|branch| branch.epoch != epoch);
        *branches = others.copied().collect();
        if branches.is_empty() {
            self.by_base.remove(&(stream, base));
        }
    }

    /// Returns the base from which a plan gets copies.
    pub(super) fn base_of(&self, plan: Plan) -> Option<Epoch> {
        self.bases.get(&plan).copied()
    }

    /// Returns whether a plan has branches.
    pub(super) fn is_base(&self, plan: Plan) -> bool {
        self.by_base.contains_key(&plan)
    }
}
