//! One hop: how an ADU travels over it, what became of it, and why a connection or a stream on it ended.
//!
//! *The idea.* The link on real QUIC and the virtual one say the same words, so that who decides above them need not
//! know which it has. Nothing is dropped silently: every ADU that is handed to a link ends in exactly one [`Outcome`].
//!
//! *What it does not do.* It carries nothing: `thalweg-net` and `thalweg-sim` do.
//!
//! *Sources.* docs/protocol.md §2.3, §2.4.

mod code;
mod end;
pub mod rank;
pub mod settings;

pub use code::{CloseCode, StreamCode};
pub use end::{BodyError, DownCause};

use crate::event::DropCause;
use crate::id::{Epoch, StreamId};

/// The first byte of a stream of control frames.
pub const KIND_CONTROL: u8 = 0;
/// The first byte of a stream of one ADU.
pub const KIND_ADU: u8 = 1;
/// The first byte of a stream of ADUs in order.
pub const KIND_ORDERED: u8 = 2;

/// How an ADU travels over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// On a stream of its own: sent again until acknowledged or expired, overtaken by what has a higher priority.
    Stream,
    /// In one datagram, sent once. An ADU that does not fit one goes by [`Carriage::Stream`].
    ///
    /// A datagram is one buffer, so header and payload are copied into it; and it must be whole before it is sent. A
    /// peer whose receive buffer is full drops it, and neither end is told.
    Datagram,
    /// On one long stream with all others of the same id: reliable and in order.
    ///
    /// An arriving payload is gathered (not copied) before its first byte is sent, so that an upstream that gives up
    /// half-way does not break the stream for those after it. The priority is that of the first ADU.
    Ordered(OrderedId),
}

/// Names one ordered sequence of ADUs on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderedId {
    /// The stream whose ADUs these are.
    pub stream: StreamId,
    /// The plan that put them on this link.
    pub epoch: Epoch,
}

/// How one ADU is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendOptions {
    /// By stream, datagram or in order.
    pub carriage: Carriage,
    /// Higher goes first, also before the rest of an ADU that is half sent; equal ones in the order in which they were
    /// sent, an ordered sequence last. Datagrams go before every stream.
    pub priority: u8,
}

/// What became of an ADU on one hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The peer has every byte.
    Acknowledged,
    /// Handed to QUIC, which will not say more: a datagram, or one of an ordered sequence.
    ///
    /// For a sequence, finishing it says whether all of it has arrived.
    Departed,
    /// The deadline passed before the peer had every byte; what was unsent is not sent.
    Expired,
    /// Whoever it was coming from gave it up, so we did too.
    Cancelled,
    /// The peer did not want it.
    Refused(StreamCode),
    /// Too many are in flight on this link already, and its deadline forbids to wait.
    Overflow,
    /// The connection ended first, or was ending already.
    LinkLost,
    /// The payload is above `limits::ADU_PAYLOAD_BYTES_MAX`.
    TooLarge,
}

impl Outcome {
    /// Every kind, in the order of [`Outcome::index`].
    pub const NAMES: [&'static str; 8] = [
        "acknowledged",
        "departed",
        "expired",
        "cancelled",
        "refused",
        "overflow",
        "link-lost",
        "too-large",
    ];

    /// Returns the kind's place in [`Outcome::NAMES`].
    pub const fn index(self) -> usize {
        match self {
            Self::Acknowledged => 0,
            Self::Departed => 1,
            Self::Expired => 2,
            Self::Cancelled => 3,
            Self::Refused(_) => 4,
            Self::Overflow => 5,
            Self::LinkLost => 6,
            Self::TooLarge => 7,
        }
    }

    /// Returns the kind's name, for logs and counters.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }

    /// Returns the cause under which a drop is accounted; `None` if the ADU went on its way.
    pub const fn drop_cause(self) -> Option<DropCause> {
        match self {
            Self::Acknowledged | Self::Departed | Self::Refused(StreamCode::Whole) => None,
            Self::Expired | Self::Refused(StreamCode::Expired) => Some(DropCause::Expired),
            // The bound of a payload is a bound like any other.
            Self::Overflow | Self::TooLarge | Self::Refused(StreamCode::Overload) => {
                Some(DropCause::Overflow)
            }
            Self::Refused(StreamCode::Protocol) => Some(DropCause::Malformed),
            Self::Cancelled | Self::Refused(_) => Some(DropCause::Cancelled),
            Self::LinkLost => Some(DropCause::PathLost),
        }
    }

    /// Returns whether the ADU went on its way as asked.
    pub const fn is_sent(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Departed)
    }
}
