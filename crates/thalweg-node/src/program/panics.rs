//! What a panic does to the program.
//!
//! *The idea.* A panic in a task that serves one connection costs that connection, and is counted. Any other may have left a node
//! without a part of it, so it ends the program: [`panicked`] tells it, and a supervisor starts it again. Either is said on standard
//! error, by a hook, for tokio drops what a task's panic said.
//!
//! *What it does not do.* It says nothing of a panic in the main task, which ends the program by itself.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Write as _;
use std::panic::PanicHookInfo;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use thalweg_net::task::is_alone;
use tokio::sync::watch;

use super::stderr;

/// How many tasks have panicked.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// What the first panic said that ends the program.
static FATAL: LazyLock<watch::Sender<Option<String>>> = LazyLock::new(|| watch::Sender::new(None));

/// Has each panic said and counted, and one that is no single connection's told to [`panicked`].
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

/// Returns how many panics there were.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Waits for a panic that ends the program, and returns what it said; for ever where no hook is installed.
pub async fn panicked() -> String {
    let mut fatal = FATAL.subscribe();
    // The sender is never dropped.
    let fatal = fatal.wait_for(Option::is_some).await;
    fatal.ok().and_then(|text| text.clone()).unwrap_or_default()
}

/// Returns what a panic said, and where.
fn describe(panic: &PanicHookInfo<'_>) -> String {
    let text = panic.payload_as_str().unwrap_or("it did not say why");
    match panic.location() {
        Some(place) => format!("{text} (at {place})"),
        None => text.into(),
    }
}
