//! What a panic does to the program.
//!
//! *The idea.* A panic in a task that serves one connection costs that connection, and is counted.
//! Any other panic may have left the node without one of its parts, so it ends the program:
//! [`panicked`] reports it, and a supervisor restarts the program. A hook writes both to standard
//! error, since tokio drops a task's panic message.
//!
//! *What it does not do.* It does not report a panic of the main task, which ends the program by
//! itself.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Write as _;
use std::panic::PanicHookInfo;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use thalweg_net::task::is_alone;
use tokio::sync::watch;

use super::stderr;

/// The number of panics.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The message of the first panic that ends the program.
static FATAL: LazyLock<watch::Sender<Option<String>>> = LazyLock::new(|| watch::Sender::new(None));

/// Installs the hook: writes and counts each panic, and reports those outside of a single
/// connection to [`panicked`].
pub fn install() {
    std::panic::set_hook(Box::new(|panic| {
        COUNT.fetch_add(1, Ordering::Relaxed);
        let is_alone = is_alone();
        let text = describe(panic);
        let end = if is_alone {
            "the connection that it served ends"
        } else {
            "the program ends"
        };
        let thread = thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        let mut lines =
            format!("thalweg: a fault of the program: thread '{thread}' panicked: {text}; {end}\n");
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            let _ = writeln!(lines, "{trace}");
        }
        stderr::write(lines.as_bytes());
        if !is_alone {
            FATAL.send_if_modified(|fatal| {
                let is_first = fatal.is_none();
                fatal.get_or_insert(text);
                is_first
            });
        }
    }));
}

/// Returns the number of panics.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Waits for a panic that ends the program, and returns its message; waits for ever if no hook is
/// installed.
pub async fn panicked() -> String {
    let mut fatal = FATAL.subscribe();
    // The sender is never dropped.
    let fatal = fatal.wait_for(Option::is_some).await;
    fatal.ok().and_then(|text| text.clone()).unwrap_or_default()
}

/// Returns a panic's message and location.
fn describe(panic: &PanicHookInfo<'_>) -> String {
    let text = panic.payload_as_str().unwrap_or("no message");
    match panic.location() {
        Some(place) => format!("{text} (at {place})"),
        None => text.into(),
    }
}
