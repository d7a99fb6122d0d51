//! Buffers that are used again: size classes, lock-free return, a bound on the whole.
//!
//! *The idea.* Six classes, each a lock-free queue of idle buffers. Taking pops one; dropping the buffer, on whichever
//! thread, pushes it back. Only a first use allocates, and only while the pool holds fewer bytes than its bound: when
//! the bound is near, idle buffers of other classes are freed to make room, and then the pool says no.
//!
//! *What it does not do.* It does not clear a buffer between uses.
//!
//! *Sources.* spec DC-5, BM-D1 (cost flat in size, the first use dearer); `crossbeam_queue::ArrayQueue`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use thalweg_core::event::DropCause;
use thalweg_core::limits::{ADU_PAYLOAD_BYTES_MAX, PACKET_HEADROOM_BYTES, PACKET_TAILROOM_BYTES};

/// Bytes that a pool holds unless told otherwise: 32 payloads of the longest kind, or 100,000 small ones.
pub const POOL_BYTES_DEFAULT: usize = 256 << 20;

/// Payload bytes of each class, and how many idle buffers of it are kept: at most 16 MiB a class, but for the last.
const CLASSES: [(usize, usize); 6] = [
    (2 << 10, 2048),
    (16 << 10, 1024),
    (64 << 10, 256),
    (256 << 10, 64),
    (1 << 20, 16),
    (ADU_PAYLOAD_BYTES_MAX, 4),
];

const ROOM_BYTES: usize = PACKET_HEADROOM_BYTES + PACKET_TAILROOM_BYTES;

/// Where packets get their buffers; clones share it.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

/// The pool cannot give a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoRoom {
    /// No class is long enough.
    #[error(
        "a payload of {len_bytes} bytes is longer than any buffer, {ADU_PAYLOAD_BYTES_MAX} bytes"
    )]
    TooLong {
        /// What was asked for.
        len_bytes: usize,
    },
    /// All that the pool may hold is in use.
    #[error("the packet pool's {bytes_max} bytes are in use: raise its bound or send less at once")]
    Exhausted {
        /// The pool's bound.
        bytes_max: usize,
    },
}

/// A buffer out of a pool, which it returns to.
pub(super) struct Buffer {
    bytes: Box<[u8]>,
    class: u8,
    home: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    idle: [ArrayQueue<Box<[u8]>>; CLASSES.len()],
    /// Bytes of all buffers there are, idle or in use.
    held_bytes: AtomicUsize,
    bytes_max: usize,
}

impl Pool {
    /// Returns an empty pool that never holds more than `bytes_max`; buffers come to be when they are first needed.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                idle: CLASSES.map(|(_, idle_max)| ArrayQueue::new(idle_max)),
                held_bytes: AtomicUsize::new(0),
                bytes_max,
            }),
        }
    }

    /// Returns the bytes of all buffers there are, idle or in use.
    pub fn held_bytes(&self) -> usize {
        self.shared.held_bytes.load(Ordering::Relaxed)
    }

    /// Returns how many buffers lie idle.
    pub fn idle_buffers(&self) -> usize {
        self.shared.idle.iter().map(ArrayQueue::len).sum()
    }

    pub(super) fn take(&self, len_bytes: usize) -> Result<Buffer, NoRoom> {
        let class = class_of(len_bytes).ok_or(NoRoom::TooLong { len_bytes })?;
        let bytes = match self.shared.idle[class].pop() {
            Some(bytes) => bytes,
            None => self.shared.allocate(class)?,
        };
        Ok(Buffer {
            bytes,
            class: class as u8,
            home: Arc::clone(&self.shared),
        })
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new(POOL_BYTES_DEFAULT)
    }
}

impl NoRoom {
    /// Returns the cause under which a packet is dropped for it.
    pub const fn cause(&self) -> DropCause {
        DropCause::Overflow
    }
}

impl Shared {
    #[cold]
    fn allocate(&self, class: usize) -> Result<Box<[u8]>, NoRoom> {
        let wanted = CLASSES[class].0 + ROOM_BYTES;
        while !self.reserve(wanted) {
            // Idle buffers of another length must not starve this one.
            let idle = self.idle.iter().rev().find_map(ArrayQueue::pop);
            let Some(idle) = idle else {
                return Err(NoRoom::Exhausted {
                    bytes_max: self.bytes_max,
                });
            };
            self.held_bytes.fetch_sub(idle.len(), Ordering::Relaxed);
        }
        Ok(vec![0; wanted].into_boxed_slice())
    }

    fn reserve(&self, wanted: usize) -> bool {
        let add = |held: usize| Some(held + wanted).filter(|sum| *sum <= self.bytes_max);
        self.held_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok()
    }
}

impl Buffer {
    /// Returns how long a payload this buffer is meant for.
    pub(super) const fn class_bytes(&self) -> usize {
        CLASSES[self.class as usize].0
    }

    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = core::mem::take(&mut self.bytes);
        if let Err(surplus) = self.home.idle[usize::from(self.class)].push(bytes) {
            self.home
                .held_bytes
                .fetch_sub(surplus.len(), Ordering::Relaxed);
        }
    }
}

fn class_of(len_bytes: usize) -> Option<usize> {
    CLASSES.iter().position(|(class, _)| len_bytes <= *class)
}
