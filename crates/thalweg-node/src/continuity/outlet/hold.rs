//! Holds a stream at its source for sinks without a path, and sends it once there is one.
//!
//! *The idea.* The publisher puts ADUs into the store and continues. A task of the stream takes
//! them out and sends them one after another, with no more under way than for a producer that waits
//! for its stream. So held ADUs leave at the path's rate, and live, more important ADUs overtake
//! them.
//!
//! ```text
//! publisher ── publish ──► Hold ──► task: room? next? ──► the plan's route
//! control ── sinks, plans, broken paths, receipts ─┘
//! ```
//!
//! *What it does not do.* It stores nothing on disk: the held ADUs end with the node.
//!
//! *Sources.* docs/concepts/continuity.md §5; `thalweg_dataplane::source`, which decides.

use std::sync::Arc;

use thalweg_base::adu::{Adu, Mark};
use thalweg_base::feed::Sinkward;
use thalweg_dataplane::source::{Dropped, Due, Served};
use tokio::sync::Notify;

use super::Outlet;

impl Outlet {
    /// Starts the task that sends held ADUs; it ends when the outlet is dropped.
    pub(crate) fn start(self: &Arc<Self>) {
        let Some(due) = self.due.clone() else {
            return;
        };
        let outlet = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(outlet) = outlet.upgrade() {
                outlet.send_due().await;
                drop(outlet);
                due.notified().await;
            }
        });
    }

    /// Holds an ADU until it can be sent, which may be at once.
    pub(super) fn hold(&self, due: &Notify, adu: Adu) {
        let now = self.forwarder.clock.now();
        self.lock().source.handle_adu(adu, now);
        self.count_dropped();
        due.notify_one();
    }

    /// Handles the current sinks with their plans in force, or that plans of theirs are broken.
    pub(super) fn handle_sinks(&self, due: &Notify, sinks: Option<&[Sinkward]>) {
        let now = self.forwarder.clock.now();
        if let Some(sinks) = sinks {
            self.lock().source.handle_sinks(sinks, now);
        }
        self.count_dropped();
        self.progress.notify_waiters();
        due.notify_one();
    }

    /// Sends due ADUs until none is left.
    async fn send_due(&self) {
        loop {
            let window = self.lock().source.hold_window();
            let Some(window) = window else {
                return;
            };
            self.counts().settled(window).await;
            self.wait_mailboxes().await;
            // The next ADU is chosen once there is room, so that a more important one can still
            // overtake.
            let due = self.lock().source.poll_due(self.forwarder.clock.now());
            self.count_dropped();
            if let Some(due) = due {
                self.send_held(due).await;
            }
            self.progress.notify_waiters();
        }
    }

    async fn send_held(&self, due: Due) {
        let route = self.forwarder.route(self.stream, due.plan);
        let part = route.as_ref().map(|route| route.installation());
        let is_sent = self.lock().source.handle_due(&due, part);
        let Some(route) = route.as_ref().filter(|_| is_sent) else {
            return;
        };
        let mut adu = due.adu;
        self.count_resend(due.sink, &adu.header);
        adu.header.epoch = due.plan;
        adu.header.set_mark(Mark::NONE);
        let served = [Served {
            epoch: due.plan,
            layers: due.layers,
        }];
        let now = self.forwarder.clock.now();
        self.lock()
            .source
            .handle_sent(&adu, &served, route.installation(), now);
        let trace = self.trace(&adu);
        self.forwarder.carry(route, adu, trace).await;
    }

    /// Counts held ADUs that were dropped before they were ever sent.
    pub(super) fn count_dropped(&self) {
        let now = self.forwarder.clock.now();
        let source = &mut self.lock().source;
        while let Some(Dropped { header, cause, .. }) = source.poll_dropped(now) {
            self.counts().dropped(cause);
            self.unplanned.refused(&header, cause);
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        if let Some(due) = &self.due {
            due.notify_one();
        }
    }
}
