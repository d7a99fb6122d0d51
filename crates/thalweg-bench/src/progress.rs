//! What is being measured now, on a line of standard error that the next one replaces.
//!
//! *The idea.* Only for a person who waits: where standard error is no terminal nothing is written, so that a log holds
//! sentences alone. Whoever prints something else clears the line first.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::sync::OnceLock;

/// Shows what is being done; replaced by the next call.
pub(crate) fn show(text: impl Display) {
    if is_watched() {
        // A progress line that cannot be written is missed by nobody.
        let _ = write!(std::io::stderr(), "\r\x1b[K{text} …");
    }
}

/// Takes the line away.
pub(crate) fn clear() {
    if is_watched() {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

fn is_watched() -> bool {
    static IS_WATCHED: OnceLock<bool> = OnceLock::new();
    *IS_WATCHED.get_or_init(|| std::io::stderr().is_terminal())
}
