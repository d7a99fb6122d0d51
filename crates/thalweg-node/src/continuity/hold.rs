//! A stream that is held at its source for sinks to which there is no way, and carried on when there is one.
//!
//! *The idea.* The publisher puts ADUs into the store and goes on; a task of the stream's own takes them out and sends them, one
//! after another, while no more is under way than of a producer that waits for its stream. So what was held leaves at the
//! pace of the path, and what is live and matters more overtakes it.
//!
//! ```text
//! publisher ── give ──► Hold ──► task: room? next? ──► the plan's route
//! control ── sinks, plans, broken ways, receipts ─┘
//! ```
//!
//! *What it does not do.* It holds nothing on disk: what a node held is gone with it.
//!
//! *Sources.* docs/continuity.md §5; `thalweg_core::session::Hold`, which decides.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_core::adu::{Adu, Mark};
use thalweg_core::id::{Epoch, NodeId};
use thalweg_core::mailbox::Held;
use thalweg_core::session::{Dropped, Due, Hold, Sinkward};
use thalweg_core::time::Instant;
use thalweg_lift::route::window;
use tokio::sync::Notify;

use super::Outlet;

/// What of a stream is held, and who wants to hear of it.
pub(super) struct Holding {
    hold: Mutex<Hold>,
    /// Told when something may have become due, or the stream is gone.
    due: Arc<Notify>,
    /// Told when there may be room, or nothing left.
    eased: Notify,
}

impl Holding {
    pub(super) fn new(hold: Hold) -> Self {
        Self {
            hold: Mutex::new(hold),
            due: Arc::new(Notify::new()),
            eased: Notify::new(),
        }
    }

    /// Lets the stream's task look what is due.
    pub(super) fn wake(&self) {
        self.due.notify_one();
    }

    /// Waits until a producer that can wait need not.
    pub(super) async fn eased(&self) {
        loop {
            let eased = self.eased.notified();
            tokio::pin!(eased);
            // Listening before looking: what is said between the two is not missed.
            eased.as_mut().enable();
            if !self.lock().is_pressed() {
                return;
            }
            eased.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Hold> {
        // No code that can panic runs under this lock.
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outlet {
    /// Begins to send what is held; ends by itself when nobody has the outlet any more.
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

    /// Takes in who the sinks are, with the plans in force, and whose ways are broken.
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
        holding.eased.notify_waiters();
        holding.wake();
    }

    /// Takes in what a sink has; returns how many it lacks of what went by the plan that keeps their order.
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
        holding.eased.notify_waiters();
        // The end of the stream waits for all else.
        holding.wake();
        missing
    }

    /// Sends what can be sent, until nothing can.
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
            self.mailboxes_eased().await;
            // Which is next is decided when there is room, not before.
            let due = holding.lock().poll_due(self.forwarder.clock.now());
            self.count_dropped(holding);
            if let Some(due) = due {
                self.send_held(holding, due).await;
            }
            holding.eased.notify_waiters();
        }
    }

    async fn send_held(&self, holding: &Holding, due: Due) {
        let Some(route) = self.forwarder.route(self.stream, due.plan) else {
            return holding.lock().handle_astray(&due);
        };
        let (mut adu, sink) = (due.adu, due.sink);
        self.count_again(sink, &adu.header);
        let goes_on = route.installation().next.is_some() && adu.header.layer < due.layers;
        if goes_on {
            self.await_word(due.plan, &adu.header);
        } else {
            holding.lock().forget(sink, adu.header.sequence.0);
        }
        adu.header.epoch = due.plan;
        adu.header.set_mark(Mark::NONE);
        let trace = self.trace(&adu);
        self.forwarder.carry(&route, adu, trace).await;
    }

    /// Counts what was given up and had never been sent.
    fn count_dropped(&self, holding: &Holding) {
        let mut hold = holding.lock();
        while let Some(Dropped { header, cause, .. }) = hold.poll_dropped() {
            self.counts().dropped(cause);
            self.unplanned.refused(&header, cause);
        }
    }

    /// Waits until sinks have all that is held, or it is not worth sending any more.
    pub(super) async fn released(&self, holding: &Holding) {
        loop {
            let eased = holding.eased.notified();
            tokio::pin!(eased);
            // Listening before looking: what is said between the two is not missed.
            eased.as_mut().enable();
            let (now, settled) = (self.forwarder.clock.now(), holding.lock().poll_settled());
            if settled <= now {
                holding.lock().expire(now);
                return self.count_dropped(holding);
            }
            tokio::select! {
                () = eased => {}
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
