//! How a run ends: a code for scripts and one sentence for people.
//!
//! *The idea.* A command returns `Result<Code, Failure>`. `?` turns any error into a [`Failure`] with
//! [`Code::Failed`]; where the input is at fault, the command says so with [`OrCode::or_code`]. A pipe
//! closed by its reader is a graceful end: `thalweg plan … | head -1` succeeds.
//!
//! *What it does not do.* Usage errors: clap words them, with exit code 2, which is also
//! [`Code::BadInput`].

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
  1  failed while running: a full disk, a lost node, a port in use
  2  bad usage, configuration, key, world or node name; nothing was started
  3  no plan satisfies the stream's needs; the shortfalls say why
  4  no running node answers at the socket
  5  a simulated world broke a law, or two reports differ by too much";

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// The command did what was asked.
    Done = 0,
    /// The command failed while running.
    Failed = 1,
    /// Unusable input; nothing was started.
    BadInput = 2,
    /// No plan satisfies the stream's needs.
    Infeasible = 3,
    /// No running node answers at the socket.
    NoNode = 4,
    /// A simulated world broke a law, or two reports differ by too much.
    Broken = 5,
}

/// Why a command failed, and its exit code.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: Code,
    /// The error with its causes.
    pub error: anyhow::Error,
}

/// The result of every command.
pub type Outcome = Result<Code, Failure>;

impl Failure {
    /// Makes the failure of something that did not start: bad input if `is_input`.
    pub fn of_start(error: impl Into<anyhow::Error>, is_input: bool) -> Self {
        let code = if is_input {
            Code::BadInput
        } else {
            Code::Failed
        };
        let error = error.into();
        Self { code, error }
    }

    /// Makes the failure of a request that the node refused: bad input if a name matches no node,
    /// or several.
    pub fn of_node(error: LocalError) -> Self {
        let is_input = matches!(error, LocalError::Unknown(_));
        Self::of_start(error, is_input)
    }

    /// Returns the error and its causes as one sentence.
    pub fn sentence(&self) -> String {
        sentence(&self.error)
    }
}

/// Attaches an exit code to an error.
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

/// Prints the failure, if there is one, and returns the exit code.
pub fn report(outcome: Outcome) -> ExitCode {
    let code = match outcome {
        Ok(code) => code,
        Err(failure) if is_broken_pipe(&failure.error) => Code::Done,
        Err(failure) => {
            crate::terminal::print_error(&failure.sentence());
            failure.code
        }
    };
    ExitCode::from(code as u8)
}

/// Prints clap's output, an error or the requested help, and returns the exit code.
pub fn report_usage(usage: &clap::Error) -> ExitCode {
    match usage.print().context("cannot write the help") {
        Err(error) if !usage.use_stderr() => report(Err(error.into())),
        // Standard error itself is gone, so there is nowhere to report to.
        _ => ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(Code::BadInput as u8)),
    }
}

/// Joins an error and its causes into one sentence, and skips causes that the sentence already contains.
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

/// Returns whether the reader of our output closed it. A lost node breaks a pipe too, but that is a
/// failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_node = |cause: &(dyn std::error::Error + 'static)| cause.is::<LocalError>();
    !error.chain().any(is_node)
        && error.chain().any(|cause| {
            cause
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        })
}
