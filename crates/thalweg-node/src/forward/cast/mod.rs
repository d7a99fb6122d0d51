//! Plans that are grafted here: each is given a copy of every ADU that arrives for its base.
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
use thalweg_core::id::{Epoch, StreamId};

use super::{Forwarder, Route, Table, read, write};

#[cfg(test)]
mod tests;

/// The plans that are cast here, by the plan on which they are grafted.
#[derive(Default)]
pub(super) struct Casts {
    of_base: Table<(StreamId, Epoch), Vec<Arc<Route>>>,
}

impl Casts {
    /// Begins to give a plan copies, if it is grafted; a route of the same plan is replaced.
    fn begin(&self, route: Arc<Route>) {
        let part = route.installation();
        if let Some(base) = part.base {
            let mut all = write(&self.of_base);
            let branches = all.entry((part.stream, base)).or_default();
            branches.retain(|branch| branch.installation().epoch != part.epoch);
            // Who may have to wait for a mailbox holds up nobody who need not.
            let is_here = part.next.is_none();
            let at = if is_here { branches.len() } else { 0 };
            branches.insert(at, route);
        }
    }

    /// Ceases to.
    fn cease(&self, stream: StreamId, epoch: Epoch) {
        let is_it = |branch: &Arc<Route>| {
            let part = branch.installation();
            (part.stream, part.epoch) == (stream, epoch)
        };
        write(&self.of_base).retain(|_, branches| {
            branches.retain(|branch| !is_it(branch));
            !branches.is_empty()
        });
    }

    fn has(&self, stream: StreamId, epoch: Epoch) -> bool {
        let all = read(&self.of_base);
        let mut branches = all.iter().filter(|((of, _), _)| *of == stream);
        branches.any(|(_, branches)| {
            let mut epochs = branches.iter().map(|branch| branch.installation().epoch);
            epochs.any(|other| other == epoch)
        })
    }

    /// Returns the plans that are given copies of what arrives for a base.
    pub(super) fn of(&self, stream: StreamId, base: Epoch) -> Vec<Arc<Route>> {
        let all = read(&self.of_base);
        all.get(&(stream, base)).cloned().unwrap_or_default()
    }
}

impl Forwarder {
    /// Begins or ceases to give a plan that is grafted here copies of what arrives for its base.
    pub(crate) fn cast(&self, stream: StreamId, epoch: Epoch, is_on: bool) {
        match self.route(stream, epoch) {
            Some(route) if is_on => self.casts.begin(route),
            _ => self.casts.cease(stream, epoch),
        }
    }

    /// A route of a plan that is cast takes the place of the one before.
    pub(super) fn recast(&self, route: &Arc<Route>) {
        let part = route.installation();
        if part.base.is_some() && self.casts.has(part.stream, part.epoch) {
            self.casts.begin(Arc::clone(route));
        }
    }

    /// Takes an ADU that is here whole through its own route and those of all branches.
    pub(super) async fn carry_all(&self, route: &Route, branches: &[Arc<Route>], adu: Adu) {
        let is_here = route.installation().next.is_none();
        if !is_here {
            self.carry(route, adu.clone()).await;
        }
        for branch in branches {
            let mut copy = adu.clone();
            copy.header.epoch = branch.installation().epoch;
            self.carry(branch, copy).await;
        }
        if is_here {
            self.carry(route, adu).await;
        }
    }
}
