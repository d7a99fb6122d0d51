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
//! *Sources.* docs/concepts/continuity.md §5; `thalweg_control::session::Hold`, which decides.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::adu::{Adu, Mark};
use thalweg_base::id::{Epoch, NodeId};
use thalweg_base::time::Instant;
use thalweg_control::session::{Dropped, Due, Hold, Sinkward};
use thalweg_dataplane::mailbox::Held;
use thalweg_dataplane::route::window;
use tokio::sync::Notify;

use super::Outlet;

/// The store of a held stream, and its wake-ups.
pub(super) struct Holding {
    hold: Mutex<Hold>,
    /// Notified when an ADU may have become due, or the stream is gone.
    due: Arc<Notify>,
    /// Notified when there may be room, or nothing is left.
    progress: Notify,
}

impl Holding {
    pub(super) fn new(hold: Hold) -> Self {
        Self {
            hold: Mutex::new(hold),
            due: Arc::new(Notify::new()),
            progress: Notify::new(),
        }
    }

    /// Wakes the stream's task, which checks what is due.
    pub(super) fn wake(&self) {
        self.due.notify_one();
    }

    /// Waits until the store has room for a producer that can wait.
    pub(super) async fn wait_room(&self) {
        loop {
            let progress = self.progress.notified();
            tokio::pin!(progress);
            // Register before the check, so that a notification in between is not missed.
            progress.as_mut().enable();
            if !self.lock().is_pressed() {
                return;
            }
            progress.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Hold> {
        // No code that can panic runs under this lock.
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outlet {
    /// Starts the task that sends held ADUs; it ends when the outlet is dropped.
    pub(crate) fn start(self: &Arc<Self>) {
        let Some(holding) = &self.holding else {
            return;
        };
        let (outlet, due) = (Arc::downgrade(self), Arc::clone(&holding.due));
        tokio::spawn(async move {
            while let Some(outlet) = outlet.upgrade() {
                outlet.send_due().await;
                drop(outlet);
                due.notified().await;
            }
        });
    }

    /// Holds an ADU until it can be sent, which may be at once.
    pub(super) fn hold(&self, holding: &Holding, adu: Adu) {
        let now = self.forwarder.clock.now();
        holding.lock().handle_adu(adu, now);
        self.count_dropped(holding);
        holding.wake();
    }

    /// Handles the current sinks with their plans in force, and the plans of each sink that are
    /// broken.
    pub(super) fn handle_sinks(
        &self,
        holding: &Holding,
        broken: &[(NodeId, Vec<Epoch>)],
        sinks: Option<&[Sinkward]>,
    ) {
        let now = self.forwarder.clock.now();
        let mut hold = holding.lock();
        for (sink, plans) in broken {
            hold.handle_broken(*sink, plans);
        }
        if let Some(sinks) = sinks {
            hold.handle_sinks(sinks, now);
        }
        drop(hold);
        self.count_dropped(holding);
        holding.progress.notify_waiters();
        holding.wake();
    }

    /// Handles a sink's receipt; returns how many ADUs it lacks of those sent under the plan that
    /// keeps their order.
    pub(super) fn handle_receipt(
        holding: &Holding,
        sink: NodeId,
        in_order: Option<Epoch>,
        held: &Held,
        now: Instant,
    ) -> u64 {
        let mut hold = holding.lock();
        hold.handle_receipt(sink, held);
        let missing = in_order.map_or(0, |plan| hold.missing(sink, plan, held, now));
        drop(hold);
        holding.progress.notify_waiters();
        // The end of the stream waits until everything else is delivered.
        holding.wake();
        missing
    }

    /// Sends due ADUs until none is left.
    async fn send_due(&self) {
        let Some(holding) = &self.holding else {
            return;
        };
        loop {
            let bytes = holding.lock().next_bytes();
            let Some(bytes) = bytes else {
                return;
            };
            self.counts().settled(window(bytes, false)).await;
            self.wait_mailboxes().await;
            // The next ADU is chosen once there is room, so that a more important one can still
            // overtake.
            let due = holding.lock().poll_due(self.forwarder.clock.now());
            self.count_dropped(holding);
            if let Some(due) = due {
                self.send_held(holding, due).await;
            }
            holding.progress.notify_waiters();
        }
    }

    async fn send_held(&self, holding: &Holding, due: Due) {
        let Some(route) = self.forwarder.route(self.stream, due.plan) else {
            return holding.lock().handle_astray(&due);
        };
        let (mut adu, sink) = (due.adu, due.sink);
        self.count_resend(sink, &adu.header);
        let continues = route.installation().next.is_some() && adu.header.layer < due.layers;
        if continues {
            self.await_receipt(due.plan, &adu.header);
        } else {
            holding.lock().forget(sink, adu.header.sequence.0);
        }
        adu.header.epoch = due.plan;
        adu.header.set_mark(Mark::NONE);
        let trace = self.trace(&adu);
        self.forwarder.carry(&route, adu, trace).await;
    }

    /// Counts held ADUs that were dropped before they were ever sent.
    fn count_dropped(&self, holding: &Holding) {
        let mut hold = holding.lock();
        while let Some(Dropped { header, cause, .. }) = hold.poll_dropped() {
            self.counts().dropped(cause);
            self.unplanned.refused(&header, cause);
        }
    }

    /// Waits until the sinks have all held ADUs, or these are no longer worth sending.
    pub(super) async fn drained(&self, holding: &Holding) {
        loop {
            let progress = holding.progress.notified();
            tokio::pin!(progress);
            // Register before the check, so that a notification in between is not missed.
            progress.as_mut().enable();
            let (now, settled) = (self.forwarder.clock.now(), holding.lock().poll_settled());
            if settled <= now {
                holding.lock().expire(now);
                return self.count_dropped(holding);
            }
            tokio::select! {
                () = progress => {}
                () = self.forwarder.clock.sleep_until(settled) => {}
            }
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        if let Some(holding) = &self.holding {
            holding.wake();
        }
    }
}
