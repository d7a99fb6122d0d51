//! The entries that the loop has not taken yet.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entry::Entry;
use super::marks::Mark;

/// The queue of new entries, and whether the loop goes on.
#[derive(Default)]
pub(super) struct Inbox(Mutex<Queue>);

/// An entry that is to be settled for the first time.
pub(super) type New = (Arc<Mark>, Box<dyn Entry>);

#[derive(Default)]
struct Queue {
    entries: Vec<New>,
    end: End,
}

/// Whether the loop goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    No,
    /// It is asked to end.
    Asked,
    /// It takes nothing more.
    Ended,
}

impl Inbox {
    /// Queues an entry.
    ///
    /// Fails   returns it if the loop takes nothing more
    pub(super) fn push(
        &self,
        mark: Arc<Mark>,
        entry: Box<dyn Entry>,
    ) -> Result<(), Box<dyn Entry>> {
        let mut queue = self.lock();
        if queue.end == End::Ended {
            return Err(entry);
        }
        queue.entries.push((mark, entry));
        Ok(())
    }

    /// Takes the new entries; `None` once the loop is to end.
    pub(super) fn take(&self) -> Option<Vec<New>> {
        let mut queue = self.lock();
        (queue.end == End::No).then(|| std::mem::take(&mut queue.entries))
    }

    /// Returns whether the loop has nothing to do here.
    pub(super) fn is_empty(&self) -> bool {
        let queue = self.lock();
        queue.end == End::No && queue.entries.is_empty()
    }

    /// Returns whether the loop goes on.
    pub(super) fn is_open(&self) -> bool {
        self.lock().end == End::No
    }

    /// Asks the loop to end.
    pub(super) fn end(&self) {
        self.lock().end = End::Asked;
    }

    /// Takes nothing more; returns the entries that the loop has not taken.
    pub(super) fn close(&self) -> Vec<New> {
        let mut queue = self.lock();
        queue.end = End::Ended;
        std::mem::take(&mut queue.entries)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
