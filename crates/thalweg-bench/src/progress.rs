//! A progress line on standard error that the next one replaces.
//!
//! It is only for a person at a terminal: otherwise nothing is written, so that logs stay clean. Other
//! output must clear the line first.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::sync::OnceLock;

/// Shows the current step; the next call replaces it.
pub(crate) fn show(text: impl Display) {
    if is_watched() {
        // A progress line that cannot be written is no loss.
        let _ = write!(std::io::stderr(), "\r\x1b[K{text} …");
    }
}

/// Removes the line.
pub(crate) fn clear() {
    if is_watched() {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

fn is_watched() -> bool {
    static IS_WATCHED: OnceLock<bool> = OnceLock::new();
    *IS_WATCHED.get_or_init(|| std::io::stderr().is_terminal())
}
