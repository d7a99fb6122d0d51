//! Why a connection or a stream ended, as numbers on the wire.
//!
//! *The idea.* A number for programs, with a sentence for people. Connections and streams have
//! separate number spaces, as in QUIC. An unknown number is kept and printed and never an error,
//! for a newer peer may know more.
//!
//! *What it does not do.* It closes nothing.
//!
//! *Sources.* docs/reference/protocol.md §2; RFC 9000 §19.4, §19.5, §19.19.

use core::fmt;

use thalweg_base::event::DropCause;

/// Why a whole connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseCode {
    /// 1: the peer does not admit this key.
    NotAdmitted,
    /// 2: the peer broke the protocol.
    Protocol,
    /// 3: the peer speaks another version.
    Version,
    /// 4: the node shuts down.
    Shutdown,
    /// 5: another connection between the same two nodes is kept.
    Duplicate,
    /// 6: the node has no capacity for another link.
    Overload,
    /// 7: an internal error of the node on this link.
    Fault,
    /// 8: the path does not carry packets of the size that QUIC needs.
    Narrow,
    /// Any other number.
    Other(u64),
}

/// Why one stream was reset by its sender or stopped by its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamCode {
    /// 0: the receiver has every byte and needs no end of the stream; not a failure.
    Whole,
    /// 1: the ADU's deadline has passed.
    Expired,
    /// 2: the sender or the receiving program cancelled it.
    Cancelled,
    /// 3: the ADU's stream is unknown here.
    UnknownStream,
    /// 4: no capacity.
    Overload,
    /// 5: the bytes violate docs/reference/protocol.md.
    Protocol,
    /// Any other number.
    Other(u64),
}

impl CloseCode {
    /// Returns the code of a number.
    pub const fn from_number(number: u64) -> Self {
        match number {
            1 => Self::NotAdmitted,
            2 => Self::Protocol,
            3 => Self::Version,
            4 => Self::Shutdown,
            5 => Self::Duplicate,
            6 => Self::Overload,
            7 => Self::Fault,
            8 => Self::Narrow,
            other => Self::Other(other),
        }
    }

    /// Returns the number of a code.
    pub const fn number(self) -> u64 {
        match self {
            Self::NotAdmitted => 1,
            Self::Protocol => 2,
            Self::Version => 3,
            Self::Shutdown => 4,
            Self::Duplicate => 5,
            Self::Overload => 6,
            Self::Fault => 7,
            Self::Narrow => 8,
            Self::Other(other) => other,
        }
    }
}

impl StreamCode {
    /// Returns the code for the sender of an ADU that is dropped here for this cause; it says whether
    /// the neighbour was at fault.
    pub const fn of_drop(cause: DropCause) -> Self {
        match cause {
            DropCause::Filtered | DropCause::Expired => Self::Whole,
            DropCause::PathLost => Self::Cancelled,
            _ => Self::Protocol,
        }
    }

    /// Returns the code of a number.
    pub const fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Whole,
            1 => Self::Expired,
            2 => Self::Cancelled,
            3 => Self::UnknownStream,
            4 => Self::Overload,
            5 => Self::Protocol,
            other => Self::Other(other),
        }
    }

    /// Returns the number of a code.
    pub const fn number(self) -> u64 {
        match self {
            Self::Whole => 0,
            Self::Expired => 1,
            Self::Cancelled => 2,
            Self::UnknownStream => 3,
            Self::Overload => 4,
            Self::Protocol => 5,
            Self::Other(other) => other,
        }
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAdmitted => f.write_str("not admitted"),
            Self::Protocol => f.write_str("protocol violation"),
            Self::Version => f.write_str("another protocol version"),
            Self::Shutdown => f.write_str("node shut down"),
            Self::Duplicate => f.write_str("duplicate connection"),
            Self::Overload => f.write_str("no room"),
            Self::Fault => f.write_str("node failed"),
            Self::Narrow => f.write_str("path too small"),
            Self::Other(number) => write!(f, "close code {number}"),
        }
    }
}

impl fmt::Display for StreamCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("whole"),
            Self::Expired => f.write_str("expired"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::UnknownStream => f.write_str("unknown stream"),
            Self::Overload => f.write_str("no room"),
            Self::Protocol => f.write_str("protocol violation"),
            Self::Other(number) => write!(f, "stream code {number}"),
        }
    }
}
