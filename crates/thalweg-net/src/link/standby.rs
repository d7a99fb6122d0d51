//! What a link knows of moves to the engine and back.
//!
//! *The idea.* A link that another replaces ends what it has begun and may stay connected. Of one
//! ordered sequence the first ADU on the new link waits until the peer has all that the old one sent
//! of it, so that nothing overtakes.
//!
//! *What it does not do.* It does not decide which link stands by: `endpoint::direct` does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg_link::hop::OrderedId;
use tokio::sync::watch;

use super::Link;

/// The moves of one link.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// The port of the peer's engine, once the peer has told it.
    port: watch::Sender<Option<u16>>,
    /// The link that this one replaces, until that has ended its ordered sequences.
    predecessor: Mutex<Option<Link>>,
    is_watched: AtomicBool,
}

impl Moves {
    /// Records the port of the peer's engine.
    pub(super) fn handle_port(&self, port: u16) {
        self.port.send_replace(Some(port));
    }

    /// Waits until the peer has told its engine's port.
    pub(crate) async fn wait_port(&self) -> u16 {
        let mut told = self.port.subscribe();
        loop {
            if let Some(port) = *told.borrow_and_update() {
                return port;
            }
            // The sender lives as long as the link.
            let _ = told.changed().await;
        }
    }

    /// Returns whether this is the first call: one task watches a link.
    pub(crate) fn begin_watching(&self) -> bool {
        !self.is_watched.swap(true, Ordering::Relaxed)
    }

    /// Has ordered sequences wait for their ends on the link that this one replaces.
    pub(crate) fn follow(&self, old: &Link) {
        *self.lock() = Some(old.clone());
    }

    /// Ends that: all sequences of the replaced link have ended.
    pub(crate) fn forget_predecessor(&self) {
        *self.lock() = None;
    }

    /// Returns whether an ordered sequence may have to wait.
    pub(super) fn has_predecessor(&self) -> bool {
        self.lock().is_some()
    }

    /// Waits until the peer has all that the replaced link sent of a sequence.
    pub(super) async fn wait_predecessor(&self, id: OrderedId) {
        let old = self.lock().clone();
        if let Some(old) = old {
            // However it ended: what the peer lacks is sent again, by sequence.
            let _ = old.end_ordered(id).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Link>> {
        // No code that can panic runs under this lock.
        self.predecessor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
