//! Why something did not come to its end: a payload, a link.

use alloc::string::String;

use super::{CloseCode, StreamCode};
use crate::event::DropCause;
use crate::limits::ARRIVING_BYTES_MAX;

/// The rest of an ADU does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The sender gave it up.
    #[error("the sender gave the ADU up: {0}")]
    Reset(StreamCode),
    /// Its deadline passed while it was still arriving.
    #[error("the deadline passed while the ADU was still arriving")]
    Expired,
    /// The stream ended before the payload did.
    #[error("the stream ended {missing} bytes before the payload did")]
    Truncated {
        /// How many bytes.
        missing: usize,
    },
    /// Too much is gathered already of ADUs whose ends do not come.
    #[error("{} KiB of ADUs that are not whole are here already", ARRIVING_BYTES_MAX.as_bytes() >> 10)]
    Overflow,
    /// The connection is gone.
    #[error("the link was lost")]
    LinkLost,
}

impl BodyError {
    /// Returns the cause under which the drop is accounted.
    pub const fn drop_cause(self) -> DropCause {
        match self {
            Self::Expired | Self::Reset(StreamCode::Expired) => DropCause::Expired,
            Self::Reset(_) => DropCause::Cancelled,
            Self::Truncated { .. } => DropCause::Malformed,
            Self::Overflow => DropCause::Overflow,
            Self::LinkLost => DropCause::PathLost,
        }
    }
}

/// Why a link ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DownCause {
    /// The peer closed it.
    #[error("closed by the peer: {code}: {reason}")]
    ByPeer {
        /// Why, as a number.
        code: CloseCode,
        /// Why, in words.
        reason: String,
    },
    /// This end closed it.
    #[error("closed by this node")]
    ByUs,
    /// Nothing came from the peer for too long.
    #[error("nothing was heard from the peer for too long")]
    TimedOut,
    /// The peer does not know the connection: it has been restarted.
    #[error("the peer was restarted")]
    Restarted,
    /// Another connection with the same peer took its place.
    #[error("another connection with the same peer took its place")]
    Replaced,
    /// Full packets vanished and small ones passed, so this end closed it.
    #[error(
        "packets of 1,200 bytes, which QUIC needs, do not pass any more, smaller ones do: raise the MTU of the path, or give both \
         nodes a `tcp:` address"
    )]
    Narrow,
    /// Anything else that the QUIC stack says.
    #[error("{0}")]
    Other(String),
}
