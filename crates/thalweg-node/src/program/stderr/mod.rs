//! Standard error, for a program that must outlive what reads it.
//!
//! *The idea.* A log's disk fills, its reader or its terminal goes away, or somebody stops the terminal's output: then a write fails,
//! or does not return. Neither may hold up a task of the node, nor end it. So lines are queued, up to a bound, and one thread writes
//! them. A line that cannot be written, or finds no room, is counted; as soon as writing works again, a line says how many are
//! missing and why.
//!
//! *What it does not do.* It keeps no lost line for later: a log that was gone for a day would be old, and more than memory holds.
//!
//! *Sources.* write(2): `EPIPE`, `EIO` of a terminal that is gone, `ENOSPC`, `EFBIG`, `EAGAIN` of a shared file description.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How many bytes may wait to be written: thousands of lines, of a burst or while the reader is slow.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// How often it is tried to say what is missing, when nothing else is to be written.
const RETRY: Duration = Duration::from_secs(1);

/// How long the end of the program waits for what is not written yet: a node that fails is to be gone within a second.
const FLUSH_MAX: Duration = Duration::from_millis(400);

/// How long a description that another process has made non-blocking may stay full before a line is lost, and how often it is tried.
const FULL_MAX: Duration = Duration::from_secs(1);
const FULL_PAUSE: Duration = Duration::from_millis(10);

static STDERR: OnceLock<Queue> = OnceLock::new();

/// Lines for standard error; each write is one whole line, and never waits or fails.
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

/// Has whole lines written to standard error; never waits, fails or panics.
pub fn write(lines: &[u8]) {
    STDERR.get_or_init(|| Queue::start(io::stderr())).put(lines);
}

/// Returns how many lines could not be written since the program began.
pub fn lost() -> u64 {
    STDERR.get().map_or(0, |queue| queue.0.lock().lost)
}

/// Waits a moment until what was queued is written, so that the last lines of a program are seen.
pub fn flush() {
    if let Some(queue) = STDERR.get() {
        queue.flush(FLUSH_MAX);
    }
}

/// Lines and the thread that writes them.
struct Queue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Told when there is a line to write.
    filled: Condvar,
    /// Told when all is written.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Box<[u8]>>,
    /// The bytes of those lines.
    bytes: usize,
    /// Whether the thread is writing a line that is in the queue no more.
    is_writing: bool,
    lost: u64,
    /// Those of the lost lines of which the log does not say yet that they are missing, and why the last of them was lost.
    untold: u64,
    why: String,
}

impl Queue {
    fn start(target: impl Write + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let writer = Arc::clone(&shared);
        let thread = thread::Builder::new().name("stderr".into());
        // Without a thread lines fill the queue and are then counted as lost: nothing else can be done, and nothing ends.
        let _ = thread.spawn(move || writer.run(target));
        Self(shared)
    }

    fn put(&self, line: &[u8]) {
        let mut state = self.0.lock();
        if state.bytes + line.len() > WAITING_BYTES_MAX {
            return state.lose("they came faster than they are read");
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
        self.untold += 1;
        why.clone_into(&mut self.why);
    }

    /// Returns the line that says what is missing.
    fn note(&self) -> Option<String> {
        let (lines, are) = match self.untold {
            0 => return None,
            1 => ("line", "is"),
            _ => ("lines", "are"),
        };
        let (untold, why) = (self.untold, &self.why);
        Some(format!(
            "thalweg: {untold} {lines} of this log {are} missing here, for standard error could not be written: {why}\n"
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
        // Whether the last line was written in part: the next begins on a line of its own.
        let mut is_torn = false;
        let mut state = self.lock();
        loop {
            state = self.wait(state);
            let line = state.lines.pop_front().unwrap_or_default();
            state.bytes -= line.len();
            let (untold, note) = (state.untold, state.note().unwrap_or_default());
            state.is_writing = true;
            drop(state);
            let feed: &[u8] = if is_torn { b"\n" } else { b"" };
            let (noted, fault) = match put(&mut target, &[feed, note.as_bytes()].concat()) {
                Ok(()) => {
                    is_torn = false;
                    (untold, put(&mut target, &line).err())
                }
                Err(fault) => (0, Some(fault)),
            };
            state = self.lock();
            state.is_writing = false;
            state.untold -= noted;
            if let Some((written, error)) = fault {
                is_torn |= written > 0;
                if line.is_empty() {
                    // It was only tried whether writing works again.
                    state.why = error.to_string();
                } else {
                    state.lose(&error.to_string());
                }
            }
        }
    }

    /// Waits until there is a line to write, or it is time to try whether what is missing can be said.
    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while state.lines.is_empty() {
            self.emptied.notify_all();
            if state.untold > 0 {
                let waited = self.filled.wait_timeout(state, RETRY);
                return waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            let waited = self.filled.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state
    }
}

/// Writes all of it.
///
/// Fails   with how much was written before
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
