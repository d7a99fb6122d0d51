//! The traffic counters of a session and its TCP connections.
//!
//! *What it does not do.* It measures nothing: each connection counts what it writes and reads, and
//! the kernel its segments.

use std::net::SocketAddr;

use thalweg_base::time::Duration;
use thalweg_base::units::DataSize;

/// Traffic of a session's TCP connections, including those that are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Bytes written to sockets: TLS and framing included, TCP headers and retransmissions not.
    pub sent: DataSize,
    /// Bytes read from them.
    pub received: DataSize,
    /// Segments with data that were sent, by the kernel's count; zero where it reports none.
    pub segments: u64,
    /// Retransmitted segments among them, except spurious retransmissions.
    pub segments_lost: u64,
    /// Smoothed round-trip time of the active connection: the kernel's, or that of the peer's
    /// acknowledgements.
    pub rtt: Duration,
    /// Congestion window of the active connection; zero where the kernel does not report it.
    pub window: DataSize,
    /// The present connections, in the order of their numbers.
    pub lines: Vec<LineTraffic>,
}

/// One TCP connection of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineTraffic {
    /// Its far end, if the system still knows it.
    pub remote: Option<SocketAddr>,
    /// Whether it carries the streams.
    pub is_active: bool,
    /// Its smoothed round-trip time, as the kernel measures it.
    pub rtt: Duration,
    /// Bytes written to it.
    pub sent: DataSize,
    /// Bytes read from it.
    pub received: DataSize,
}
