//! The memory that a link takes.
//!
//! *The idea.* What a link takes at rest (connection, keys, timers, tasks, its buffers, and the state of
//! what is forwarded over it) is much the same for all links of a transport, and measured by FAN-OUT and
//! COME-UP as a relay's growth per sink. What comes on top is counted: payload in its outbox, in flight
//! below that, and gathered of ADUs that are not whole.
//!
//! *What it does not do.* It does not count the kernel's buffers of sockets. A payload that waits in
//! several outboxes counts in each, though it is in memory once: a node takes less than the sum.

use thalweg_base::limits::{LINK_REST_QUIC_BYTES, LINK_REST_TCP_BYTES};
use thalweg_base::units::DataSize;

use super::{Link, Transport};

/// The memory that a link takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// At rest, as measured once per transport.
    pub rest: DataSize,
    /// Payload in its outbox.
    pub queued: DataSize,
    /// Bytes below the outbox that are not acknowledged; zero over TCP, where the kernel has them.
    pub in_flight: DataSize,
    /// Payload gathered of ADUs that are not whole.
    pub arriving: DataSize,
}

impl Footprint {
    pub(super) fn of(link: &Link) -> Self {
        let reading = link.0.outgoing.reading();
        Self {
            rest: match link.transport() {
                // Over the engine the iroh connection stands by.
                Transport::Quic | Transport::Engine => LINK_REST_QUIC_BYTES,
                Transport::Tcp => LINK_REST_TCP_BYTES,
            },
            queued: link.waiting(),
            in_flight: reading.map_or(DataSize::ZERO, |reading| reading.in_flight),
            arriving: link.0.gathering.bytes(),
        }
    }

    /// Returns all of it.
    pub fn total(&self) -> DataSize {
        self.rest + self.queued + self.in_flight + self.arriving
    }
}
