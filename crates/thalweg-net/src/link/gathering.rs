//! A limit on the bytes that a link collects of incomplete ADUs.
//!
//! *The idea.* Reading a stream gives its sender more flow-control credit. So bytes that are read
//! and kept until the rest of their ADU arrives are bounded here; otherwise a peer could send
//! thousands of large ADUs, each without its last byte. A reader never waits for room, since the
//! ADU that would free it may be queued behind: the ADU that finds none is given up.
//!
//! *What it does not do.* It does not count ADUs that were whole when they were read, nor those
//! forwarded while they arrive: the outbox bounds those.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thalweg_base::limits::ARRIVING_BYTES_MAX;
use thalweg_base::units::DataSize;

use crate::error::BodyError;

/// The bytes collected of one link's incomplete ADUs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathering(Arc<AtomicUsize>);

/// One ADU's part of them, released when it is whole or given up.
#[derive(Debug)]
pub(crate) struct Share {
    of: Gathering,
    bytes: usize,
}

impl Gathering {
    /// Returns the bytes collected now.
    pub(crate) fn bytes(&self) -> DataSize {
        DataSize::from_bytes(self.0.load(Ordering::Relaxed) as u64)
    }

    /// Returns the empty share of a new ADU.
    pub(crate) fn share(self) -> Share {
        Share { of: self, bytes: 0 }
    }
}

impl Share {
    /// Adds bytes; on overflow releases the whole share at once, so that only this ADU fails.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), BodyError> {
        let before = self.of.0.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        let limit = ARRIVING_BYTES_MAX.as_bytes();
        if (before + bytes) as u64 > limit {
            self.release();
            return Err(BodyError::Overflow);
        }
        Ok(())
    }

    fn release(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.of.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}
