//! How much of a link's ADUs is gathered before they are whole.
//!
//! *The idea.* Who reads gives the sender credit to send more. So what is read and kept until the rest comes is bounded here:
//! else a peer could send thousands of large ADUs, each without its last byte. Nobody waits for room, for what would make it
//! may be behind what waits: the ADU that finds none is given up.
//!
//! *What it does not do.* It counts nothing of an ADU that was whole when somebody looked, nor of one that is passed on while it
//! arrives: the outbox bounds those.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thalweg_core::limits::ARRIVING_BYTES_MAX;

use crate::error::BodyError;

/// What is gathered from one link, in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathering(Arc<AtomicUsize>);

/// What one ADU has of it, until it is whole or given up.
#[derive(Debug)]
pub(crate) struct Share {
    of: Gathering,
    bytes: usize,
}

impl Gathering {
    /// Returns the share of an ADU of which nothing is gathered yet.
    pub(crate) fn share(self) -> Share {
        Share { of: self, bytes: 0 }
    }
}

impl Share {
    /// Takes so many bytes more; who finds no room gives back at once what it had, so that it is the only one.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), BodyError> {
        let before = self.of.0.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        let limit = ARRIVING_BYTES_MAX.as_bytes();
        if (before + bytes) as u64 > limit {
            self.give_back();
            return Err(BodyError::Overflow);
        }
        Ok(())
    }

    fn give_back(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.of.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back();
    }
}
