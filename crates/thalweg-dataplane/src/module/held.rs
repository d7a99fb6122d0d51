//! The packets that a module keeps for later: a bounded queue.

use std::collections::VecDeque;

use crate::packet::Packet;

/// Maximum number of packets held by one module in one direction: the layers of a group of
/// pictures, or an FEC block.
pub const HELD_PACKETS_MAX: usize = 256;

/// The packets that a module holds, oldest first.
#[derive(Debug, Default)]
pub struct Held {
    packets: VecDeque<Packet>,
}

impl Held {
    /// Keeps a packet, or returns it if [`HELD_PACKETS_MAX`] are kept already.
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.packets.len() < HELD_PACKETS_MAX {
            self.packets.push_back(packet);
            Ok(())
        } else {
            Err(packet)
        }
    }

    /// Takes the oldest packet.
    pub fn pop(&mut self) -> Option<Packet> {
        self.packets.pop_front()
    }

    /// Returns how many are kept.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the packets, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter()
    }
}
