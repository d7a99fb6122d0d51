//! Plans that are grafted here: each is given a copy of every ADU that arrives for its base.
//!
//! A plan whose sink begins with it is first given what is kept here since the newest key ADU (`kept`), and what is live waits
//! until that is given.
//!
//! *The idea.* An ADU that arrives for a plan with branches is gathered once, and each branch is given it under its own
//! number: the payload is shared, only headers differ. What a branch does with it, its route says, as for any other ADU.
//!
//! ```text
//!  ADU of e1 ─► whole ─┬─► route e1 ─► link
//!                      ├─► route e2 ─► link
//!                      └─► route e3 ─► mailbox: the last, for it may have to wait for room there
//! ```
//!
//! *What it does not do.* It decides on no graft: `thalweg_core::session` does. A copy is none of its base's: it is not cast
//! again here.
//!
//! *Sources.* docs/recast.md.

use std::sync::Arc;

use thalweg_core::adu::Adu;
use thalweg_core::id::{Epoch, Sequence, StreamId};
use thalweg_core::session::Feed;
use thalweg_core::trace::Trace;
use tokio::sync::watch;

use super::{Forwarder, Route, Table, read, write};

#[cfg(test)]
mod tests;

/// The plans that are cast here, by the plan on which they are grafted.
#[derive(Default)]
pub(super) struct Casts {
    of_base: Table<(StreamId, Epoch), Branches>,
    none: Branches,
}

/// The plans that are given copies of one. Each ADU has them as they are when it comes; who changes them while one has leaves it
/// those and makes others.
pub(super) type Branches = Arc<Vec<Branch>>;

/// A plan that is given copies.
#[derive(Clone)]
pub(super) struct Branch {
    route: Arc<Route>,
    /// Ends when it has been given what is kept.
    replay: Option<watch::Receiver<()>>,
    /// From which sequence on it is given nothing, if from any: another plan took over.
    until: Option<Sequence>,
}

impl Branch {
    pub(super) fn epoch(&self) -> Epoch {
        self.route.installation().epoch
    }

    pub(super) const fn route(&self) -> &Arc<Route> {
        &self.route
    }

    /// Returns whether it is given an ADU of this sequence.
    pub(super) fn has(&self, sequence: Sequence) -> bool {
        self.until.is_none_or(|until| sequence < until)
    }

    /// Waits until it has been given what is kept.
    async fn opened(&self) {
        if let Some(mut replay) = self.replay.clone() {
            // Nothing is ever said: its end is the word.
            while replay.changed().await.is_ok() {}
        }
    }
}

impl Casts {
    /// Begins to give a plan copies, if it is grafted, after what is kept if that is still given; a route of the same plan is
    /// replaced.
    fn begin(&self, route: Arc<Route>, replay: Option<watch::Receiver<()>>) {
        let part = route.installation();
        if let Some(base) = part.base {
            let mut all = write(&self.of_base);
            let branches = Arc::make_mut(all.entry((part.stream, base)).or_default());
            let is_it = |branch: &mut Branch| branch.epoch() == part.epoch;
            let before = branches.extract_if(.., is_it).last();
            let until = before.as_ref().and_then(|before| before.until);
            let replay = replay.or_else(|| before?.replay);
            // Who may have to wait for a mailbox holds up nobody who need not.
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

    /// Gives a plan that is cast nothing from a sequence on.
    fn end(&self, route: &Route, until: Sequence) {
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

    /// Ceases to.
    pub(super) fn cease(&self, stream: StreamId, epoch: Epoch) {
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

    /// Returns the plans that are given copies of what arrives for a base.
    pub(super) fn of(&self, stream: StreamId, base: Epoch) -> Branches {
        let all = read(&self.of_base);
        Arc::clone(all.get(&(stream, base)).unwrap_or(&self.none))
    }
}

impl Forwarder {
    /// Begins or ceases to give a plan that is grafted here copies of what arrives for its base, or ceases from a sequence on; what
    /// has begun goes on.
    pub(crate) fn cast(self: &Arc<Self>, stream: StreamId, epoch: Epoch, feed: Feed) {
        let route = self.route(stream, epoch).filter(|_| feed != Feed::Off);
        let Some(route) = route else {
            return self.casts.cease(stream, epoch);
        };
        if let Feed::Until(until) = feed {
            if !self.casts.has(stream, epoch) {
                self.casts.begin(Arc::clone(&route), None);
            }
            return self.casts.end(&route, until);
        }
        if self.casts.has(stream, epoch) {
            return;
        }
        let base = route.installation().base;
        let Some(base) = base.filter(|_| feed == Feed::Replay) else {
            return self.casts.begin(route, None);
        };
        let (given, replay) = watch::channel(());
        let begin = || self.casts.begin(Arc::clone(&route), Some(replay));
        let group = self.kept.group_and((stream, base), self.clock.now(), begin);
        let forwarder = Arc::clone(self);
        tokio::spawn(async move {
            for mut adu in group {
                adu.header.epoch = epoch;
                forwarder.carry(&route, adu, None).await;
            }
            drop(given);
        });
    }

    /// A route of a plan that is cast takes the place of the one before.
    pub(super) fn recast(&self, route: &Arc<Route>) {
        let part = route.installation();
        if part.base.is_some() && self.casts.has(part.stream, part.epoch) {
            self.casts.begin(Arc::clone(route), None);
        }
    }

    /// Takes an ADU that is here whole through its own route and those of all branches.
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

    /// Takes copies of an ADU that is here whole through the routes of branches.
    pub(super) async fn carry_copies(&self, branches: &[Branch], adu: &Adu, trace: Option<&Trace>) {
        for branch in branches
            .iter()
            .filter(|branch| branch.has(adu.header.sequence))
        {
            branch.opened().await;
            let mut copy = adu.clone();
            copy.header.epoch = branch.epoch();
            self.carry(&branch.route, copy, trace.cloned().map(Box::new))
                .await;
        }
    }
}
