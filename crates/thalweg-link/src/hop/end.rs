//! Why a payload or a link ended early.

use alloc::string::String;

use thalweg_base::event::DropCause;
use thalweg_base::limits::ARRIVING_BYTES_MAX;

use super::{CloseCode, StreamCode};

/// Why the rest of an ADU does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The sender cancelled it.
    #[error("the sender cancelled the ADU: {0}")]
    Reset(StreamCode),
    /// Its deadline passed while it was still arriving.
    #[error("the deadline passed while the ADU was still arriving")]
    Expired,
    /// The stream ended before the payload did.
    #[error("the stream ended {missing} bytes before the payload did")]
    Truncated {
        /// Missing bytes.
        missing: usize,
    },
    /// The node already gathers too much of incomplete ADUs.
    #[error("{} KiB of incomplete ADUs are buffered already", ARRIVING_BYTES_MAX.as_bytes() >> 10)]
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
        /// The reason as a number.
        code: CloseCode,
        /// The reason in words.
        reason: String,
    },
    /// This end closed it.
    #[error("closed by this node")]
    ByUs,
    /// Nothing arrived from the peer for too long.
    #[error("the peer was silent for too long")]
    TimedOut,
    /// The peer does not know the connection: it was restarted.
    #[error("the peer was restarted")]
    Restarted,
    /// Another connection with the same peer replaced it.
    #[error("another connection with the same peer took its place")]
    Replaced,
    /// Full packets were lost while small ones passed, so this end closed it.
    #[error(
        "packets of 1,200 bytes, which QUIC needs, no longer pass, but smaller ones do: raise the MTU of the \
         path, or give both nodes a `tcp:` address"
    )]
    Narrow,
    /// Any other error of the QUIC stack.
    #[error("{0}")]
    Other(String),
}
