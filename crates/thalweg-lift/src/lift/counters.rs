//! What went through a module: plain numbers, for a lift has one owner.

use thalweg_core::event::DropCounts;

use crate::packet::Packet;

/// What went through one module in one direction.
///
/// `packets_in − packets_out − dropped − packets_held` is what modules merged (positive) or split (negative).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came to it.
    pub packets_in: u64,
    /// Packets that went on from it.
    pub packets_out: u64,
    /// Payload bytes that came to it.
    pub bytes_in: u64,
    /// Payload bytes that went on from it; over `bytes_in` this is a packer's measured ratio.
    pub bytes_out: u64,
    /// Packets that it holds now.
    pub packets_held: usize,
    /// Packets that went no further, by cause.
    pub dropped: DropCounts,
}

impl Counters {
    #[inline]
    pub(super) fn note_in(&mut self, packet: &Packet) {
        self.packets_in += 1;
        self.bytes_in += packet.payload().len() as u64;
    }

    #[inline]
    pub(super) fn note_out(&mut self, packet: &Packet) {
        self.packets_out += 1;
        self.bytes_out += packet.payload().len() as u64;
    }
}
