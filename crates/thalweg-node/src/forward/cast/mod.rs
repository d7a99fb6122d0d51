//! Plans that are grafted here: each gets a copy of every ADU that arrives for its base plan.
//!
//! If its sink starts with a plan, the plan first gets the ADUs kept here since the newest key ADU
//! (`kept`); live ADUs wait until these are sent.
//!
//! *The idea.* An ADU that arrives for a plan with branches is gathered once and copied to each
//! branch under the branch's epoch. The copies share the payload; only headers differ. Each
//! branch's route treats its copy like any other ADU.
//!
//! ```text
//!  ADU of e1 ─► whole ─┬─► route e1 ─► link
//!                      ├─► route e2 ─► link
//!                      └─► route e3 ─► mailbox
//! ```
//!
//! *What it does not do.* It does not choose grafts; `thalweg_control::session` does. A branch's copy
//! is not cast again here.
//!
//! *Sources.* docs/concepts/recast.md; `thalweg_dataplane::relay`, which keeps the branches.

use std::sync::{Arc, RwLock};

use thalweg_base::adu::Adu;
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::trace::Trace;
use thalweg_control::session::Feed;
use thalweg_dataplane::relay;
use thalweg_dataplane::replay::Plan;
use tokio::sync::watch;

use super::{Forwarder, Route, read, write};

#[cfg(test)]
mod tests;

/// The plans that get copies here, by their base plan. Which they are is the machine's decision; the
/// lock is held for no longer than a look or a change.
#[derive(Default)]
pub(super) struct CastTable(RwLock<relay::Casts<Target>>);

/// The branches of one plan: see [`relay::Branches`].
pub(super) type Branches = relay::Branches<Target>;

/// The way of a plan's copies.
#[derive(Clone)]
pub(super) struct Target {
    route: Arc<Route>,
    /// Closed once the kept ADUs have been replayed.
    replay: Option<watch::Receiver<()>>,
}

impl Target {
    pub(super) const fn route(&self) -> &Arc<Route> {
        &self.route
    }

    /// Waits until the kept ADUs have been replayed.
    async fn replayed(&self) {
        if let Some(mut replay) = self.replay.clone() {
            // No value is ever sent; the closing of the channel is the signal.
            while replay.changed().await.is_ok() {}
        }
    }
}

impl CastTable {
    /// Starts copies to a grafted plan, or sets where they end; returns whether it had none.
    fn start(&self, base: Plan, feed: Feed, target: Target) -> bool {
        let until = match feed {
            Feed::Until(until) => Some(until),
            Feed::Off | Feed::Live | Feed::Replay => None,
        };
        let epoch = target.route.installation().epoch;
        write(&self.0).start(base, epoch, until, target)
    }

    /// Removes a plan from its base's branches.
    pub(super) fn stop(&self, plan: Plan) {
        write(&self.0).stop(plan);
    }

    fn has(&self, plan: Plan) -> bool {
        read(&self.0).base_of(plan).is_some()
    }

    /// Returns the branches of a base plan.
    pub(super) fn of(&self, base: Plan) -> Branches {
        read(&self.0).of(base)
    }
}

impl Forwarder {
    /// Starts, ends or bounds the copies to a plan that is grafted here. Starting one that already
    /// runs changes nothing.
    pub(crate) fn cast(self: &Arc<Self>, stream: StreamId, epoch: Epoch, feed: Feed) {
        let plan = (stream, epoch);
        let route = self.route(stream, epoch).filter(|_| feed != Feed::Off);
        let base = route.as_ref().and_then(|route| route.installation().base);
        let (Some(route), Some(base)) = (route, base) else {
            return self.casts.stop(plan);
        };
        let base = (stream, base);
        let start = |replay| {
            let route = Arc::clone(&route);
            self.casts.start(base, feed, Target { route, replay })
        };
        if feed != Feed::Replay || self.casts.has(plan) {
            start(None);
            return;
        }
        let (given, replay) = watch::channel(());
        let now = self.clock.now();
        let group = self.kept.group_and(base, now, || {
            start(Some(replay));
        });
        let forwarder = Arc::clone(self);
        tokio::spawn(async move {
            for mut adu in group {
                adu.header.epoch = epoch;
                forwarder.carry(&route, adu, None).await;
            }
            drop(given);
        });
    }

    /// Replaces the route of a plan that is cast.
    pub(super) fn replace_route(&self, route: &Arc<Route>) {
        let part = route.installation();
        let plan = (part.stream, part.epoch);
        if part.base.is_some() && self.casts.has(plan) {
            let replace = |target: &mut Target| target.route = Arc::clone(route);
            write(&self.casts.0).update(plan, replace);
        }
    }

    /// Carries a whole ADU along its own route and the routes of all branches.
    pub(super) async fn carry_all(
        &self,
        route: &Route,
        branches: &Branches,
        adu: Adu,
        trace: Option<Box<Trace>>,
    ) {
        let is_here = route.installation().next.is_none();
        if !is_here {
            self.carry(route, adu.clone(), trace.clone()).await;
        }
        self.carry_copies(branches, &adu, trace.as_deref()).await;
        if is_here {
            self.carry(route, adu, trace).await;
        }
    }

    /// Carries copies of a whole ADU along the routes of branches.
    pub(super) async fn carry_copies(&self, branches: &Branches, adu: &Adu, trace: Option<&Trace>) {
        for branch in branches.having(adu.header.sequence) {
            branch.with.replayed().await;
            let mut copy = adu.clone();
            copy.header.epoch = branch.epoch;
            self.carry(&branch.with.route, copy, trace.cloned().map(Box::new))
                .await;
        }
    }
}
