//! How a run ends: an exit code for scripts and one sentence for people.

use crate::system::privilege::Missing;

/// The table at the end of `--help`.
pub const HELP: &str = "\
Exit codes:
  0  done
  1  the run failed, a calibration figure is out of bounds, or with --whole something is missing
  2  bad usage or an invalid world; nothing was started
  5  this machine or this user cannot build a testbed: no root, no `ip`, no /dev/net/tun
With `-- COMMAND` the code is the command's own.";

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The input cannot be used; nothing was started.
    #[error("{0}")]
    BadInput(String),
    /// This machine or this user cannot build a testbed.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The run failed after its start.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}

impl Failure {
    /// Returns the exit code.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::BadInput(_) => 2,
            Self::Missing(_) => 5,
        }
    }
}
