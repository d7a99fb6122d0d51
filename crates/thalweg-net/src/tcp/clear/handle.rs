//! The loop as its users hold it; the thread's start and end.
//!
//! *The idea.* Each session in the clear holds the loop, and so do those that begin sessions: the thread
//! ends once none of them is left. Nothing here waits for the thread.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::driver::Driver;
use super::entry::Entry;
use super::inbox::Inbox;
use super::lots::Lots;
use super::marks::{Mark, Marks};
use super::turn::{BELL, Turn};
use crate::lot::TakesLots;
use crate::task;

/// A thread that carries links in the clear; dropping the last user's handle ends it.
pub struct ClearLoop {
    marks: Arc<Marks>,
    inbox: Arc<Inbox>,
    takes_lots: Arc<dyn TakesLots>,
    next: AtomicU64,
}

impl ClearLoop {
    /// Starts the thread; called in the run-time that serves the links.
    ///
    /// Fails   if the system gives no thread, `epoll` or `eventfd`; `Unsupported` where it has none
    pub fn start() -> io::Result<Self> {
        Self::start_with(|turn| turn())
    }

    /// Like [`ClearLoop::start`]; calls `around` with each turn, to do something before and after it.
    pub(crate) fn start_with(around: fn(&mut dyn FnMut())) -> io::Result<Self> {
        let marks = Arc::new(Marks::new()?);
        let inbox = Arc::<Inbox>::default();
        let lots = Arc::new(Lots::new(marks.clone()));
        let turn = Turn::new(around, marks.clone(), inbox.clone(), lots.clone())?;
        let thread = std::thread::Builder::new().name("clear".into());
        // A panic in it costs its links: each is ended, and the next ones are carried by tasks.
        thread.spawn(move || task::alone_now(|| turn.run()))?;
        Ok(Self {
            marks,
            inbox,
            takes_lots: lots,
            next: AtomicU64::new(BELL + 1),
        })
    }

    /// Returns the mark of an entry that is about to be [seated](Self::seat).
    pub(in crate::tcp) fn reserve(&self) -> Arc<Mark> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        Arc::new(Mark::new(id, self.marks.clone()))
    }

    /// Gives an entry to the loop, which settles it at once.
    pub(in crate::tcp) fn seat(&self, mark: Arc<Mark>, entry: Box<dyn Entry>) {
        match self.inbox.push(mark, entry) {
            Ok(()) => self.marks.wake(),
            Err(entry) => entry.abandon(),
        }
    }

    /// Runs the driver of a link's sender until it ends.
    pub(in crate::tcp) fn drive(&self, driver: impl Future<Output = ()> + Send + 'static) {
        let mark = self.reserve();
        self.seat(mark.clone(), Box::new(Driver::new(driver, mark)));
    }

    /// Returns what takes lots for it.
    pub(in crate::tcp) fn takes_lots(&self) -> &Arc<dyn TakesLots> {
        &self.takes_lots
    }

    /// Returns whether it takes entries: it stops only after a panic.
    pub(in crate::tcp) fn is_running(&self) -> bool {
        self.inbox.is_open()
    }
}

impl fmt::Debug for ClearLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClearLoop").finish_non_exhaustive()
    }
}

impl Drop for ClearLoop {
    fn drop(&mut self) {
        self.inbox.end();
        self.marks.wake();
    }
}
