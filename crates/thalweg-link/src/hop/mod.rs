//! One hop: how an ADU travels over a link, what became of it, and why a connection or stream on it
//! ended.
//!
//! *The idea.* The link on real QUIC and the virtual one use the same types, so the layers above
//! need not know which of them they have. Nothing is dropped silently: every ADU that is handed to
//! a link ends in exactly one [`Outcome`].
//!
//! *What it does not do.* It carries nothing: `thalweg-net` and `thalweg-sim` do.
//!
//! *Sources.* docs/reference/protocol.md §2.3, §2.4.

mod code;
mod end;
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

use thalweg_base::adu::Header;
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::needs::Order;

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
    /// On a stream of its own: retransmitted until acknowledged or expired; ADUs of higher priority
    /// overtake it.
    Stream,
    /// In one datagram, sent once. An ADU that does not fit one goes by [`Carriage::Stream`].
    ///
    /// A datagram is one buffer, so header and payload are copied into it, and the ADU must be
    /// whole before it is sent. A peer with a full receive buffer drops the datagram, and neither
    /// end is notified.
    Datagram,
    /// On one long stream with all others of the same id: reliable and in order.
    ///
    /// A payload that still arrives is gathered (not copied) before its first byte is sent, so that
    /// an upstream that gives up half-way leaves the stream intact for the ADUs behind it. The
    /// priority is that of the first ADU.
    Ordered(OrderedId),
}

/// Identifies one ordered sequence of ADUs on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderedId {
    /// The stream that the ADUs belong to.
    pub stream: StreamId,
    /// The plan that put them on this link.
    pub epoch: Epoch,
}

/// How one ADU is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendOptions {
    /// By stream, by datagram or in order.
    pub carriage: Carriage,
    /// The order among the ADUs of one stream; an ordered sequence goes first in, first out in any case.
    pub order: Order,
    /// The weight of its stream on the link under this plan.
    pub weight: NonZeroU8,
}

impl SendOptions {
    /// Returns the options of an ADU that goes by importance, with the usual weight.
    pub const fn new(carriage: Carriage) -> Self {
        Self {
            carriage,
            order: Order::Importance,
            weight: WEIGHT_USUAL,
        }
    }

    /// Returns the priority, within QUIC, of bytes handed over and not yet sent.
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
    /// Handed to QUIC, which reports nothing more: a datagram, or an ADU of an ordered sequence.
    ///
    /// For a sequence, finishing it shows whether all of it has arrived.
    Departed,
    /// The deadline passed before the peer had every byte; unsent bytes are not sent.
    Expired,
    /// The upstream or the sending program cancelled it.
    Cancelled,
    /// The peer refused it.
    Refused(StreamCode),
    /// The outbox is full and holds nothing of lower value.
    Overflow,
    /// The connection ended first, or was closing already.
    LinkLost,
    /// The payload is above `limits::ADU_PAYLOAD_BYTES_MAX`.
    TooLarge,
    /// The outbox was full, and an ADU of higher value came.
    Preempted,
    /// An ADU on which it depends was not sent.
    Dependant,
    /// It has more bytes than the path carries before its deadline.
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

    /// Returns the kind's index in [`Outcome::NAMES`].
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

    /// Returns the cause under which the drop is accounted; `None` if the ADU was delivered or sent.
    pub const fn drop_cause(self) -> Option<DropCause> {
        match self {
            Self::Acknowledged | Self::Departed | Self::Refused(StreamCode::Whole) => None,
            Self::Expired | Self::Refused(StreamCode::Expired) => Some(DropCause::Expired),
            // The payload limit is a bound like any other.
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

    /// Returns the cause under which this node accounts for the ADU; `None` if it left, or if the
    /// next node accounts for it.
    pub const fn accounted_cause(self) -> Option<DropCause> {
        match self {
            // A node that does not know the plan cannot account for its ADUs, and a deadline
            // expires here first.
            Self::Refused(StreamCode::UnknownStream | StreamCode::Expired) => self.drop_cause(),
            // The node that refuses an ADU accounts for it.
            Self::Refused(_) => None,
            _ => self.drop_cause(),
        }
    }

    /// Returns the outcome of an ADU that the outbox dropped for this cause.
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

    /// Returns whether the ADU was sent as asked.
    pub const fn is_sent(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Departed)
    }
}
