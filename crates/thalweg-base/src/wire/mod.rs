//! Wire formats: any byte string decodes to a value or an error, in bounded memory.
//!
//! *The idea.* One cursor, `Reader`, that cannot run off its end and never allocates; above it one
//! file per kind of message. Every length is compared with its limit before memory is reserved.
//! Integers are QUIC varints, for most are small; the layouts are those of docs/reference/protocol.md.
//!
//! *What it does not do.* It checks no meaning: whether a peer may send a message is the node's
//! business.
//!
//! *Sources.* docs/reference/protocol.md; RFC 9000 §16 (varints).

pub mod account;
pub mod admission;
pub mod adu;
pub mod control;
pub mod description;
pub mod port;
pub mod receipt;
pub mod record;
pub mod summary;
mod trace;

#[cfg(test)]
mod tests;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::limits::TEXT_BYTES_MAX;
use crate::varint;
pub use crate::varint::VARINT_MAX;

/// The version of the formats in this module; the handshake refuses peers of another version.
pub const VERSION: u8 = 1;

/// Bytes of an Ed25519 signature.
pub const SIGNATURE_BYTES: usize = 64;

/// How bytes violate docs/reference/protocol.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end inside a value.
    #[error("the message ends inside its {0}")]
    Truncated(&'static str),
    /// Bytes follow the last value.
    #[error("{0} bytes follow the end of the message")]
    Trailing(usize),
    /// A format version that this build does not read.
    #[error("format version {0}; this node reads version {VERSION}")]
    Version(u8),
    /// An unsupported version of something that has versions of its own.
    #[error("{what} has version {version}, above the supported {most}: update this program")]
    VersionOf {
        /// The name of the thing.
        what: &'static str,
        /// Its version.
        version: u8,
        /// The newest supported version.
        most: u8,
    },
    /// An unknown message kind.
    #[error("message kind {0} is unknown")]
    Kind(u64),
    /// A value above its limit.
    #[error("{what} is {value}, above the limit of {limit}")]
    TooLarge {
        /// The name of the value.
        what: &'static str,
        /// The value received.
        value: u64,
        /// The bound in `limits`.
        limit: u64,
    },
    /// A value without meaning.
    #[error("{0} is malformed")]
    Malformed(&'static str),
}

/// A cursor over received bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Returns a reader of these bytes, at their start.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns how many bytes are left.
    pub const fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Reads so many bytes; `what` names them in the error, here and below.
    pub fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], WireError> {
        let (head, tail) = self
            .bytes
            .split_at_checked(count)
            .ok_or(WireError::Truncated(what))?;
        self.bytes = tail;
        Ok(head)
    }

    /// Reads a fixed number of bytes.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], WireError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    /// Reads one byte.
    pub fn byte(&mut self, what: &'static str) -> Result<u8, WireError> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    /// Reads a variable-length integer (RFC 9000 §16).
    pub fn varint(&mut self, what: &'static str) -> Result<u64, WireError> {
        let (value, used) = varint::decode(self.bytes).ok_or(WireError::Truncated(what))?;
        self.bytes = &self.bytes[used..];
        Ok(value)
    }

    /// Reads a varint no larger than `limit`.
    pub fn bounded(&mut self, what: &'static str, limit: u64) -> Result<u64, WireError> {
        let value = self.varint(what)?;
        if value <= limit {
            Ok(value)
        } else {
            Err(WireError::TooLarge { what, value, limit })
        }
    }

    /// Reads a count of items of at least one byte each, so that the bytes received bound what is
    /// reserved for them.
    pub fn count(&mut self, what: &'static str, limit: usize) -> Result<usize, WireError> {
        let count = self.bounded(what, limit as u64)? as usize;
        if count <= self.remaining() {
            Ok(count)
        } else {
            Err(WireError::Truncated(what))
        }
    }

    /// Reads a length and that many bytes.
    pub fn blob(&mut self, what: &'static str, limit: usize) -> Result<&'a [u8], WireError> {
        let length = self.bounded(what, limit as u64)? as usize;
        self.take(length, what)
    }

    /// Reads UTF-8 text with its length before it, of `limit` bytes at most.
    pub fn text(&mut self, what: &'static str, limit: usize) -> Result<String, WireError> {
        let bytes = self.blob(what, limit)?;
        core::str::from_utf8(bytes)
            .map(ToString::to_string)
            .map_err(|_| WireError::Malformed(what))
    }

    /// Fails if bytes are left.
    pub fn finish(self) -> Result<(), WireError> {
        if self.bytes.is_empty() {
            Ok(())
        } else {
            Err(WireError::Trailing(self.bytes.len()))
        }
    }
}

/// Appends values to a message.
pub trait Write {
    /// Appends a variable-length integer (RFC 9000 §16).
    fn varint(&mut self, value: u64);
    /// Appends bytes with their length before them.
    fn blob(&mut self, bytes: &[u8]);
}

impl Write for Vec<u8> {
    fn varint(&mut self, value: u64) {
        varint::encode(value, self);
    }

    fn blob(&mut self, bytes: &[u8]) {
        varint::encode(bytes.len() as u64, self);
        self.extend_from_slice(bytes);
    }
}

/// Cuts a sentence to the limit, at a character boundary.
fn truncated(reason: &str) -> &str {
    let mut end = reason.len().min(TEXT_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}
