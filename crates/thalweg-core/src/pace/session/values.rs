//! What goes into a session and comes out of it.
//!
//! *The idea.* Plain values, so that a driver and a test can compare them.

use core::fmt;

use bytes::Bytes;

use crate::hop::{CloseCode, StreamCode};
use crate::wire::WireError;

use crate::pace::frame::StreamNumber;

use alloc::string::String;

/// One TCP connection of a session, numbered by who dials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CarrierNumber(pub u64);

/// Who says how much may be handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// The kernel: [`crate::pace::PaceK`].
    #[default]
    Kernel,
    /// The peer: [`crate::pace::PaceA`].
    Acked,
}

/// What became of bytes handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// All were taken.
    All,
    /// The link has no room for more; [`Event::Room`] follows.
    Blocked,
    /// This stream has none; [`Event::Writable`] follows.
    StreamBlocked,
    /// The peer wants no more of this stream.
    Stopped(StreamCode),
    /// The session is over, or the stream is.
    Lost,
}

/// What reading a stream gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The next bytes.
    Bytes(Bytes),
    /// None yet; [`Event::Readable`] follows.
    Blocked,
    /// There are no more; the stream is forgotten.
    Finished,
    /// The sender gave up; the stream is forgotten.
    Reset(StreamCode),
    /// There is no such stream, or it is over.
    Unknown,
}

/// A datagram was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// It is larger than a datagram may be.
    #[error("the datagram has {bytes} bytes, above the limit of {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// What may be sent.
        limit: usize,
    },
    /// Those before it have not left.
    #[error("too many datagrams wait to be sent")]
    Full,
    /// The session is over.
    #[error("the link was lost")]
    Lost,
}

/// Something has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A stream arrives.
    Opened(StreamNumber),
    /// An arriving stream has something to read: bytes, its end, or its reset.
    Readable(StreamNumber),
    /// A datagram has arrived.
    Datagram,
    /// A stream that had no room has some.
    Writable(StreamNumber),
    /// The link has room, or the peer admits another stream.
    Room,
    /// The peer has every byte of a finished stream.
    Acknowledged(StreamNumber),
    /// The peer wants no more of a stream; it has been reset.
    Stopped(StreamNumber, StreamCode),
    /// Another carrier is the active one; connections of lower numbers are to be cut.
    FailedOver {
        /// The one that failed.
        from: CarrierNumber,
        /// The one that is used now.
        to: CarrierNumber,
    },
    /// The peer ended the session.
    Closed {
        /// Why, as a number.
        code: CloseCode,
        /// Why, in words.
        reason: String,
    },
    /// Nothing came from the peer for too long.
    Lost,
}

/// What has happened on a session so far, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// How often another carrier became the active one.
    pub failovers: u64,
    /// Stalls that had to be sat out, for want of a standby or because the last fail-over was too recent.
    pub stalls_held: u64,
    /// Bytes of streams that were to be sent again over another carrier.
    pub resent_bytes: u64,
    /// Bytes of streams that had arrived before.
    pub duplicate_bytes: u64,
    /// Datagrams that were under way on a carrier that failed: they may have arrived, or not.
    pub datagrams_lost: u64,
    /// Datagrams that arrived and found no room.
    pub datagrams_dropped: u64,
}

/// The peer broke the protocol; the session is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Bytes that are no frame.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A second greeting.
    #[error("a greeting in the middle of a connection")]
    Greeting,
    /// A stream opened out of its order.
    #[error("{stream} was opened where stream {expected} is due")]
    Order {
        /// Which.
        stream: StreamNumber,
        /// Which was to be opened.
        expected: u64,
    },
    /// A frame about a stream that was never opened.
    #[error("{0} was never opened")]
    NeverOpened(StreamNumber),
    /// More than was allowed.
    #[error("{what} reaches {value}, above the limit of {limit} that was granted")]
    AboveLimit {
        /// Of what.
        what: &'static str,
        /// What the peer sent.
        value: u64,
        /// What it was told.
        limit: u64,
    },
    /// Bytes with a gap before them, which a line in order does not make.
    #[error("{stream} goes on at {offset}, and bytes from {expected} on are missing")]
    Gap {
        /// Of which stream.
        stream: StreamNumber,
        /// Where the bytes stand.
        offset: u64,
        /// What has arrived.
        expected: u64,
    },
    /// A stream that ends at two places.
    #[error("{0} has two ends")]
    TwoEnds(StreamNumber),
    /// An acknowledgement of what was never sent.
    #[error("{position} bytes are acknowledged, and {sent} were sent")]
    NeverSent {
        /// What the peer says.
        position: u64,
        /// What is true.
        sent: u64,
    },
}

impl fmt::Display for CarrierNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "carrier {}", self.0)
    }
}
