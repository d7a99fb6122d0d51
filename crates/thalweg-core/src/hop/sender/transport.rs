//! What a sender needs of the connection below it.
//!
//! *The idea.* Nothing here waits. What cannot be done now is said so, and whoever drives the [`Sender`](super::Sender)
//! calls it again when the transport says that more can be done.
//!
//! *What it does not do.* It does not say how a connection is made, or what arrives on it.

use bytes::Bytes;

use super::Owner;
use crate::hop::StreamCode;
use crate::time::Duration;
use crate::units::{Bitrate, DataSize};

/// One connection, as its sender sees it.
pub trait Transport {
    /// Names an open stream.
    type Stream: Copy + core::fmt::Debug;

    /// Opens a stream whose bytes go before those of a lower rank; none while the peer admits no more.
    ///
    /// What becomes of the stream is told under its owner's name.
    fn open(&mut self, owner: Owner, rank: i32) -> Option<Self::Stream>;

    /// Takes the bytes of these pieces behind those before, as many as it can.
    fn write(&mut self, stream: Self::Stream, pieces: &mut [Bytes]) -> Written;

    /// Says that nothing follows on a stream; what becomes of it is told to its owner.
    fn finish(&mut self, stream: Self::Stream);

    /// Gives up a stream: what is unsent of it is not sent, and nothing more is told of it.
    fn reset(&mut self, stream: Self::Stream, code: StreamCode);

    /// Forgets a stream that has ended at the other end.
    fn forget(&mut self, stream: Self::Stream);

    /// Returns how large a datagram can be now; zero if none can be sent.
    fn datagram_bytes_max(&mut self) -> usize;

    /// Sends a datagram.
    fn send_datagram(&mut self, datagram: Bytes) -> Datagram;

    /// Returns how much may be handed over now ([`outbox::gate`](crate::outbox::gate)).
    fn credit(&mut self) -> DataSize;

    /// Returns how often the peer has acknowledged anything.
    fn heard(&self) -> u64;

    /// Lets one packet more go than may be in flight, until the peer acknowledges something; a transport that probes at even
    /// intervals itself has no need of it.
    fn let_one_through(&mut self);

    /// Returns what is known of the path's rate.
    fn path_rate(&self) -> PathRate;
}

/// What a transport says of a stream by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The peer has all of it; it was finished.
    Acknowledged,
    /// The peer wants no more of it.
    Stopped(StreamCode),
    /// Nobody read it, and it took nothing; now it takes more.
    Writable,
}

/// What is known of the rate of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathRate {
    /// The estimate of what it can send now, if there is one.
    pub sendable: Option<Bitrate>,
    /// How long a byte is on its way at least: half of the shortest round trip of late.
    pub transit: Duration,
    /// The largest packet of a transport that packs what it is given; zero where packets are none of ours.
    pub packet: DataSize,
    /// Whether the path has ever been found full: until then the estimate says how much was tried, not how much it can.
    pub has_been_full: bool,
}

/// How far a writing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// So many bytes were taken, one at least; if not all, the next writing says why.
    Some(usize),
    /// None can be taken now, on no stream.
    Blocked,
    /// None can be taken now on this stream, for its reader does not read.
    StreamBlocked,
    /// The peer wants no more of it.
    Stopped(StreamCode),
    /// The connection has ended.
    Lost,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// It is on its way.
    Sent,
    /// There is no room now.
    Blocked,
    /// The path carries no datagram of this size any more.
    TooLarge,
    /// The connection has ended.
    Lost,
}
