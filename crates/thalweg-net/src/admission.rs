//! Who may connect.
//!
//! *The idea.* One shared set of keys, changeable while the node runs. It is asked as soon as the handshake has proved
//! the peer's key and before anything is kept for it; who is not in it is told so and forgotten. An empty set admits
//! nobody.
//!
//! *What it does not do.* It knows no roles: what an admitted peer may do is the node's business.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_core::id::NodeId;
use tokio::sync::watch;

/// The set of admitted keys; clones share it.
#[derive(Clone)]
pub struct Admission {
    shared: Arc<Shared>,
}

struct Shared {
    admitted: Mutex<HashSet<NodeId>>,
    refusals: AtomicU64,
    changes: watch::Sender<()>,
}

impl Admission {
    /// Returns a set of these keys.
    pub fn of(peers: impl IntoIterator<Item = NodeId>) -> Self {
        Self {
            shared: Arc::new(Shared {
                admitted: Mutex::new(peers.into_iter().collect()),
                refusals: AtomicU64::new(0),
                changes: watch::Sender::new(()),
            }),
        }
    }

    /// Returns a set that admits nobody.
    pub fn nobody() -> Self {
        Self::of([])
    }

    /// Returns whether the key may connect.
    pub fn admits(&self, peer: NodeId) -> bool {
        self.lock().contains(&peer)
    }

    /// Adds a key.
    pub fn admit(&self, peer: NodeId) {
        self.lock().insert(peer);
        self.shared.changes.send_replace(());
    }

    /// Removes a key; the endpoint closes the link with it, if there is one.
    pub fn revoke(&self, peer: NodeId) {
        self.lock().remove(&peer);
        self.shared.changes.send_replace(());
    }

    /// Puts these keys in the place of those before.
    pub fn replace(&self, peers: impl IntoIterator<Item = NodeId>) {
        *self.lock() = peers.into_iter().collect();
        self.shared.changes.send_replace(());
    }

    /// Returns how often somebody was refused since the start.
    pub fn refusals(&self) -> u64 {
        self.shared.refusals.load(Ordering::Relaxed)
    }

    pub(crate) fn count_refusal(&self) -> u64 {
        self.shared.refusals.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.shared.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<NodeId>> {
        // No code that can panic runs under this lock, so a poisoned set is still a whole one.
        self.shared
            .admitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("admitted", &self.lock().len())
            .field("refusals", &self.refusals())
            .finish()
    }
}
