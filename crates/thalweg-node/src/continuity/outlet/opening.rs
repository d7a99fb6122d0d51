//! The first seconds of a stream at its source, kept for sinks that wait for the stream.
//!
//! *The idea.* `thalweg_dataplane::replay::Opening` keeps them. This module counts an ADU as dropped for
//! lack of a subscriber once it is certain that no sink will get it, and not before.
//!
//! *What it does not do.* It sends nothing; an [`Outlet`] does when it is ordered to replay.

use std::sync::Arc;

use thalweg_base::adu::{Adu, Header};
use thalweg_base::event::DropCause;
use thalweg_dataplane::replay::OPENING_MAX;

use super::Outlet;

impl Outlet {
    /// Handles an ADU that is published, under plans or under none.
    pub(super) fn handle_published(self: &Arc<Self>, adu: &Adu, has_plan: bool) {
        let now = self.forwarder.clock.now();
        let mut state = self.lock();
        let is_first = !std::mem::replace(&mut state.has_started, true);
        let is_kept = state.opening.handle_given(adu, has_plan, now);
        drop(state);
        if is_first {
            let (outlet, until) = (Arc::downgrade(self), now + OPENING_MAX);
            let clock = self.forwarder.clock;
            tokio::spawn(async move {
                clock.sleep_until(until).await;
                if let Some(outlet) = outlet.upgrade() {
                    outlet.lock().opening.close();
                    outlet.count_lost();
                }
            });
        }
        if !is_kept && !has_plan {
            self.count_no_subscriber(&adu.header);
        }
        self.count_lost();
    }

    /// Returns the ADUs with which a new sink starts: the stream's opening up to the newest group,
    /// then that group.
    pub(super) fn opening_and_group(&self, opening: Vec<Adu>) -> Vec<Adu> {
        let group = self.lane.kept_given();
        let start = group.first().map(|adu| adu.header.sequence);
        let is_before = |adu: &Adu| start.is_none_or(|start| adu.header.sequence < start);
        let mut all: Vec<Adu> = opening.into_iter().filter(is_before).collect();
        all.extend(group);
        all
    }

    /// Waits until the opening was replayed to a sink, or is over.
    pub(crate) async fn opening_settled(&self) {
        loop {
            let opening_changed = self.opening_changed.notified();
            tokio::pin!(opening_changed);
            // Register before the check, so that a notification in between is not missed.
            opening_changed.as_mut().enable();
            if self.lock().opening.awaited() == 0 {
                return;
            }
            opening_changed.await;
        }
    }

    /// Returns how many of the latest ADUs have no known end on this node yet.
    pub(crate) fn unsettled(&self) -> u64 {
        let awaited = self.lock().opening.awaited() as u64;
        self.counts().outstanding().max(awaited)
    }

    fn count_lost(&self) {
        for header in self.lock().opening.take_lost() {
            self.count_no_subscriber(&header);
        }
        self.opening_changed.notify_waiters();
    }

    fn count_no_subscriber(&self, header: &Header) {
        self.lane.count_unplanned(header, DropCause::NoSubscriber);
    }
}
