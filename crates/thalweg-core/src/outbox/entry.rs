//! What goes into an outbox and what comes out: values without behaviour.

use core::ops::Range;

use crate::adu::{Header, Importance};
use crate::event::DropCause;
use crate::id::Sequence;
use crate::time::{Duration, Instant};
use crate::units::DataSize;

/// What the outbox knows of an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// How much it matters within its flow.
    pub importance: Importance,
    /// When it is of no use any more, on this node's clock.
    pub deadline: Instant,
    /// Its place in its flow.
    pub sequence: Sequence,
    /// How many bytes it has.
    pub bytes: usize,
    /// How many of them are here; more are announced by [`Outbox::handle_available`](super::Outbox::handle_available).
    pub available_bytes: usize,
    /// The ADU of the same flow that it cannot be used without.
    pub depends_on: Option<Sequence>,
}

/// Names an ADU in an outbox, until it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// Names a flow of an outbox, until it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// A piece of an ADU that is to be handed to the transport now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Of which ADU.
    pub ticket: Ticket,
    /// Of which flow.
    pub flow: FlowId,
    /// Which of its bytes; none of an empty ADU.
    pub range: Range<usize>,
    /// Whether nothing of the ADU was handed over before.
    pub is_first: bool,
    /// Whether nothing follows: the ADU stays known until [`Outbox::finish`](super::Outbox::finish).
    pub is_last: bool,
}

/// An ADU that goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Which; the ticket is void now.
    pub ticket: Ticket,
    /// Of which flow; it may be closed already.
    pub flow: FlowId,
    /// Its place there.
    pub sequence: Sequence,
    /// How much it mattered.
    pub importance: Importance,
    /// Why.
    pub cause: DropCause,
    /// Whether some of it had been handed over, so that the transport has to abort it.
    pub has_begun: bool,
}

/// An ADU was not taken into an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// There is no such flow (any more).
    #[error("the flow is closed")]
    UnknownFlow,
    /// It came too late.
    #[error("the deadline passed {late} ago")]
    Expired {
        /// How much too late.
        late: Duration,
    },
    /// It would be late even if nothing else was sent.
    #[error("{size} do not fit on the path before the deadline, {carried} do")]
    Oversized {
        /// What was to be sent.
        size: DataSize,
        /// What the path carries until the deadline.
        carried: DataSize,
    },
    /// What it depends on is lost.
    #[error("sequence {} on which it depends is lost", base.0)]
    Dependant {
        /// What it depends on.
        base: Sequence,
    },
    /// There is no room and nothing matters less.
    #[error("{adus} ADUs of {queued} are queued, and none of them is worth less")]
    Overflow {
        /// How many ADUs have not ended.
        adus: usize,
        /// What is queued of them.
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

    /// Returns the entry of an ADU of which nothing but the header is here.
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
    /// Returns a small number that no other ADU has until this one has ended: a place in an array.
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

impl FlowId {
    /// Returns a small number that no other flow has until this one is closed: a place in an array.
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
