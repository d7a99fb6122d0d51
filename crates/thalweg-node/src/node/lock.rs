//! What keeps two nodes from running with the same files.
//!
//! *The idea.* The system's own locks, which go with the process that holds them, however it ends: nothing is left that the next
//! start would have to judge. The key file itself is locked, since it is never replaced and may be where nothing else can be
//! written. The file of the fabric is replaced whenever it changes, so a file beside it stands for it; it stays, empty.
//!
//! *What it does not do.* It concerns nodes that run. Who reads the key (`thalweg id`) or joins before the next start asks nobody.
//! Where the system has no locks, as on some network file systems, the node starts all the same and says so.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::NodeError;
use crate::config::{self, Owner};

/// A file that no other node runs with, until this is dropped; none where the system gives no lock.
#[derive(Debug)]
pub(super) struct Lock {
    _file: Option<File>,
}

impl Lock {
    /// Locks a key file, which is there.
    ///
    /// Fails   another node runs with it
    pub(super) fn key(path: &Path) -> Result<Self, NodeError> {
        let taken = || NodeError::KeyTaken { path: path.into() };
        Self::take(File::open(path), path, taken)
    }

    /// Locks the file in which a node keeps its grant; none if it has no fabric, for then it writes none.
    ///
    /// Fails   another node runs with it
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
                warn!(%path, %error, "cannot be locked: nothing would keep a second node from running with it");
                Ok(Self { _file: None })
            }
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.lock"))
}
