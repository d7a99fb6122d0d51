//! Locks that keep two nodes from running with the same files.
//!
//! *The idea.* The system's file locks are released when their process ends, in whatever way, so a
//! start never has to judge a stale lock. The key file itself is locked, since it is never replaced
//! and may be in a read-only folder. The fabric's state file is replaced at each change, so an
//! empty file beside it is locked instead; it stays there.
//!
//! *What it does not do.* It concerns running nodes only. `thalweg id` and `thalweg join` take no
//! lock. On a system without locks, as on some network file systems, the node starts anyway and
//! logs a warning.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::NodeError;
use crate::config::{self, Owner};

/// An exclusive lock on a file until it is dropped; empty if the system has no locks.
#[derive(Debug)]
pub(super) struct Lock {
    _file: Option<File>,
}

impl Lock {
    /// Locks an existing key file.
    ///
    /// Fails   if another node runs with it
    pub(super) fn key(path: &Path) -> Result<Self, NodeError> {
        let taken = || NodeError::KeyTaken { path: path.into() };
        Self::take(File::open(path), path, taken)
    }

    /// Locks a node's state file; `None` if the node has no fabric and so writes none.
    ///
    /// Fails   if another node runs with it
    pub(super) fn state(fabric: &config::Fabric) -> Result<Option<Self>, NodeError> {
        let Some(path) = &fabric.state else {
            return Ok(None);
        };
        if fabric.owner == Owner::Kept && !path.exists() {
            return Ok(None);
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(beside(path));
        let taken = || NodeError::StateTaken { path: path.into() };
        Self::take(file, path, taken).map(Some)
    }

    fn take(
        file: io::Result<File>,
        path: &Path,
        taken: impl FnOnce() -> NodeError,
    ) -> Result<Self, NodeError> {
        let locked = file.map_err(TryLockError::Error).and_then(|file| {
            file.try_lock()?;
            Ok(file)
        });
        match locked {
            Ok(file) => Ok(Self { _file: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(taken()),
            Err(TryLockError::Error(error)) => {
                let path = path.display();
                warn!(%path, %error, "file cannot be locked; a second node could run with it");
                Ok(Self { _file: None })
            }
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.lock"))
}
