//! A link that stands by while another carries its peer's ADUs, and the link that has replaced it.
//!
//! *The idea.* The replaced link ends what it has begun and stays connected. Of one ordered sequence
//! the first ADU on the new link waits until the peer has all that the old one sent of it, so that
//! nothing overtakes.
//!
//! *What it does not do.* It does not decide which link stands by: `endpoint::direct` does.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use thalweg_link::hop::OrderedId;
use thalweg_link::hop::sender::room::ROOM_KIB;

use super::Link;

impl Link {
    /// Returns whether the connection has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.0.connection.is_over()
    }

    /// Accepts no more ADUs and waits until all have their outcome; the connection stays.
    pub(crate) async fn rest(&self) {
        self.end();
        // As in a drain: all room is back once no ADU waits for it.
        let _ = self.0.room.acquire_many(ROOM_KIB).await;
        self.settle().await;
    }

    /// Accepts ADUs again.
    pub(crate) fn resume(&self) {
        self.0.ended.store(false, Ordering::Relaxed);
    }

    /// Records the port of the peer's engine.
    pub(super) fn handle_engine_port(&self, port: u16) {
        self.0.engine_port.send_replace(Some(port));
    }

    /// Waits until the peer has told its engine's port.
    pub(crate) async fn wait_engine_port(&self) -> u16 {
        let mut told = self.0.engine_port.subscribe();
        loop {
            if let Some(port) = *told.borrow_and_update() {
                return port;
            }
            // The sender lives as long as the link.
            let _ = told.changed().await;
        }
    }

    /// Has ordered sequences wait for their ends on the link that this one replaces.
    pub(crate) fn follow(&self, old: &Self) {
        *self.predecessor() = Some(old.clone());
    }

    /// Ends that: all sequences of the replaced link have ended.
    pub(crate) fn forget_predecessor(&self) {
        *self.predecessor() = None;
    }

    /// Returns whether an ordered sequence may have to wait.
    pub(super) fn has_predecessor(&self) -> bool {
        self.predecessor().is_some()
    }

    /// Waits until the peer has all that the replaced link sent of a sequence.
    pub(super) async fn wait_predecessor(&self, id: OrderedId) {
        let old = self.predecessor().clone();
        if let Some(old) = old {
            // However it ended: what the peer lacks is sent again, by sequence.
            let _ = old.end_ordered(id).await;
        }
    }

    fn predecessor(&self) -> MutexGuard<'_, Option<Self>> {
        // No code that can panic runs under this lock.
        self.0
            .predecessor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
