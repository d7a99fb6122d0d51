//! The bytes of an input that belong to no message yet, with their place in the input.

use bytes::{Bytes, BytesMut};

use super::{Cut, Fault};

/// Bytes that wait for the rest of their message.
#[derive(Debug, Default)]
pub struct Tape {
    bytes: BytesMut,
    /// Where the first of them stands in the input.
    offset: u64,
    /// How many of them were searched without success.
    searched: usize,
    /// Whether the input has ended.
    has_ended: bool,
}

impl Tape {
    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Notes that no more bytes come.
    pub const fn handle_end(&mut self) {
        self.has_ended = true;
    }

    /// Returns whether the input has ended.
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns the bytes that wait.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns where the first of them stands in the input.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes so many bytes from the front.
    ///
    /// Fails   panics if there are fewer
    pub fn take(&mut self, count: usize) -> Bytes {
        self.offset += count as u64;
        self.searched = 0;
        self.bytes.split_to(count).freeze()
    }

    /// Takes all bytes.
    pub fn take_all(&mut self) -> Bytes {
        self.take(self.bytes.len())
    }

    /// Returns the place of the first `wanted`; bytes that were searched are not searched again.
    pub fn find(&mut self, wanted: u8) -> Option<usize> {
        let tail = &self.bytes[self.searched..];
        let found = tail.iter().position(|byte| *byte == wanted);
        let found = found.map(|at| self.searched + at);
        self.searched = found.unwrap_or(self.bytes.len());
        found
    }

    /// Takes what is left once the input has ended, as a fault.
    pub fn half(&mut self, what: &'static str) -> Option<Cut> {
        let (offset, bytes) = (self.offset, self.bytes.len());
        if bytes == 0 || !self.has_ended {
            return None;
        }
        self.take_all();
        let fate = "dropped";
        Some(Err(Fault::Half {
            what,
            offset,
            bytes,
            fate,
        }))
    }
}
