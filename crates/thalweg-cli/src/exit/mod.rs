//! How a run ends: a code for scripts and one sentence for people.
//!
//! *The idea.* A command returns `Result<Code, Failure>`. Any error becomes a [`Failure`] with [`Code::Failed`] by `?`;
//! where it is the input's fault the command says so with [`OrCode::or_code`]. A pipe that the reader closed is a
//! graceful end, not an error: `thalweg plan … | head -1` succeeds.
//!
//! *What it does not do.* Usage errors: clap words those, and their code is 2, which is [`Code::BadInput`] too.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

use anyhow::Context as _;
use thalweg_node::local::LocalError;

#[cfg(test)]
mod tests;

/// The table that `thalweg --help` ends with.
pub const HELP: &str = "\
Exit codes:
  0  done
  1  it failed while running: a full disk, a lost node, a port in use
  2  bad usage, configuration, key, world or name of a node; nothing was started
  3  no plan satisfies the stream's needs; the shortfalls say why
  4  no running node answers at the socket
  5  a simulated world broke a law, or two reports differ by too much";

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// It did what was asked.
    Done = 0,
    /// It failed while running.
    Failed = 1,
    /// What it was given cannot be used; nothing was started.
    BadInput = 2,
    /// No plan satisfies the stream's needs.
    Infeasible = 3,
    /// No running node answers at the socket.
    NoNode = 4,
    /// A simulated world broke a law, or two reports differ by too much.
    Broken = 5,
}

/// Why a command did not do what was asked, and the code it exits with.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: Code,
    /// The sentence, with its causes.
    pub error: anyhow::Error,
}

/// What every command returns.
pub type Outcome = Result<Code, Failure>;

impl Failure {
    /// Returns what it means that something did not start: bad input if what was given is to blame.
    pub fn of_start(error: impl Into<anyhow::Error>, is_input: bool) -> Self {
        let code = if is_input {
            Code::BadInput
        } else {
            Code::Failed
        };
        let error = error.into();
        Self { code, error }
    }

    /// Returns what it means that the node does not do something: bad input if nobody, or more than one, is called as was said.
    pub fn of_node(error: LocalError) -> Self {
        let is_input = matches!(error, LocalError::Unknown(_));
        Self::of_start(error, is_input)
    }

    /// Returns the error and its causes as one sentence.
    pub fn sentence(&self) -> String {
        sentence(&self.error)
    }
}

/// Gives an error its exit code.
pub trait OrCode<T> {
    /// Turns the error into a failure with this code.
    fn or_code(self, code: Code) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrCode<T> for Result<T, E> {
    fn or_code(self, code: Code) -> Result<T, Failure> {
        self.map_err(|error| Failure {
            code,
            error: error.into(),
        })
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self {
            code: Code::Failed,
            error: error.into(),
        }
    }
}

/// Returns a failure with this code and sentence.
pub fn fail<T>(code: Code, sentence: impl Into<String>) -> Result<T, Failure> {
    Err(Failure {
        code,
        error: anyhow::Error::msg(sentence.into()),
    })
}

/// Prints the failure, if it is one, and returns the code for the operating system.
pub fn report(outcome: Outcome) -> ExitCode {
    let code = match outcome {
        Ok(code) => code,
        Err(failure) if is_broken_pipe(&failure.error) => Code::Done,
        Err(failure) => {
            crate::terminal::complain(&failure.sentence());
            failure.code
        }
    };
    ExitCode::from(code as u8)
}

/// Prints what clap has to say, a mistake or the help that was asked for, and returns the code for the operating system.
pub fn report_usage(usage: &clap::Error) -> ExitCode {
    match usage.print().context("cannot write the help") {
        Err(error) if !usage.use_stderr() => report(Err(error.into())),
        // Nobody is left to be told when standard error itself is gone.
        _ => ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(Code::BadInput as u8)),
    }
}

/// Joins an error and its causes into one sentence; a cause that the sentence already says is not repeated.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            let _ = write!(text, ": {cause}");
        }
    }
    text
}

/// Returns whether what read our output has closed it. A node that went away breaks a pipe too, and that is a failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_node = |cause: &(dyn std::error::Error + 'static)| cause.is::<LocalError>();
    !error.chain().any(is_node)
        && error.chain().any(|cause| {
            cause
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        })
}
