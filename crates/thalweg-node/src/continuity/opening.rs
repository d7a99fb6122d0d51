//! The first seconds of a stream at its source, for sinks that wait for it.
//!
//! *The idea.* `thalweg_core::replay::Opening` keeps them; here they are counted as lost for want of a
//! subscriber once it is sure that nobody gets them, and not before.
//!
//! *What it does not do.* It gives nothing to anybody: an [`Outlet`] does, by the order to replay.

use std::sync::Arc;

use thalweg_core::adu::{Adu, Header};
use thalweg_core::event::DropCause;
use thalweg_core::replay::OPENING_MAX;

use super::outlet::Outlet;

impl Outlet {
    /// Takes in an ADU that is given, under plans or under none.
    pub(super) fn open(self: &Arc<Self>, adu: &Adu, has_plan: bool) {
        let now = self.forwarder.clock.now();
        let mut state = self.lock();
        let is_first = !std::mem::replace(&mut state.has_opened, true);
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
            self.lose(&adu.header);
        }
        self.count_lost();
    }

    /// Waits until a sink was given the opening, or it is over.
    pub(crate) async fn opened(&self) {
        loop {
            let opened = self.opened.notified();
            tokio::pin!(opened);
            // Listening before looking: what happens between the two is not missed.
            opened.as_mut().enable();
            if self.lock().opening.awaited() == 0 {
                return;
            }
            opened.await;
        }
    }

    /// Returns of how many ADUs, the last, it is not known that they have ended on this node.
    pub(crate) fn unsettled(&self) -> u64 {
        let awaited = self.lock().opening.awaited() as u64;
        self.counts().under_way().max(awaited)
    }

    fn count_lost(&self) {
        for header in self.lock().opening.take_lost() {
            self.lose(&header);
        }
        self.opened.notify_waiters();
    }

    fn lose(&self, header: &Header) {
        self.counts().dropped(DropCause::NoSubscriber);
        self.unplanned.refused(header, DropCause::NoSubscriber);
    }
}
