//! The memory that all mailboxes of a node take together.
//!
//! *The idea.* Mailboxes of a stream hold the same payloads, so each payload counts once, from the first
//! mailbox that holds it until the last lets go; and each ADU in each mailbox counts a little.
//!
//! *What it does not do.* It refuses nothing: a mailbox asks whether there is room, and whether one of a
//! higher priority waits to be served.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use thalweg_base::limits::MAILBOXES_BYTES_MAX;
use thalweg_base::mailbox::PRIORITY_USUAL;
use tokio::sync::Notify;

/// Bytes that an ADU takes in a mailbox beside its payload: its header, token and place, rounded up.
/// Payload is shared by the mailboxes of a stream, this is not.
pub(super) const ENTRY_BYTES: u64 = 256;

/// Returns how much all mailboxes may hold before those of a priority have no more than their share: half
/// of the bound for the lowest, all of it for the usual, and a quarter more for the highest. So what a low
/// one holds already leaves room for a higher one.
pub(super) fn room_of(priority: u8) -> u64 {
    let all = MAILBOXES_BYTES_MAX.as_bytes();
    let [priority, usual, highest] = [priority, PRIORITY_USUAL, u8::MAX].map(u64::from);
    match priority.checked_sub(usual) {
        None => all / 2 + all / 2 * priority / usual,
        Some(above) => all + all / 4 * above / (highest - usual),
    }
}

/// Memory that all mailboxes of a node share, and their priorities.
#[derive(Debug)]
pub(super) struct SharedMemory {
    /// Payload bytes in all mailboxes, each payload once, and [`ENTRY_BYTES`] for each ADU in each.
    bytes: AtomicU64,
    /// Notified when a mailbox stops blocking its stream.
    pub(super) unblocked: Notify,
    /// Mailboxes in which something waits, by priority; the highest priority that a mailbox had.
    waiting: Box<[AtomicU32]>,
    highest: AtomicU8,
}

impl Default for SharedMemory {
    fn default() -> Self {
        Self {
            bytes: AtomicU64::new(0),
            unblocked: Notify::new(),
            waiting: (0..=u8::MAX).map(|_| AtomicU32::new(0)).collect(),
            highest: AtomicU8::new(0),
        }
    }
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

    /// Handles a new mailbox.
    pub(super) fn note_priority(&self, priority: u8) {
        self.highest.fetch_max(priority, Relaxed);
    }

    /// Handles whether something waited in a mailbox, and does now.
    pub(super) fn note_waiting(&self, priority: u8, did: bool, does: bool) {
        let waiting = &self.waiting[usize::from(priority)];
        match (did, does) {
            (false, true) => waiting.fetch_add(1, Relaxed),
            (true, false) => waiting.fetch_sub(1, Relaxed),
            _ => return,
        };
    }

    /// Returns whether something waits in a mailbox of a higher priority. Nodes on which none is stated, as
    /// most are, do not look.
    pub(super) fn is_outranked(&self, priority: u8) -> bool {
        let [own, highest] = [priority, self.highest.load(Relaxed)].map(usize::from);
        own < highest
            && self.waiting[own + 1..=highest]
                .iter()
                .any(|waiting| waiting.load(Relaxed) > 0)
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
