//! What a session has moved, in numbers, and how its TCP connections are.
//!
//! *What it does not do.* It measures nothing: each connection counts what it writes and reads, and the kernel its segments.

use std::net::SocketAddr;

use thalweg_core::time::Duration;
use thalweg_core::units::DataSize;

/// What has gone over the TCP connections of a session, those that are gone included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Bytes written to sockets: ciphers and frames included, what TCP itself adds or repeats not.
    pub sent: DataSize,
    /// Bytes read from them.
    pub received: DataSize,
    /// Segments with data that were sent, as the kernel counts; none where it does not say.
    pub segments: u64,
    /// How many of them repeated what had not come.
    pub segments_lost: u64,
    /// The smoothed round trip of the connection in use: the kernel's, or else that of the peer's words.
    pub rtt: Duration,
    /// The congestion window of the connection in use; zero where the kernel does not say.
    pub window: DataSize,
    /// The connections that there are, in the order of their numbers.
    pub lines: Vec<LineTraffic>,
}

/// One TCP connection of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineTraffic {
    /// Where it goes, if the system still knows.
    pub remote: Option<SocketAddr>,
    /// Whether streams take it.
    pub is_active: bool,
    /// Its smoothed round trip, as the kernel measures it.
    pub rtt: Duration,
    /// Bytes written to it.
    pub sent: DataSize,
    /// Bytes read from it.
    pub received: DataSize,
}
