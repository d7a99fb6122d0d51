//! What a link knows of moves to the engine and back.
//!
//! *The idea.* A link that another replaces ends what it has begun and may stay connected. Of one
//! ordered sequence the first ADU on the new link waits until the peer has all that the old one sent
//! of it, so that nothing overtakes.
//!
//! *What it does not do.* It does not decide which link stands by: `endpoint::direct` does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use thalweg_link::hop::OrderedId;
use tokio::sync::watch;

use super::{Inner, Link};

/// The moves of one link.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// The port of the peer's engine, once the peer has told it.
    port: watch::Sender<Option<u16>>,
    /// The link that this one replaces, until that has ended its ordered sequences.
    predecessor: Mutex<Option<Link>>,
    /// The same link, until those that the peer has sent over it are read.
    read_before: Mutex<Weak<Inner>>,
    /// Ordered sequences that are being read.
    sequences: watch::Sender<usize>,
    is_watched: AtomicBool,
}

/// An ordered sequence that is being read.
pub(super) struct Reading<'a>(&'a Moves);

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
        *lock(&self.predecessor) = Some(old.clone());
        *lock(&self.read_before) = Arc::downgrade(&old.0);
    }

    /// Records that a sequence begins to be read; it ends when the result is dropped. Waits until those
    /// over the replaced link have ended: the peer has ended them all, and has acknowledgements for them,
    /// before it begins any over this one.
    pub(super) async fn begin_reading(&self) -> Reading<'_> {
        let before = lock(&self.read_before).upgrade();
        if let Some(old) = before {
            let mut sequences = old.moves.sequences.subscribe();
            // The sender lives as long as the link.
            let _ = sequences.wait_for(|reading| *reading == 0).await;
            *lock(&self.read_before) = Weak::new();
        }
        self.sequences.send_modify(|reading| *reading += 1);
        Reading(self)
    }

    /// Ends that: all sequences of the replaced link have ended.
    pub(crate) fn forget_predecessor(&self) {
        *lock(&self.predecessor) = None;
    }

    /// Returns whether an ordered sequence may have to wait.
    pub(super) fn has_predecessor(&self) -> bool {
        lock(&self.predecessor).is_some()
    }

    /// Waits until the peer has all that the replaced link sent of a sequence.
    pub(super) async fn wait_predecessor(&self, id: OrderedId) {
        let old = lock(&self.predecessor).clone();
        if let Some(old) = old {
            // However it ended: what the peer lacks is sent again, by sequence.
            let _ = old.end_ordered(id).await;
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.sequences.send_modify(|reading| *reading -= 1);
    }
}

fn lock<T>(link: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that can panic runs under these locks.
    link.lock().unwrap_or_else(PoisonError::into_inner)
}
