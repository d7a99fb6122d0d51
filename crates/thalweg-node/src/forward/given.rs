//! Which neighbours were given something since whoever listens to them asked.
//!
//! *The idea.* A link tells once, and only who asked it ([`thalweg_net::Link::tell_when_given`]): its peer is put on a list, and who
//! waits for the list is woken. So neither a link that is given much nor one that is given nothing costs anything here.
//!
//! *What it does not do.* It asks no link.

use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg_core::id::NodeId;
use tokio::sync::Notify;

/// Neighbours that were given something.
#[derive(Debug, Default)]
pub(crate) struct Given {
    peers: Mutex<Vec<NodeId>>,
    called: Notify,
}

impl Given {
    /// Takes in that a neighbour was given something.
    pub(crate) fn handle(&self, peer: NodeId) {
        self.lock().push(peer);
        self.called.notify_one();
    }

    /// Waits until there is somebody on the list; it may have been taken meanwhile.
    pub(crate) async fn called(&self) {
        self.called.notified().await;
    }

    /// Takes the list; who asked twice may be on it twice.
    pub(crate) fn take(&self) -> Vec<NodeId> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<NodeId>> {
        // No code that can panic runs under this lock.
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
