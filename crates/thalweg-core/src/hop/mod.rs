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
pub mod lag;
pub mod narrow;
mod pieces;
pub mod rank;
pub mod sender;
pub mod settings;
pub mod steady;

pub use code::{CloseCode, StreamCode};
pub use end::{BodyError, DownCause};
pub use pieces::Pieces;

use core::num::NonZeroU8;

use crate::adu::Header;
use crate::event::DropCause;
use crate::id::{Epoch, StreamId};
use crate::needs::Order;
use crate::outbox::WEIGHT_USUAL;

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
    /// In which order the ADUs of its stream go; what travels in order goes first in, first out in any case.
    pub order: Order,
    /// The share of the link that its stream has under this plan.
    pub weight: NonZeroU8,
}

impl SendOptions {
    /// Returns the options of an ADU that goes by importance, with the usual share.
    pub const fn new(carriage: Carriage) -> Self {
        Self {
            carriage,
            order: Order::Importance,
            weight: WEIGHT_USUAL,
        }
    }

    /// Returns the priority of what QUIC has of an ADU and has not sent.
    const fn priority(&self, header: &Header) -> u8 {
        match self.order {
            Order::Importance => header.importance.0,
            Order::Sequence => u8::MAX / 2,
        }
    }
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
    /// The outbox is full, and it holds nothing that is worth less.
    Overflow,
    /// The connection ended first, or was ending already.
    LinkLost,
    /// The payload is above `limits::ADU_PAYLOAD_BYTES_MAX`.
    TooLarge,
    /// The outbox was full, and something worth more came.
    Preempted,
    /// What it depends on was not sent.
    Dependant,
    /// It has more bytes than the path carries until its deadline.
    Oversized,
}

impl Outcome {
    /// Every kind, in the order of [`Outcome::index`].
    pub const NAMES: [&'static str; 11] = [
        "acknowledged",
        "departed",
        "expired",
        "cancelled",
        "refused",
        "overflow",
        "link-lost",
        "too-large",
        "pre-empted",
        "dependant",
        "oversized",
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
            Self::Preempted => 8,
            Self::Dependant => 9,
            Self::Oversized => 10,
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
            Self::Preempted => Some(DropCause::Preempted),
            Self::Dependant => Some(DropCause::Dependant),
            Self::Oversized => Some(DropCause::Oversized),
        }
    }

    /// Returns what an ADU ends as that the outbox gave up for this cause.
    pub const fn dropped(cause: DropCause) -> Self {
        match cause {
            DropCause::Expired => Self::Expired,
            DropCause::Overflow => Self::Overflow,
            DropCause::PathLost => Self::LinkLost,
            DropCause::Preempted => Self::Preempted,
            DropCause::Dependant => Self::Dependant,
            DropCause::Oversized => Self::Oversized,
            _ => Self::Cancelled,
        }
    }

    /// Returns whether the ADU went on its way as asked.
    pub const fn is_sent(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Departed)
    }
}
