//! What the machine asks of its driver.

use core::num::NonZeroU8;

use bytes::Bytes;
use thalweg_base::adu::{Adu, Header};
use thalweg_base::event::DropCause;
use thalweg_base::id::NodeId;
use thalweg_base::needs::{Order, Reliability};

use crate::route::Carriage;

/// The number of an ADU that is handed to a link; its outcome is reported under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendNumber(pub(super) u64);

impl SendNumber {
    /// Returns the number as a driver hands it through a link.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the number that a driver was given back by a link.
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }
}

/// How an ADU goes to the next node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The number under which its outcome is reported.
    pub number: SendNumber,
    /// The next node; the link to it was up.
    pub to: NodeId,
    /// The header as sent.
    pub header: Header,
    /// The size of its payload, in bytes.
    pub payload_bytes: usize,
    /// The carriage that the stream's needs ask for.
    pub carriage: Carriage,
    /// The order of the stream's ADUs on the link.
    pub order: Order,
    /// The stream's share of a full link.
    pub weight: NonZeroU8,
}

/// Why an arriving ADU is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its plan is not installed here: the node before accounts for it.
    Unknown,
    /// Its plan leads from another node to here; it is counted nowhere.
    Stranger,
    /// It is dropped and accounted for here.
    Dropped(DropCause),
}

/// Where in a node an ADU was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At its plan's part: by a module, or because of its layer.
    Part,
    /// On the way to the next link.
    Way,
    /// At its sink, before any subscriber.
    Sink,
}

/// A step that the driver carries out; `R` is the driver's name of a reception.
#[derive(Debug)]
pub enum Action<R> {
    /// Collect the reception's payload and report it whole.
    Gather(R),
    /// Send the reception on while it arrives.
    Pass(R, Dispatch),
    /// Append these bytes to an ADU that is passed.
    Chunk(SendNumber, Bytes),
    /// Send an ADU.
    Send(Dispatch, Bytes),
    /// Read nothing more of the reception.
    Hold(R),
    /// Read on.
    Resume(R),
    /// Refuse the rest of the reception. It is forgotten.
    Refuse(R, Header, Refusal),
    /// Cancel an ADU that was handed to a link, for this cause; its outcome is still reported.
    Cancel(SendNumber, DropCause),
    /// Put an ADU into the mailboxes of its stream, and report what became of it.
    Deliver(Adu, Reliability),
    /// An ADU is dropped and counted; nothing is left to be done.
    Drop(Header, DropCause, Place),
    /// The ADU with this header is repeated for a plan whose sink begins with what is kept; what
    /// becomes of it follows.
    Replay(Header),
}
