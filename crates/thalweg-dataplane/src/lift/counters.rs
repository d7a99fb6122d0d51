//! The counters of modules: plain integers, since a lift has one owner.

use thalweg_base::event::DropCounts;

use crate::packet::Packet;

/// The counters of one module in one direction.
///
/// `packets_in − packets_out − dropped − packets_held` is the number of packets merged (positive)
/// or split (negative).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that entered.
    pub packets_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Payload bytes that entered.
    pub bytes_in: u64,
    /// Payload bytes that left; divided by `bytes_in`, a packer's measured ratio.
    pub bytes_out: u64,
    /// Packets held now.
    pub packets_held: usize,
    /// Packets dropped, by cause.
    pub dropped: DropCounts,
}

impl Counters {
    #[inline]
    pub(super) fn count_in(&mut self, packet: &Packet) {
        self.packets_in += 1;
        self.bytes_in += packet.payload().len() as u64;
    }

    #[inline]
    pub(super) fn count_out(&mut self, packet: &Packet) {
        self.packets_out += 1;
        self.bytes_out += packet.payload().len() as u64;
    }
}
