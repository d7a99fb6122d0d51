//! Output to the terminal, and whether it is coloured.
//!
//! *The idea.* Results go to standard output. A write error there is returned, so that a closed pipe ends
//! the run gracefully. Messages for people go to standard error; they never block, and are dropped if they
//! cannot be written. Invisible characters are escaped in them, because a word from a file or the command
//! line may be hostile. Colour is used only on a capable terminal, and never with `NO_COLOR`.
//!
//! *Sources.* <https://no-color.org>.

use std::io::{self, IsTerminal, Write as _};

use anyhow::Context as _;
use indicatif::ProgressBar;
use thalweg_node::program::stderr;
use thalweg_planner::model::visible;

/// The style of a heading or a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Headings.
    Bold,
    /// Secondary text.
    Dim,
    /// Good.
    Green,
    /// Needs attention.
    Yellow,
    /// Wrong.
    Red,
}

/// Whether an output stream is coloured.
#[derive(Clone, Copy, Debug)]
pub struct Colour(bool);

impl Colour {
    #[cfg(test)]
    /// No colour.
    pub const NEVER: Self = Self(false);

    /// Returns whether standard output is coloured.
    pub fn of_stdout() -> Self {
        Self(wanted(is_drawn_on(&io::stdout())))
    }

    /// Returns whether standard error is coloured.
    pub fn of_stderr() -> Self {
        Self(wanted(is_drawn_on(&io::stderr())))
    }

    /// Returns whether colour is on.
    pub fn is_on(self) -> bool {
        self.0
    }

    /// Returns the text, coloured if colour is on.
    pub fn paint(self, paint: Paint, text: &str) -> String {
        if !self.0 {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Bold => "1",
            Paint::Dim => "2",
            Paint::Green => "32",
            Paint::Yellow => "33",
            Paint::Red => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Writes to standard output and flushes it.
///
/// Fails   standard output cannot be written; the error says so
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.context("cannot write to standard output")
}

/// Prints on standard error why the run failed.
pub fn print_error(sentence: &str) {
    let name = Colour::of_stderr().paint(Paint::Red, "thalweg:");
    // The same queue as the log's: lines keep their order, and a stopped terminal blocks nothing.
    stderr::write(format!("{name} {}\n", visible(sentence)).as_bytes());
}

/// Prints a message that is not an error on standard error.
pub fn print_notice(sentence: &str) {
    let name = Colour::of_stderr().paint(Paint::Dim, "thalweg:");
    stderr::write(format!("{name} {}\n", visible(sentence)).as_bytes());
}

/// Prints a message above a progress bar, which is redrawn only after the message is flushed.
pub fn print_notice_above(bar: &ProgressBar, sentence: &str) {
    bar.suspend(|| {
        print_notice(sentence);
        stderr::flush();
    });
}

/// Returns whether a stream is a terminal with cursor control; `TERM=dumb` has none.
pub fn is_drawn_on(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn wanted(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
