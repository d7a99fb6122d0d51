//! Standard error, for a program that must outlive the reader of its log.
//!
//! *The idea.* A log's disk fills up, its reader or terminal goes away, or the terminal's output is
//! stopped: then a write fails, or never returns. Neither may block a task of the node or end it.
//! So lines are queued, up to a bound, and one thread writes them. A line that cannot be written or
//! queued is counted; once writing works again, a line says how many are missing and why.
//!
//! *What it does not do.* It keeps no lost line for later: the log of a day would be outdated, and
//! does not fit in memory.
//!
//! *Sources.* write(2): `EPIPE`, `EIO` of a terminal that is gone, `ENOSPC`, `EFBIG`, `EAGAIN` of a
//! shared file description.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of queued bytes: thousands of lines, for a burst or a slow reader.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// How often to try to report missing lines while nothing else is to be written.
const RETRY: Duration = Duration::from_secs(1);

/// How long the end of the program waits for queued lines: a failing node must be gone within a
/// second.
const FLUSH_MAX: Duration = Duration::from_millis(400);

/// How long a descriptor that another process has made non-blocking may stay full before a line is
/// lost, and how often to retry.
const FULL_MAX: Duration = Duration::from_secs(1);
const FULL_PAUSE: Duration = Duration::from_millis(10);

static STDERR: OnceLock<Queue> = OnceLock::new();

/// A writer to standard error; each write is one whole line, and never waits or fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        write(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Queues whole lines for standard error; never waits, fails or panics.
pub fn write(lines: &[u8]) {
    STDERR.get_or_init(|| Queue::start(io::stderr())).put(lines);
}

/// Returns how many lines were lost since the program began.
pub fn lost() -> u64 {
    STDERR.get().map_or(0, |queue| queue.0.lock().lost)
}

/// Waits a moment for queued lines, so that the last lines of a program are seen.
pub fn flush() {
    if let Some(queue) = STDERR.get() {
        queue.flush(FLUSH_MAX);
    }
}

/// The queue of lines, and the thread that writes them.
struct Queue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when a line is queued.
    filled: Condvar,
    /// Notified when all lines are written.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Box<[u8]>>,
    /// The bytes of the queued lines.
    bytes: usize,
    /// Whether the thread is writing a line that it has taken from the queue.
    is_writing: bool,
    lost: u64,
    /// Lost lines that the log does not report yet, and why the last of them was lost.
    unreported: u64,
    why: String,
}

impl Queue {
    fn start(target: impl Write + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let writer = Arc::clone(&shared);
        let thread = thread::Builder::new().name("stderr".into());
        // Without a thread, lines fill the queue and are then counted as lost. The program goes on.
        let _ = thread.spawn(move || writer.run(target));
        Self(shared)
    }

    fn put(&self, line: &[u8]) {
        let mut state = self.0.lock();
        if state.bytes + line.len() > WAITING_BYTES_MAX {
            return state.lose("lines came faster than they were read");
        }
        state.bytes += line.len();
        state.lines.push_back(line.into());
        drop(state);
        self.0.filled.notify_one();
    }

    fn flush(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut state = self.0.lock();
        while state.is_writing || !state.lines.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.emptied.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    fn lose(&mut self, why: &str) {
        self.lost += 1;
        self.unreported += 1;
        why.clone_into(&mut self.why);
    }

    /// Returns the line that reports missing lines.
    fn report(&self) -> Option<String> {
        let (lines, are) = match self.unreported {
            0 => return None,
            1 => ("line", "is"),
            _ => ("lines", "are"),
        };
        let (unreported, why) = (self.unreported, &self.why);
        Some(format!(
            "thalweg: {unreported} {lines} of this log {are} missing here, since standard error could not be written: {why}\n"
        ))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes lines for as long as the program runs.
    fn run(&self, mut target: impl Write) {
        // Whether the last line was written in part; the next one then starts with a line break.
        let mut is_torn = false;
        let mut state = self.lock();
        loop {
            state = self.wait(state);
            let line = state.lines.pop_front().unwrap_or_default();
            state.bytes -= line.len();
            let (unreported, report) = (state.unreported, state.report().unwrap_or_default());
            state.is_writing = true;
            drop(state);
            let feed: &[u8] = if is_torn { b"\n" } else { b"" };
            let (noted, fault) = match put(&mut target, &[feed, report.as_bytes()].concat()) {
                Ok(()) => {
                    is_torn = false;
                    (unreported, put(&mut target, &line).err())
                }
                Err(fault) => (0, Some(fault)),
            };
            state = self.lock();
            state.is_writing = false;
            state.unreported -= noted;
            if let Some((written, error)) = fault {
                is_torn |= written > 0;
                if line.is_empty() {
                    // The attempt was only a probe whether writing works again.
                    state.why = error.to_string();
                } else {
                    state.lose(&error.to_string());
                }
            }
        }
    }

    /// Waits for a line to write, or for the time to retry the report of missing lines.
    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while state.lines.is_empty() {
            self.emptied.notify_all();
            if state.unreported > 0 {
                let waited = self.filled.wait_timeout(state, RETRY);
                return waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            let waited = self.filled.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state
    }
}

/// Writes all bytes.
///
/// Fails   with the number of bytes written before
fn put(target: &mut impl Write, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    let mut full_since = None;
    while written < bytes.len() {
        match target.write(&bytes[written..]) {
            Ok(0) => return Err((written, ErrorKind::WriteZero.into())),
            Ok(count) => {
                written += count;
                full_since = None;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if full_since.get_or_insert_with(Instant::now).elapsed() > FULL_MAX {
                    return Err((written, error));
                }
                thread::sleep(FULL_PAUSE);
            }
            Err(error) => return Err((written, error)),
        }
    }
    Ok(())
}
