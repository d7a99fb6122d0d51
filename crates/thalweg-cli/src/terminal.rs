//! What is printed, and whether in colour.
//!
//! *The idea.* Results go to standard output, and a write error is returned rather than a panic, so that a closed pipe
//! can end the run gracefully. Nothing waits for standard error, and what cannot be written there is lost. Everything said to a person goes to standard error, with what is unseen in it made visible: a
//! word of a file or of the command line may be somebody else's. Colour appears only on a terminal that knows it and never
//! with `NO_COLOR`.
//!
//! *Sources.* <https://no-color.org>.

use std::io::{self, IsTerminal, Write as _};

use anyhow::Context as _;
use indicatif::ProgressBar;
use thalweg_node::program::stderr;
use thalweg_planner::model::visible;

/// How a heading or a mark is painted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Headings.
    Bold,
    /// What matters less.
    Dim,
    /// What is good.
    Green,
    /// What needs a look.
    Yellow,
    /// What is wrong.
    Red,
}

/// A stream of the process, with its answer to "in colour?".
#[derive(Clone, Copy, Debug)]
pub struct Colour(bool);

impl Colour {
    #[cfg(test)]
    /// Paints nothing.
    pub const NEVER: Self = Self(false);

    /// Returns whether standard output is painted.
    pub fn of_stdout() -> Self {
        Self(wanted(is_drawn_on(&io::stdout())))
    }

    /// Returns whether standard error is painted.
    pub fn of_stderr() -> Self {
        Self(wanted(is_drawn_on(&io::stderr())))
    }

    /// Returns whether anything is painted.
    pub fn is_on(self) -> bool {
        self.0
    }

    /// Returns the text, painted if that is wanted.
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
/// Fails   it cannot be written, and the sentence says that it is that
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.context("cannot write to standard output")
}

/// Says why the run failed, on standard error.
pub fn complain(sentence: &str) {
    let name = Colour::of_stderr().paint(Paint::Red, "thalweg:");
    // By the same queue as the log, so that neither overtakes the other, and nobody waits for a terminal that was stopped.
    stderr::write(format!("{name} {}\n", visible(sentence)).as_bytes());
}

/// Tells a person something that is not an error, on standard error.
pub fn tell(sentence: &str) {
    let name = Colour::of_stderr().paint(Paint::Dim, "thalweg:");
    stderr::write(format!("{name} {}\n", visible(sentence)).as_bytes());
}

/// Says it above a line of progress, which is drawn again only when it is said.
pub fn tell_above(bar: &ProgressBar, sentence: &str) {
    bar.suspend(|| {
        tell(sentence);
        stderr::flush();
    });
}

/// Returns whether a stream is a terminal that can be drawn on; one that says it is dumb only prints what comes.
pub fn is_drawn_on(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn wanted(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
