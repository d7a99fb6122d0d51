//! Admission: the set of keys that may connect.
//!
//! *The idea.* One shared set of keys, which may change while the node runs. The endpoint consults
//! it as soon as the handshake has proved the peer's key, before it allocates anything for the
//! peer. A peer that is not in the set gets a close frame with the reason. An empty set admits no
//! peer. The first refusal is logged at once, later ones at most every ten seconds, so that a
//! stranger that keeps trying cannot fill the log.
//!
//! *What it does not do.* It knows no roles: the node decides what an admitted peer may do.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::id::NodeId;
use tokio::sync::watch;
use tokio::time::{Duration, Instant};

/// Minimum interval between two log lines about refusals.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The set of admitted keys; clones share it.
#[derive(Clone)]
pub struct Admission {
    shared: Arc<Shared>,
}

struct Shared {
    admitted: Mutex<HashSet<NodeId>>,
    refusals: AtomicU64,
    /// Dials that were refused for lack of room.
    dials: AtomicU64,
    logged: Mutex<Option<Instant>>,
    changes: watch::Sender<()>,
}

impl Admission {
    /// Returns a set of these keys.
    pub fn of(peers: impl IntoIterator<Item = NodeId>) -> Self {
        Self {
            shared: Arc::new(Shared {
                admitted: Mutex::new(peers.into_iter().collect()),
                refusals: AtomicU64::new(0),
                dials: AtomicU64::new(0),
                logged: Mutex::new(None),
                changes: watch::Sender::new(()),
            }),
        }
    }

    /// Returns a set that admits no peer.
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

    /// Replaces the set.
    pub fn replace(&self, peers: impl IntoIterator<Item = NodeId>) {
        *self.lock() = peers.into_iter().collect();
        self.shared.changes.send_replace(());
    }

    /// Returns the number of refused connections since the start.
    pub fn refusals(&self) -> u64 {
        self.shared.refusals.load(Ordering::Relaxed)
    }

    /// Counts the refusal of a key that is not admitted and logs it if a line is due; returns the
    /// reason for the peer.
    pub(crate) fn refuse(&self, own: NodeId, peer: NodeId) -> String {
        let refusals = self.shared.refusals.fetch_add(1, Ordering::Relaxed) + 1;
        if self.may_log() {
            tracing::warn!(peer = %peer, refusals, "refused: not admitted");
        }
        refusal(own, peer)
    }

    /// Returns the number of dials that were refused for lack of room since the start: the queue of
    /// handshakes was full, a handshake lost its place to another host, or there were links enough.
    pub fn refused_dials(&self) -> u64 {
        self.shared.dials.load(Ordering::Relaxed)
    }

    /// Counts the refusal of a dial for lack of room, and logs it if a line is due.
    pub(crate) fn refuse_dial(&self, from: &dyn fmt::Debug, reason: &str) {
        let refused = self.shared.dials.fetch_add(1, Ordering::Relaxed) + 1;
        if self.may_log() {
            tracing::warn!(?from, refused, reason, "dial refused");
        }
    }

    fn may_log(&self) -> bool {
        let now = Instant::now();
        // No code that can panic runs under this lock.
        let mut logged = self
            .shared
            .logged
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let may = logged.is_none_or(|last| now.duration_since(last) >= LOG_INTERVAL);
        if may {
            *logged = Some(now);
        }
        may
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

/// Returns the reason that is sent to a refused peer.
pub(crate) fn refusal(own: NodeId, peer: NodeId) -> String {
    format!(
        "node {} does not admit the key {}",
        own.short(),
        peer.short()
    )
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("admitted", &self.lock().len())
            .field("refusals", &self.refusals())
            .finish()
    }
}
