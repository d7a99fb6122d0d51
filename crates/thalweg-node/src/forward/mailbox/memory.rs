//! The memory that all mailboxes of a node take together.
//!
//! *The idea.* Mailboxes of a stream hold the same payloads, so each payload counts once, from the first
//! mailbox that holds it until the last lets go; and each ADU in each mailbox counts a little.
//!
//! *What it does not do.* It refuses nothing: a mailbox asks whether there is room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::Notify;

/// Bytes that an ADU takes in a mailbox beside its payload: its header, token and place, rounded up.
/// Payload is shared by the mailboxes of a stream, this is not.
pub(super) const ENTRY_BYTES: u64 = 256;

/// Memory that all mailboxes of a node share.
#[derive(Debug, Default)]
pub(super) struct SharedMemory {
    /// Payload bytes in all mailboxes, each payload once, and [`ENTRY_BYTES`] for each ADU in each.
    bytes: AtomicU64,
    /// Notified when a mailbox stops blocking its stream.
    pub(super) unblocked: Notify,
}

impl SharedMemory {
    /// Returns the bytes in all mailboxes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Handles the growth of a mailbox's entries, or their decline.
    pub(super) fn change(&self, before: u64, after: u64) {
        if after > before {
            self.bytes.fetch_add(after - before, Relaxed);
        } else {
            self.bytes.fetch_sub(before - after, Relaxed);
        }
    }

    /// Adds a payload, until what is returned is dropped.
    pub(super) fn hold(self: &Arc<Self>, bytes: u64) -> Held {
        self.bytes.fetch_add(bytes, Relaxed);
        Held(bytes, Arc::clone(self))
    }
}

/// The bytes of a payload that is in one mailbox or in several.
#[derive(Debug)]
pub(super) struct Held(u64, Arc<SharedMemory>);

impl Drop for Held {
    fn drop(&mut self) {
        self.1.bytes.fetch_sub(self.0, Relaxed);
    }
}
