//! Holds a stream at its source for sinks without a path, and sends it once there is one.
//!
//! *The idea.* The publisher puts ADUs into the store and continues. A task of the stream takes
//! them out and sends them one after another, with no more under way than for a producer that waits
//! for its stream. So held ADUs leave at the path's rate, and live, more important ADUs overtake
//! them.
//!
//! ```text
//! publisher ── publish ──► Hold ──► task: room? next? ──► the stream's lane
//! control ── sinks, plans, broken paths, receipts ─┘
//! ```
//!
//! *What it does not do.* It stores nothing on disk: the held ADUs end with the node.
//!
//! *Sources.* docs/concepts/continuity.md §5; `thalweg_dataplane::source`, which decides.

use std::sync::Arc;

use thalweg_base::adu::Adu;
use thalweg_base::feed::Sinkward;
use thalweg_dataplane::source::{Dropped, Due, Plan, Served};
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
            self.lane.settled(window).await;
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
        let is_sent = {
            let source = &mut self.lock().source;
            self.lane
                .with_part(due.plan, |part| source.handle_due(&due, part))
        };
        if !is_sent {
            return;
        }
        self.count_resend(due.sink, &due.adu.header);
        let plan = Plan {
            epoch: due.plan,
            serves: vec![Served {
                epoch: due.plan,
                layers: due.layers,
            }],
        };
        let trace = self.trace(&due.adu);
        self.carry(&plan, due.adu, trace);
        self.wait_turn(&[due.plan]).await;
    }

    /// Counts held ADUs that were dropped before they were ever sent.
    pub(super) fn count_dropped(&self) {
        let now = self.forwarder.clock.now();
        let source = &mut self.lock().source;
        while let Some(Dropped { header, cause, .. }) = source.poll_dropped(now) {
            self.lane.count_unplanned(&header, cause);
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
