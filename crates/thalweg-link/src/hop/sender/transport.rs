//! What a sender needs of the connection below it.
//!
//! *The idea.* Nothing here blocks. A call that cannot proceed says so, and the driver of the
//! [`Sender`](super::Sender) pumps it again when the transport can take more.
//!
//! *What it does not do.* It does not define how a connection is made, or what arrives on it.

use bytes::Bytes;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};

use super::Owner;
use crate::hop::StreamCode;

/// One connection, as its sender sees it.
pub trait Transport {
    /// A handle of an open stream.
    type Stream: Copy + core::fmt::Debug;

    /// Opens a stream that has precedence over streams of lower rank; `None` while the peer admits
    /// no more.
    ///
    /// Events of the stream are reported under its owner.
    fn open(&mut self, owner: Owner, rank: i32) -> Option<Self::Stream>;

    /// Writes bytes from the front of these pieces, as many as it can take.
    fn write(&mut self, stream: Self::Stream, pieces: &mut [Bytes]) -> Written;

    /// Finishes a stream; its end is reported under its owner.
    fn finish(&mut self, stream: Self::Stream);

    /// Resets a stream: unsent bytes are dropped, and nothing more is reported of it.
    fn reset(&mut self, stream: Self::Stream, code: StreamCode);

    /// Releases a stream that has ended at the peer.
    fn forget(&mut self, stream: Self::Stream);

    /// Returns the largest datagram that can be sent now, in bytes; zero if none can.
    fn datagram_bytes_max(&mut self) -> usize;

    /// Sends a datagram.
    fn send_datagram(&mut self, datagram: Bytes) -> Datagram;

    /// Returns how much may be handed over now ([`outbox::gate`](crate::outbox::gate)).
    fn credit(&mut self) -> DataSize;

    /// Returns a count that grows whenever the peer acknowledges something.
    fn heard(&self) -> u64;

    /// Lets one packet go beyond the window, until the peer acknowledges something. A transport
    /// that probes at even intervals itself may do nothing.
    fn let_one_through(&mut self);

    /// Returns what is known of the path's rate.
    fn path_rate(&self) -> PathRate;
}

/// What a transport reports of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The peer has all of the finished stream.
    Acknowledged,
    /// The peer stopped the stream.
    Stopped(StreamCode),
    /// The stream was blocked by its reader, and takes bytes again.
    Writable,
}

/// What is known of the rate of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathRate {
    /// The estimate of the rate that can be sent now, if there is one.
    pub sendable: Option<Bitrate>,
    /// Minimum one-way delay: half of the shortest recent round trip.
    pub transit: Duration,
    /// Packet size of a transport that fills packets from what it is given; zero where packets do
    /// not matter.
    pub packet: DataSize,
    /// Whether the path was ever full: until then the estimate shows how much was tried, and not
    /// how much it carries.
    pub has_been_full: bool,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The number of bytes taken, at least one; if not all, the next write says why.
    Some(usize),
    /// The connection takes no bytes now, on any stream.
    Blocked,
    /// This stream takes no bytes now, for its reader does not read.
    StreamBlocked,
    /// The peer stopped the stream.
    Stopped(StreamCode),
    /// The connection has ended.
    Lost,
}

/// The result of sending a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// It was handed over.
    Sent,
    /// There is no room now.
    Blocked,
    /// The path no longer carries a datagram of this size.
    TooLarge,
    /// The connection has ended.
    Lost,
}
