//! The inputs and outputs of an outbox: values without behaviour.

use core::ops::Range;

use thalweg_base::adu::{Header, Importance};
use thalweg_base::event::DropCause;
use thalweg_base::id::Sequence;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;

/// What the outbox knows of an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its importance within its flow.
    pub importance: Importance,
    /// When it expires, on this node's clock.
    pub deadline: Instant,
    /// Its sequence number in its flow.
    pub sequence: Sequence,
    /// Its length in bytes.
    pub bytes: usize,
    /// Bytes that have arrived; [`Outbox::handle_available`](super::Outbox::handle_available)
    /// reports more.
    pub available_bytes: usize,
    /// The ADU of the same flow without which it is useless.
    pub depends_on: Option<Sequence>,
}

/// Identifies an ADU in an outbox, until it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// Identifies a flow of an outbox, until it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// A piece of an ADU, to be handed to the transport now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The ADU.
    pub ticket: Ticket,
    /// The flow.
    pub flow: FlowId,
    /// The byte range in the ADU; empty for an empty ADU.
    pub range: Range<usize>,
    /// Whether nothing of the ADU was handed over before.
    pub is_first: bool,
    /// Whether nothing follows; the ADU stays pending until [`Outbox::finish`](super::Outbox::finish).
    pub is_last: bool,
}

/// A dropped ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The ADU; its ticket is void now.
    pub ticket: Ticket,
    /// The flow; it may be closed already.
    pub flow: FlowId,
    /// Its sequence number in the flow.
    pub sequence: Sequence,
    /// Its importance.
    pub importance: Importance,
    /// The cause.
    pub cause: DropCause,
    /// Whether part of it was handed over, so that the transport must reset it.
    pub has_begun: bool,
}

/// Why an ADU was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The flow does not exist, or no longer.
    #[error("the flow is closed")]
    UnknownFlow,
    /// It came after its deadline.
    #[error("the deadline passed {late} ago")]
    Expired {
        /// By how much.
        late: Duration,
    },
    /// It would be late even if nothing else was sent.
    #[error("the path carries {carried} before the deadline, not {size}")]
    Oversized {
        /// Its size.
        size: DataSize,
        /// What the path carries before the deadline.
        carried: DataSize,
    },
    /// The ADU on which it depends is lost.
    #[error("sequence {}, on which it depends, is lost", base.0)]
    Dependant {
        /// The ADU on which it depends.
        base: Sequence,
    },
    /// There is no room, and nothing of lower value.
    #[error("{adus} ADUs of {queued} are queued, and none has a lower value")]
    Overflow {
        /// Pending ADUs.
        adus: usize,
        /// Bytes queued of them.
        queued: DataSize,
    },
}

impl Entry {
    /// Returns the entry of a whole ADU.
    pub fn whole(header: &Header, bytes: usize) -> Self {
        Self {
            available_bytes: bytes,
            ..Self::arriving(header, bytes)
        }
    }

    /// Returns the entry of an ADU of which only the header has arrived.
    pub fn arriving(header: &Header, bytes: usize) -> Self {
        let base = match header.depends_on {
            0 => None,
            back => header.sequence.0.checked_sub(u64::from(back)),
        };
        Self {
            importance: header.importance,
            deadline: header.deadline,
            sequence: header.sequence,
            bytes,
            available_bytes: 0,
            depends_on: base.map(Sequence),
        }
    }
}

impl Ticket {
    /// Returns a small number, unique among pending ADUs: an array index.
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

impl FlowId {
    /// Returns a small number, unique among open flows: an array index.
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

impl Refused {
    /// Returns the cause under which the drop is accounted.
    pub const fn drop_cause(&self) -> DropCause {
        match self {
            Self::UnknownFlow => DropCause::Cancelled,
            Self::Expired { .. } => DropCause::Expired,
            Self::Oversized { .. } => DropCause::Oversized,
            Self::Dependant { .. } => DropCause::Dependant,
            Self::Overflow { .. } => DropCause::Overflow,
        }
    }
}
