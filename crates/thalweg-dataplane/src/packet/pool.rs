//! Reusable buffers: size classes, lock-free return, a limit on the total.
//!
//! *The idea.* Six classes, each with a lock-free queue of idle buffers. Taking a buffer pops one;
//! dropping it, on any thread, pushes it back. Only a first use allocates, and only while the pool
//! holds fewer bytes than its limit. Near the limit, idle buffers of other classes are freed first;
//! then the pool refuses.
//!
//! *What it does not do.* It does not clear buffers between uses.
//!
//! *Sources.* spec DC-5, BM-D1 (cost flat in size, the first use dearer);
//! `crossbeam_queue::ArrayQueue`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use thalweg_base::event::DropCause;
use thalweg_base::limits::{ADU_PAYLOAD_BYTES_MAX, PACKET_HEADROOM_BYTES, PACKET_TAILROOM_BYTES};

/// The default limit, in bytes: 32 payloads of maximum length, or 100,000 small ones.
pub const POOL_BYTES_DEFAULT: usize = 256 << 20;

/// Payload bytes of each class, and the maximum number of idle buffers: at most 16 MiB per class,
/// except the last.
const CLASSES: [(usize, usize); 6] = [
    (2 << 10, 2048),
    (16 << 10, 1024),
    (64 << 10, 256),
    (256 << 10, 64),
    (1 << 20, 16),
    (ADU_PAYLOAD_BYTES_MAX, 4),
];

const ROOM_BYTES: usize = PACKET_HEADROOM_BYTES + PACKET_TAILROOM_BYTES;

/// The source of packets' buffers; clones share it.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

/// Why the pool has no buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoRoom {
    /// No class is long enough.
    #[error(
        "a payload of {len_bytes} bytes is longer than any buffer, {ADU_PAYLOAD_BYTES_MAX} bytes"
    )]
    TooLong {
        /// The requested length.
        len_bytes: usize,
    },
    /// The pool's limit is in use.
    #[error("the packet pool's {bytes_max} bytes are in use: raise its bound or send less at once")]
    Exhausted {
        /// The pool's limit.
        bytes_max: usize,
    },
}

/// A buffer of a pool, returned to it on drop.
pub(super) struct Buffer {
    bytes: Box<[u8]>,
    class: u8,
    pool: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    idle: [ArrayQueue<Box<[u8]>>; CLASSES.len()],
    /// Bytes of all existing buffers, idle or in use.
    held_bytes: AtomicUsize,
    bytes_max: usize,
}

impl Pool {
    /// Returns an empty pool that never holds more than `bytes_max`; buffers are allocated when
    /// first needed.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                idle: CLASSES.map(|(_, idle_max)| ArrayQueue::new(idle_max)),
                held_bytes: AtomicUsize::new(0),
                bytes_max,
            }),
        }
    }

    /// Returns the bytes of all existing buffers, idle or in use.
    pub fn held_bytes(&self) -> usize {
        self.shared.held_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of idle buffers.
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
            pool: Arc::clone(&self.shared),
        })
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new(POOL_BYTES_DEFAULT)
    }
}

impl NoRoom {
    /// Returns the drop cause of a packet that gets no buffer.
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
        if let Err(surplus) = self.pool.idle[usize::from(self.class)].push(bytes) {
            self.pool
                .held_bytes
                .fetch_sub(surplus.len(), Ordering::Relaxed);
        }
    }
}

fn class_of(len_bytes: usize) -> Option<usize> {
    CLASSES.iter().position(|(class, _)| len_bytes <= *class)
}
