//! What is kept of each plan for who joins late.
//!
//! *The idea.* What is kept and which plans are cast change under one lock: an ADU that is whole is either among what a plan is
//! given when it begins, or copied to it afterwards.
//!
//! *What it does not do.* It decides on nothing that is kept: `thalweg_core::replay` does.
//!
//! *Sources.* docs/recast.md.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_core::adu::{Adu, Header};
use thalweg_core::id::{Epoch, StreamId};
use thalweg_core::replay::{Plan, Replay};
use thalweg_core::time::Instant;

use super::cast::{Branch, Branches};
use super::{Forwarder, Route, read};

/// What is kept of all plans.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Replay>);

impl Kept {
    /// Forgets what is kept of a plan.
    pub(super) fn forget(&self, plan: Plan) {
        self.lock().forget(plan);
    }

    /// Returns what is kept of a plan, and does at the same moment what makes all that comes later come some other way.
    pub(super) fn group_and(&self, plan: Plan, now: Instant, then: impl FnOnce()) -> Vec<Adu> {
        let kept = self.lock();
        then();
        kept.group(plan, now)
    }

    fn lock(&self) -> MutexGuard<'_, Replay> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Forwarder {
    /// Notes that an ADU begins to arrive; returns whether it is to be kept. What must be whole is never shared, so not kept.
    pub(super) fn may_keep(&self, route: &Route, header: &Header) -> bool {
        let plan = (header.stream, header.epoch);
        if route.part.is_ordered() {
            return false;
        }
        let mut kept = self.kept.lock();
        // A route is removed before what is kept of its plan is forgotten, so nothing stays behind.
        read(&self.routes).contains_key(&plan) && kept.handle_begun(plan, header)
    }

    /// Keeps an ADU that is here whole, if it is to be kept, and returns the plans that are to be given copies: those that were
    /// cast when it began to arrive, and those that are since.
    pub(super) fn keep(&self, adu: &Adu, is_kept: bool, begun: &Branches) -> Branches {
        let plan = (adu.header.stream, adu.header.epoch);
        let mut kept = self.kept.lock();
        if is_kept {
            kept.handle_whole(plan, adu, self.clock.now());
        }
        let present = self.casts.of(plan.0, plan.1);
        // So it is all but always, and to look for each among all the others costs the square of their number.
        if Arc::ptr_eq(begun, &present) {
            return present;
        }
        let is_present = |branch: &Branch| {
            let mut epochs = present.iter().map(Branch::epoch);
            epochs.any(|epoch| epoch == branch.epoch())
        };
        let mut all: Vec<Branch> = begun
            .iter()
            .filter(|branch| !is_present(branch))
            .cloned()
            .collect();
        if all.is_empty() {
            return present;
        }
        all.extend(present.iter().cloned());
        Arc::new(all)
    }

    /// Keeps an ADU as its producer gives it.
    pub(crate) fn keep_given(&self, adu: &Adu) {
        let plan = (adu.header.stream, Epoch(0));
        let mut kept = self.kept.lock();
        if kept.handle_begun(plan, &adu.header) {
            kept.handle_whole(plan, adu, self.clock.now());
        }
    }

    /// Returns what is kept of a stream that is published here.
    pub(crate) fn given(&self, stream: StreamId) -> Vec<Adu> {
        self.kept
            .group_and((stream, Epoch(0)), self.clock.now(), || {})
    }

    /// Returns what a sink begins with whose plan has come into force: the opening of the stream as far as
    /// that is of use, and then the newest group.
    pub(crate) fn given_after(&self, opening: Vec<Adu>, stream: StreamId) -> Vec<Adu> {
        let group = self.given(stream);
        let start = group.first().map(|adu| adu.header.sequence);
        let is_before = |adu: &Adu| start.is_none_or(|start| adu.header.sequence < start);
        let mut all: Vec<Adu> = opening.into_iter().filter(is_before).collect();
        all.extend(group);
        all
    }

    /// Forgets what is kept of a stream that was published here.
    pub(crate) fn forget_given(&self, stream: StreamId) {
        self.kept.forget((stream, Epoch(0)));
    }
}
