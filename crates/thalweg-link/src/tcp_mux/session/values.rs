//! The inputs and outputs of a session.
//!
//! *The idea.* Plain values, so that a driver and a test can compare them.

use alloc::string::String;
use core::fmt;

use bytes::Bytes;
use thalweg_base::wire::WireError;

use crate::hop::{CloseCode, StreamCode};
use crate::tcp_mux::frame::StreamNumber;

/// One TCP connection of a session, numbered by the end that dials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CarrierNumber(pub u64);

/// The source of a carrier's credit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// The kernel's state: [`crate::tcp_mux::PaceK`].
    #[default]
    Kernel,
    /// The peer's reports: [`crate::tcp_mux::PaceA`].
    Acked,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// All bytes were taken.
    All,
    /// The link has no more room; [`Event::Room`] follows.
    Blocked,
    /// The stream has no more room; [`Event::Writable`] follows.
    StreamBlocked,
    /// The peer stopped the stream.
    Stopped(StreamCode),
    /// The session or the stream is over.
    Lost,
}

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The next bytes.
    Bytes(Bytes),
    /// No bytes yet; [`Event::Readable`] follows.
    Blocked,
    /// The stream has ended and is removed.
    Finished,
    /// The sender reset the stream, and it is removed.
    Reset(StreamCode),
    /// There is no such stream, or it is over.
    Unknown,
}

/// Why a datagram was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// It exceeds the size limit.
    #[error("the datagram has {bytes} bytes, above the limit of {limit}")]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
        /// The largest size in bytes.
        limit: usize,
    },
    /// The queue is full.
    #[error("the datagram queue is full")]
    Full,
    /// The session is over.
    #[error("the link was lost")]
    Lost,
}

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer opened a stream.
    Opened(StreamNumber),
    /// An arriving stream has something to read: bytes, its end, or its reset.
    Readable(StreamNumber),
    /// A datagram has arrived.
    Datagram,
    /// A blocked stream has room again.
    Writable(StreamNumber),
    /// The link has room, or the peer admits another stream.
    Room,
    /// The peer has every byte of a finished stream.
    Acknowledged(StreamNumber),
    /// The peer stopped a stream; it is reset.
    Stopped(StreamNumber, StreamCode),
    /// Another carrier is active; connections with lower numbers are to be closed.
    FailedOver {
        /// The carrier that failed.
        from: CarrierNumber,
        /// The carrier that is active now.
        to: CarrierNumber,
    },
    /// The peer ended the session.
    Closed {
        /// The reason as a number.
        code: CloseCode,
        /// The reason in words.
        reason: String,
    },
    /// Nothing arrived from the peer for too long.
    Lost,
}

/// The counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Fail-overs to another carrier.
    pub failovers: u64,
    /// Stalls without a fail-over, for want of a standby or because the last one was too recent.
    pub stalls_held: u64,
    /// Stream bytes to be resent over another carrier.
    pub resent_bytes: u64,
    /// Stream bytes that arrived again.
    pub duplicate_bytes: u64,
    /// Datagrams in flight on a carrier that failed: they may have arrived or not.
    pub datagrams_lost: u64,
    /// Datagrams that arrived and were dropped for want of room.
    pub datagrams_dropped: u64,
}

/// How the peer violated the protocol; the session is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Bytes that form no frame.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A second greeting.
    #[error("unexpected greeting on an established connection")]
    Greeting,
    /// A stream opened out of order.
    #[error("{stream} was opened, but stream {expected} is next")]
    Order {
        /// The stream.
        stream: StreamNumber,
        /// The number that was due.
        expected: u64,
    },
    /// A frame about a stream that was never opened.
    #[error("{0} was never opened")]
    NeverOpened(StreamNumber),
    /// A limit was exceeded.
    #[error("{what} reaches {value}, above the granted limit of {limit}")]
    AboveLimit {
        /// The limited quantity.
        what: &'static str,
        /// The value that the peer reached.
        value: u64,
        /// The advertised limit.
        limit: u64,
    },
    /// Bytes after a gap, which an ordered connection cannot produce.
    #[error("{stream} continues at {offset}, but bytes from {expected} on are missing")]
    Gap {
        /// The stream.
        stream: StreamNumber,
        /// The offset of the bytes.
        offset: u64,
        /// The offset up to which bytes have arrived.
        expected: u64,
    },
    /// A stream with two different ends.
    #[error("{0} ends at two different offsets")]
    TwoEnds(StreamNumber),
    /// An acknowledgement of bytes never sent.
    #[error("{position} bytes are acknowledged, but only {sent} were sent")]
    NeverSent {
        /// The acknowledged position.
        position: u64,
        /// The bytes sent.
        sent: u64,
    },
}

impl fmt::Display for CarrierNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "carrier {}", self.0)
    }
}
