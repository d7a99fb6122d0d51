//! The UDP port as the loop uses it: the kernel's (`socket`), or one in memory (`bare`).

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;

use bytes::BytesMut;
use noq_proto::{EcnCodepoint, FourTuple, Transmit};

/// A bound port.
pub(super) trait Udp {
    /// Returns the address that it is bound to.
    fn local(&self) -> io::Result<SocketAddr>;

    /// Returns how many packets fit one buffer to send.
    fn segments(&self) -> NonZeroUsize;

    /// Passes one batch of datagrams to `sink`; returns whether there may be more.
    fn receive(&mut self, pool: &mut BytesMut, sink: impl FnMut(Datagram)) -> bool;

    /// Sends one buffer.
    fn send(&mut self, transmit: &Transmit, contents: &[u8]) -> Sent;
}

/// A datagram, where it came from, and its mark.
pub(super) type Datagram = (FourTuple, Option<EcnCodepoint>, BytesMut);

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Yes,
    /// The system's buffer is full.
    Full,
    /// The packet cannot be sent, which QUIC takes for a loss.
    Lost,
}
