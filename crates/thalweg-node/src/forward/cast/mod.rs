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
//!                      └─► route e3 ─► mailbox: last, since it may have to wait for room
//! ```
//!
//! *What it does not do.* It does not choose grafts; `thalweg_control::session` does. A branch's copy
//! is not cast again here.
//!
//! *Sources.* docs/concepts/recast.md.

use std::sync::Arc;

use thalweg_base::adu::Adu;
use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_base::trace::Trace;
use thalweg_control::session::Feed;
use tokio::sync::watch;

use super::{Forwarder, Route, Table, read, write};

#[cfg(test)]
mod tests;

/// The plans that get copies here, by their base plan.
#[derive(Default)]
pub(super) struct CastTable {
    of_base: Table<(StreamId, Epoch), Branches>,
    none: Branches,
}

/// The branches of one plan. Each ADU uses the set of its arrival; a change while an ADU uses the
/// set makes a new one.
pub(super) type Branches = Arc<Vec<Branch>>;

/// A plan that gets copies.
#[derive(Clone)]
pub(super) struct Branch {
    route: Arc<Route>,
    /// Closed once the kept ADUs have been replayed.
    replay: Option<watch::Receiver<()>>,
    /// The first sequence that is not copied, if another plan took over.
    until: Option<Sequence>,
}

impl Branch {
    pub(super) fn epoch(&self) -> Epoch {
        self.route.installation().epoch
    }

    pub(super) const fn route(&self) -> &Arc<Route> {
        &self.route
    }

    /// Returns whether the branch gets an ADU of this sequence.
    pub(super) fn has(&self, sequence: Sequence) -> bool {
        self.until.is_none_or(|until| sequence < until)
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
    /// Starts copies to a grafted plan, after the replay if one is still running; a route of the
    /// same plan is replaced.
    fn start(&self, route: Arc<Route>, replay: Option<watch::Receiver<()>>) {
        let part = route.installation();
        if let Some(base) = part.base {
            let mut all = write(&self.of_base);
            let branches = Arc::make_mut(all.entry((part.stream, base)).or_default());
            let is_it = |branch: &mut Branch| branch.epoch() == part.epoch;
            let before = branches.extract_if(.., is_it).last();
            let until = before.as_ref().and_then(|before| before.until);
            let replay = replay.or_else(|| before?.replay);
            // A branch that may wait for a mailbox goes last, so that it delays no other branch.
            let is_here = part.next.is_none();
            let at = if is_here { branches.len() } else { 0 };
            let branch = Branch {
                route,
                replay,
                until,
            };
            branches.insert(at, branch);
        }
    }

    /// Ends the copies to a plan from a sequence on.
    fn stop_at(&self, route: &Route, until: Sequence) {
        let part = route.installation();
        let base = part.base.map(|base| (part.stream, base));
        let mut all = write(&self.of_base);
        let Some(branches) = base.and_then(|base| all.get_mut(&base)) else {
            return;
        };
        for branch in Arc::make_mut(branches) {
            if branch.epoch() == part.epoch {
                branch.until = Some(until);
            }
        }
    }

    /// Removes a plan from its base's branches.
    pub(super) fn stop(&self, stream: StreamId, epoch: Epoch) {
        let is_it = |branch: &Branch| {
            let part = branch.route.installation();
            (part.stream, part.epoch) == (stream, epoch)
        };
        write(&self.of_base).retain(|_, branches| {
            if branches.iter().any(is_it) {
                Arc::make_mut(branches).retain(|branch| !is_it(branch));
            }
            !branches.is_empty()
        });
    }

    fn has(&self, stream: StreamId, epoch: Epoch) -> bool {
        let all = read(&self.of_base);
        let mut branches = all.iter().filter(|((of, _), _)| *of == stream);
        branches.any(|(_, branches)| {
            let mut epochs = branches.iter().map(Branch::epoch);
            epochs.any(|other| other == epoch)
        })
    }

    /// Returns the branches of a base plan.
    pub(super) fn of(&self, stream: StreamId, base: Epoch) -> Branches {
        let all = read(&self.of_base);
        Arc::clone(all.get(&(stream, base)).unwrap_or(&self.none))
    }
}

impl Forwarder {
    /// Starts, ends or bounds the copies to a plan that is grafted here. Starting one that already
    /// runs changes nothing.
    pub(crate) fn cast(self: &Arc<Self>, stream: StreamId, epoch: Epoch, feed: Feed) {
        let route = self.route(stream, epoch).filter(|_| feed != Feed::Off);
        let Some(route) = route else {
            return self.casts.stop(stream, epoch);
        };
        if let Feed::Until(until) = feed {
            if !self.casts.has(stream, epoch) {
                self.casts.start(Arc::clone(&route), None);
            }
            return self.casts.stop_at(&route, until);
        }
        if self.casts.has(stream, epoch) {
            return;
        }
        let base = route.installation().base;
        let Some(base) = base.filter(|_| feed == Feed::Replay) else {
            return self.casts.start(route, None);
        };
        let (given, replay) = watch::channel(());
        let start = || self.casts.start(Arc::clone(&route), Some(replay));
        let group = self.kept.group_and((stream, base), self.clock.now(), start);
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
        if part.base.is_some() && self.casts.has(part.stream, part.epoch) {
            self.casts.start(Arc::clone(route), None);
        }
    }

    /// Carries a whole ADU along its own route and the routes of all branches.
    pub(super) async fn carry_all(
        &self,
        route: &Route,
        branches: &[Branch],
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
    pub(super) async fn carry_copies(&self, branches: &[Branch], adu: &Adu, trace: Option<&Trace>) {
        for branch in branches
            .iter()
            .filter(|branch| branch.has(adu.header.sequence))
        {
            branch.replayed().await;
            let mut copy = adu.clone();
            copy.header.epoch = branch.epoch();
            self.carry(&branch.route, copy, trace.cloned().map(Box::new))
                .await;
        }
    }
}
