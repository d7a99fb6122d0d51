//! The entries that are to be settled, and what wakes the loop for them.
//!
//! *The idea.* A task that has given a session something to send marks its connection; a marked entry is
//! not marked twice. The loop is woken only while it sleeps, so a burst of writes to many links costs one
//! `eventfd` write at most. The `eventfd` is watched edge-triggered and never read: each write is an edge.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

/// The marked entries.
#[derive(Debug)]
pub(super) struct Marks {
    marked: Mutex<Vec<u64>>,
    is_asleep: AtomicBool,
    bell: OwnedFd,
}

/// Marks one entry; the loop settles it soon.
#[derive(Debug)]
pub(in crate::tcp) struct Mark {
    id: u64,
    is_marked: AtomicBool,
    marks: Arc<Marks>,
}

impl Marks {
    /// Fails   if the system gives no `eventfd`
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            marked: Mutex::default(),
            is_asleep: AtomicBool::new(false),
            bell: bell()?,
        })
    }

    /// Appends the marked entries to a list.
    pub(super) fn take(&self, marked: &mut Vec<u64>) {
        marked.append(&mut self.lock());
    }

    /// Wakes the loop if it sleeps.
    pub(super) fn wake(&self) {
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            // It fails only if the counter is full, after more wakes than a loop can have.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Announces that the loop is about to sleep; returns whether an entry is marked, so that it must
    /// not.
    pub(super) fn doze(&self) -> bool {
        self.is_asleep.store(true, Ordering::SeqCst);
        !self.lock().is_empty()
    }

    /// Announces that the loop is awake.
    pub(super) fn rise(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        // No code that can panic runs under this lock.
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Marks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Mark {
    pub(super) fn new(id: u64, marks: Arc<Marks>) -> Self {
        Self {
            id,
            is_marked: AtomicBool::new(false),
            marks,
        }
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    /// Marks the entry.
    pub(in crate::tcp) fn set(&self) {
        if !self.is_marked.swap(true, Ordering::SeqCst) {
            self.marks.lock().push(self.id);
            self.marks.wake();
        }
    }

    /// Takes the mark off, before the entry is settled.
    pub(super) fn clear(&self) {
        self.is_marked.store(false, Ordering::SeqCst);
    }
}

impl Wake for Mark {
    fn wake(self: Arc<Self>) {
        self.set();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set();
    }
}

#[cfg(target_os = "linux")]
fn bell() -> io::Result<OwnedFd> {
    use rustix::event::{EventfdFlags, eventfd};

    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}

/// Elsewhere there is no loop yet.
#[cfg(not(target_os = "linux"))]
fn bell() -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}
