//! The node's identity: one Ed25519 key in one file.
//!
//! *The idea.* The key is made on the first start and never leaves its file, which only its owner
//! may read. The file appears whole or not at all: it is written beside its name, synced, and
//! hard-linked to it, so that a crash or two concurrent first starts leave one good key.
//!
//! ```text
//! # thalweg node key: secret, keep mode 0600
//! # public: 3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29
//! 0000000000000000000000000000000000000000000000000000000000000000
//! ```
//!
//! One line of 64 hexadecimal digits, the secret seed of RFC 8032; blank lines and lines that begin
//! with `#` are comments.
//!
//! *What it does not do.* It encrypts nothing at rest, and it supports no operating system without
//! file modes.
//!
//! *Sources.* OpenSSH's treatment of key files; RFC 8032 §5.1.5.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use iroh::{PublicKey, SecretKey, Signature};
use thalweg_base::id::NodeId;

use crate::error::{CREATE, IdentityError};

#[cfg(test)]
mod tests;

/// More than a key and its comments need; a larger file is something else.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// A node's key pair.
#[derive(Clone)]
pub struct Identity {
    secret: SecretKey,
}

impl Identity {
    /// Reads the key from its file, or creates both on the first start.
    ///
    /// A missing parent directory is created with mode 0700.
    ///
    /// Fails   the file can be read by others, holds no key, or cannot be read or created
    pub fn load_or_create(path: &Path) -> Result<Self, IdentityError> {
        match Self::load(path)? {
            Some(identity) => Ok(identity),
            None => Self::create(path),
        }
    }

    /// Reads the key from its file; none if there is no file.
    ///
    /// Fails   the file can be read by others, holds no key, or cannot be read
    pub fn load(path: &Path) -> Result<Option<Self>, IdentityError> {
        // Checked before opening: opening a pipe blocks until something writes to it.
        if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
            return Err(IdentityError::NoFile { path: path.into() });
        }
        match File::open(path) {
            Ok(file) => Self::read(path, file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed("read", path)(source)),
        }
    }

    /// Makes a key that is in no file, for tests and for nodes that need no lasting name.
    pub fn ephemeral() -> Self {
        Self {
            secret: SecretKey::generate(),
        }
    }

    /// Returns the key made from a seed, equal for equal seeds; for tests and demonstrations only.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self {
            secret: SecretKey::from_bytes(&seed),
        }
    }

    /// Returns the public key, which is the node's name.
    pub fn id(&self) -> NodeId {
        NodeId(*self.secret.public().as_bytes())
    }

    /// Signs a message (Ed25519).
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.secret.sign(message).to_bytes()
    }

    pub(crate) fn secret(&self) -> SecretKey {
        self.secret.clone()
    }

    fn read(path: &Path, file: File) -> Result<Self, IdentityError> {
        let metadata = file.metadata().map_err(failed("read", path))?;
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(IdentityError::Exposed {
                path: path.into(),
                mode,
            });
        }
        let mut text = String::new();
        file.take(KEY_FILE_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => IdentityError::Garbage { path: path.into() },
                _ => failed("read", path)(error),
            })?;
        Self::parse(&text).ok_or_else(|| IdentityError::Garbage { path: path.into() })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        // Seeds and node ids are both 32 bytes in hexadecimal, so one parser serves both. Its error
        // is dropped on purpose: it quotes the text, which may be most of a key.
        let NodeId(seed) = lines.next()?.parse().ok()?;
        lines.next().is_none().then(|| Self::from_seed(seed))
    }

    fn create(path: &Path) -> Result<Self, IdentityError> {
        let create = || failed(CREATE, path);
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(create())?;
        let identity = Self::ephemeral();
        let beside = beside(path);
        let written = identity.write(&beside).and_then(|()| {
            // A link rather than a rename: it never replaces a key that a concurrent start has just
            // made.
            fs::hard_link(&beside, path)
        });
        let removed = fs::remove_file(&beside);
        match written {
            Ok(()) => removed
                .and_then(|()| File::open(parent)?.sync_all())
                .map_err(create())
                .map(|()| identity),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Self::read(path, File::open(path).map_err(failed("read", path))?)
            }
            Err(error) => Err(create()(error)),
        }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        // A crashed start of a process with the same number may have left half a key.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        writeln!(file, "# thalweg node key: secret, keep mode 0600")?;
        writeln!(file, "# public: {}", self.id())?;
        writeln!(file, "{}", NodeId(self.secret.to_bytes()))?;
        file.sync_all()
    }
}

/// Returns whether a node can have this key. Most typos are no point of the curve; a point of small
/// order, such as a key of zeros, is no node's key.
pub fn is_possible(id: NodeId) -> bool {
    PublicKey::from_bytes(&id.0).is_ok_and(|key| !key.as_verifying_key().is_weak())
}

/// Returns whether `signature` is `signer`'s over `message`.
pub fn verify(signer: NodeId, message: &[u8], signature: &[u8; 64]) -> bool {
    PublicKey::from_bytes(&signer.0).is_ok_and(|key| {
        key.verify(message, &Signature::from_bytes(signature))
            .is_ok()
    })
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.id().short())
    }
}

fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.new", std::process::id()))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> IdentityError {
    let path = path.into();
    move |source| IdentityError::Io {
        action,
        path,
        source,
    }
}
