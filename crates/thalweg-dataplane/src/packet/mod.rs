//! An ADU inside a lift: a header, and a payload that is pooled or shared.
//!
//! *The idea.* Bytes enter in one of two ways. Copied into a pooled buffer, they have room on both
//! sides, so that a seal's trailer or a frame's header is written in place. Wrapped as shared
//! [`Bytes`], they stay where they are: a node that only forwards never copies, and the first
//! module that writes pays for one copy (copy on write). Bytes leave by [`Packet::into_bytes`]
//! without a copy in both cases; the buffer returns to the pool when its last reader drops it.
//!
//! ```text
//!  buffer  | headroom ≥ 128 B |  payload  |  free | tailroom ≥ 64 B |
//!                             ^ start     ^ end
//! ```
//!
//! *What it does not do.* It clears nothing: a grown part holds the buffer's old content until the
//! caller writes it.
//!
//! *Sources.* Linux `sk_buff` (`skb_push`, `skb_put`); spec DC-5.

use core::fmt;

use bytes::{Buf, Bytes};
use thalweg_base::adu::{Adu, Header};
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::limits::{PACKET_HEADROOM_BYTES, PACKET_TAILROOM_BYTES};

mod pool;
#[cfg(test)]
mod tests;

use pool::Buffer;
pub use pool::{NoRoom, POOL_BYTES_DEFAULT, Pool};

/// A header and a payload, both mutable.
pub struct Packet {
    /// The header, which every node may read.
    pub header: Header,
    payload: Payload,
}

enum Payload {
    Pooled(Window),
    Shared(Bytes),
}

/// The part of a pooled buffer that is payload.
struct Window {
    buffer: Buffer,
    start: usize,
    end: usize,
}

impl Packet {
    /// Returns a packet with `bytes` as its payload, shared and unchanged.
    pub const fn shared(header: Header, bytes: Bytes) -> Self {
        Self {
            header,
            payload: Payload::Shared(bytes),
        }
    }

    /// Returns a packet with a copy of `bytes` in a buffer of `pool`.
    pub fn copied(header: Header, bytes: &[u8], pool: &Pool) -> Result<Self, NoRoom> {
        let mut window = Window::of_len(bytes.len(), pool)?;
        window.as_mut().copy_from_slice(bytes);
        Ok(Self {
            header,
            payload: Payload::Pooled(window),
        })
    }

    /// Returns a packet with `len_bytes` of unspecified payload, which the caller must write.
    pub fn uninit(header: Header, len_bytes: usize, pool: &Pool) -> Result<Self, NoRoom> {
        let window = Window::of_len(len_bytes, pool)?;
        Ok(Self {
            header,
            payload: Payload::Pooled(window),
        })
    }

    /// Returns the payload.
    pub fn payload(&self) -> &[u8] {
        match &self.payload {
            Payload::Pooled(window) => window.as_ref(),
            Payload::Shared(bytes) => bytes,
        }
    }

    /// Returns the payload for writing; a shared one is copied into a buffer of `pool` first.
    pub fn payload_mut(&mut self, pool: &Pool) -> Result<&mut [u8], NoRoom> {
        Ok(self.make_owned(0, 0, pool)?.as_mut())
    }

    /// Returns whether the payload is still the shared bytes that came in.
    pub const fn is_shared(&self) -> bool {
        matches!(self.payload, Payload::Shared(_))
    }

    /// Extends the payload by `more_bytes` at the front and returns all of it for writing.
    pub fn grow_front(&mut self, more_bytes: usize, pool: &Pool) -> Result<&mut [u8], NoRoom> {
        let window = self.make_owned(more_bytes, 0, pool)?;
        window.start -= more_bytes;
        Ok(window.as_mut())
    }

    /// Extends the payload by `more_bytes` at the back and returns all of it for writing.
    pub fn grow_back(&mut self, more_bytes: usize, pool: &Pool) -> Result<&mut [u8], NoRoom> {
        let window = self.make_owned(0, more_bytes, pool)?;
        window.end += more_bytes;
        Ok(window.as_mut())
    }

    /// Removes `less_bytes` from the front of the payload, or all there are.
    pub fn trim_front(&mut self, less_bytes: usize) {
        match &mut self.payload {
            Payload::Pooled(window) => window.start = (window.start + less_bytes).min(window.end),
            Payload::Shared(bytes) => bytes.advance(less_bytes.min(bytes.len())),
        }
    }

    /// Removes `less_bytes` from the back of the payload, or all there are.
    pub fn trim_back(&mut self, less_bytes: usize) {
        match &mut self.payload {
            Payload::Pooled(window) => {
                window.end = window.end.saturating_sub(less_bytes).max(window.start);
            }
            Payload::Shared(bytes) => bytes.truncate(bytes.len().saturating_sub(less_bytes)),
        }
    }

    /// Replaces the payload by a copy of `bytes`, in the packet's own buffer if that is long
    /// enough.
    pub fn replace(&mut self, bytes: &[u8], pool: &Pool) -> Result<(), NoRoom> {
        match &mut self.payload {
            Payload::Pooled(window) if bytes.len() <= window.buffer.class_bytes() => {
                window.start = PACKET_HEADROOM_BYTES;
                window.end = window.start + bytes.len();
                window.as_mut().copy_from_slice(bytes);
            }
            payload => {
                let mut window = Window::of_len(bytes.len(), pool)?;
                window.as_mut().copy_from_slice(bytes);
                *payload = Payload::Pooled(window);
            }
        }
        Ok(())
    }

    /// Replaces the payload by that of `other`; drops the header of `other`.
    pub fn adopt(&mut self, other: Self) {
        self.payload = other.payload;
    }

    /// Takes the packet and leaves an empty one, which must not be passed on.
    #[must_use]
    pub const fn take(&mut self) -> Self {
        let empty = Self::shared(Header::new(StreamId(0), Sequence(0)), Bytes::new());
        core::mem::replace(self, empty)
    }

    /// Returns the payload without copying it; a pooled buffer returns to its pool when the last
    /// clone is dropped.
    ///
    /// Cost    O(1); for a pooled payload one allocation of a few words, the owner's cell inside
    ///         [`Bytes`]
    pub fn into_bytes(self) -> Bytes {
        match self.payload {
            Payload::Pooled(window) => Bytes::from_owner(window),
            Payload::Shared(bytes) => bytes,
        }
    }

    /// Returns the ADU without copying its payload.
    pub fn into_adu(self) -> Adu {
        Adu {
            header: self.header,
            payload: self.into_bytes(),
        }
    }

    /// Returns the payload's own buffer with this much room before and after it, moving the payload
    /// if necessary.
    fn make_owned(
        &mut self,
        front: usize,
        back: usize,
        pool: &Pool,
    ) -> Result<&mut Window, NoRoom> {
        let has_room = match &self.payload {
            Payload::Pooled(window) => window.has_room(front, back),
            Payload::Shared(_) => false,
        };
        if !has_room {
            self.payload = Payload::Pooled(Window::moved(self.payload(), front, back, pool)?);
        }
        match &mut self.payload {
            Payload::Pooled(window) => Ok(window),
            Payload::Shared(_) => {
                unreachable!("a payload without room was moved to a buffer above")
            }
        }
    }
}

impl fmt::Debug for Packet {
    /// Shows the payload's length only: its content may be secret, and up to 8 MiB.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet")
            .field("header", &self.header)
            .field("payload_bytes", &self.payload().len())
            .field("is_shared", &self.is_shared())
            .finish_non_exhaustive()
    }
}

impl From<Adu> for Packet {
    fn from(adu: Adu) -> Self {
        Self::shared(adu.header, adu.payload)
    }
}

impl Window {
    fn of_len(len_bytes: usize, pool: &Pool) -> Result<Self, NoRoom> {
        Ok(Self {
            buffer: pool.take(len_bytes)?,
            start: PACKET_HEADROOM_BYTES,
            end: PACKET_HEADROOM_BYTES + len_bytes,
        })
    }

    /// Returns a copy of `payload` with at least this much room at both ends, instead of the usual
    /// room if more.
    fn moved(payload: &[u8], front: usize, back: usize, pool: &Pool) -> Result<Self, NoRoom> {
        // Room within the usual must not require a larger class, so that the longest payload can
        // still be sealed.
        let spare_front = front.saturating_sub(PACKET_HEADROOM_BYTES);
        let spare_back = back.saturating_sub(PACKET_TAILROOM_BYTES);
        let spare = spare_front.saturating_add(spare_back);
        let mut window = Self::of_len(payload.len().saturating_add(spare), pool)?;
        window.start += spare_front;
        window.end -= spare_back;
        window.as_mut().copy_from_slice(payload);
        Ok(window)
    }

    fn has_room(&self, front: usize, back: usize) -> bool {
        front <= self.start && back <= self.buffer.as_ref().len() - self.end
    }

    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut()[self.start..self.end]
    }
}

impl AsRef<[u8]> for Window {
    fn as_ref(&self) -> &[u8] {
        &self.buffer.as_ref()[self.start..self.end]
    }
}
