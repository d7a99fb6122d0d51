//! The connections that have something to send, and what wakes the loop for them.
//!
//! *The idea.* A task that has written to a connection marks it. The loop settles all marked
//! connections in one turn, so a burst of writes costs one `eventfd` write at most: the loop is
//! only woken while it sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use noq_proto::ConnectionHandle;

/// The marked connections.
#[derive(Debug)]
pub(super) struct Marks {
    marked: Mutex<Vec<ConnectionHandle>>,
    is_asleep: AtomicBool,
    bell: OwnedFd,
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

    /// Marks a connection.
    pub(super) fn mark(&self, handle: ConnectionHandle) {
        self.lock().push(handle);
        self.wake();
    }

    /// Appends the marked connections to a list.
    pub(super) fn take(&self, marked: &mut Vec<ConnectionHandle>) {
        marked.append(&mut self.lock());
    }

    /// Wakes the loop if it sleeps.
    pub(super) fn wake(&self) {
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            // It fails only if the counter is full, and then the loop is awake.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Announces that the loop is about to sleep; returns whether a connection is marked, so that
    /// it must not.
    pub(super) fn doze(&self) -> bool {
        self.is_asleep.store(true, Ordering::SeqCst);
        !self.lock().is_empty()
    }

    /// Announces that the loop is awake, and silences the bell.
    pub(super) fn rise(&self) {
        if !self.is_asleep.swap(false, Ordering::SeqCst) {
            let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<ConnectionHandle>> {
        // No code that can panic runs under this lock.
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Marks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[cfg(target_os = "linux")]
fn bell() -> io::Result<OwnedFd> {
    use rustix::event::{EventfdFlags, eventfd};

    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}

/// Elsewhere the engine does not start yet.
#[cfg(not(target_os = "linux"))]
fn bell() -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}
