//! The recent ADUs of each plan, kept for sinks that join late.
//!
//! *The idea.* One lock guards both the kept ADUs and the set of plans that are cast. So each whole
//! ADU is either replayed to a plan that starts or copied to it afterwards, exactly once.
//!
//! *What it does not do.* It does not choose what is kept; `thalweg_dataplane::replay` does.
//!
//! *Sources.* docs/concepts/recast.md.

use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg_base::adu::{Adu, Header};
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::time::Instant;
use thalweg_dataplane::replay::{Plan, Replay};

use super::cast::Branches;
use super::{Forwarder, Route, read};

/// The kept ADUs of all plans.
#[derive(Debug, Default)]
pub(super) struct ReplayCache(Mutex<Replay>);

impl ReplayCache {
    /// Forgets the kept ADUs of a plan.
    pub(super) fn forget(&self, plan: Plan) {
        self.lock().forget(plan);
    }

    /// Returns a plan's kept ADUs and runs `then` under the same lock, so that `then` can redirect
    /// all later ADUs.
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
    /// Notes that an ADU begins to arrive; returns whether to keep it. ADUs of ordered streams are
    /// never kept.
    pub(super) fn may_keep(&self, route: &Route, header: &Header) -> bool {
        let plan = (header.stream, header.epoch);
        if route.part.is_ordered() {
            return false;
        }
        let mut kept = self.kept.lock();
        // Removal deletes the route first and the kept ADUs second, so nothing is kept for a
        // removed plan.
        read(&self.routes).contains_key(&plan) && kept.handle_begun(plan, header)
    }

    /// Keeps a whole ADU if `is_kept`, and returns the plans that get copies: those cast when it
    /// began to arrive, and those cast since.
    pub(super) fn keep(&self, adu: &Adu, is_kept: bool, initial: Branches) -> Branches {
        let plan = (adu.header.stream, adu.header.epoch);
        let mut kept = self.kept.lock();
        if is_kept {
            kept.handle_whole(plan, adu, self.clock.now());
        }
        initial.joined(&self.casts.of(plan), adu.header.sequence)
    }

    /// Keeps an ADU as its producer publishes it.
    pub(crate) fn keep_published(&self, adu: &Adu) {
        let plan = (adu.header.stream, Epoch(0));
        let mut kept = self.kept.lock();
        if kept.handle_begun(plan, &adu.header) {
            kept.handle_whole(plan, adu, self.clock.now());
        }
    }

    /// Returns the kept ADUs of a stream published here.
    pub(crate) fn published_group(&self, stream: StreamId) -> Vec<Adu> {
        self.kept
            .group_and((stream, Epoch(0)), self.clock.now(), || {})
    }

    /// Returns the ADUs with which a new sink starts: the stream's opening up to the newest group,
    /// then that group.
    pub(crate) fn opening_and_group(&self, opening: Vec<Adu>, stream: StreamId) -> Vec<Adu> {
        let group = self.published_group(stream);
        let start = group.first().map(|adu| adu.header.sequence);
        let is_before = |adu: &Adu| start.is_none_or(|start| adu.header.sequence < start);
        let mut all: Vec<Adu> = opening.into_iter().filter(is_before).collect();
        all.extend(group);
        all
    }

    /// Forgets the kept ADUs of a stream that was published here.
    pub(crate) fn forget_published(&self, stream: StreamId) {
        self.kept.forget((stream, Epoch(0)));
    }
}
