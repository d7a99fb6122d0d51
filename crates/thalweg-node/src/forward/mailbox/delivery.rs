//! The outcome of one ADU over all mailboxes of its stream, counted once.
//!
//! *The idea.* Each mailbox that has the ADU holds the same [`Delivery`] and records its outcome
//! there. When the last mailbox lets go, the worst outcome is counted: an ADU that one of two
//! subscribers missed is not delivered. The source must learn soon that its ADUs arrive, so an ADU
//! that may wait long counts as delivered once it is in the mailboxes.
//!
//! *What it does not do.* It drops nothing.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use thalweg_base::adu::Header;
use thalweg_base::event::DropCause;
use thalweg_base::time::{Duration, Instant};
use thalweg_dataplane::mailbox::{Coming, Refusal};

use super::memory::{Held, SharedMemory};
use crate::forward::drops::{DropLog, Place};

/// An ADU that may wait longer than this for a subscriber is counted as soon as it is in the
/// mailboxes. A source that gets no counts for 5 s suspects a node of the path of withholding ADUs.
const COUNT_AFTER_MAX: Duration = Duration::from_secs(3);

/// Learns what became of the ADUs that were put into mailboxes.
pub(crate) trait Delivered: fmt::Debug + Send + Sync {
    /// Handles that an ADU was delivered, or dropped for this cause. A mailbox's lock may be held.
    fn handle_delivered(&self, header: &Header, ended: Result<(), DropCause>);

    /// Returns where drops of the stream are recorded.
    fn drops(&self) -> &Arc<DropLog>;
}

/// One ADU in the mailboxes of its stream.
#[derive(Debug)]
pub(crate) struct Delivery {
    header: Header,
    by: Arc<dyn Delivered>,
    worst: AtomicU8,
    is_counted: AtomicBool,
    /// What its payload takes while it is in a mailbox, once for all of them.
    held: OnceLock<Held>,
}

/// The outcome of an ADU in one mailbox, from best to worst; over several mailboxes the worst
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MailboxOutcome {
    /// No mailbox wanted it.
    Unwanted,
    /// It is older than the subscriber's first ADU.
    BeforeFirst,
    /// The subscriber took it.
    Given,
    /// It came after its place in the sequence was skipped, or expired before the subscriber took
    /// it.
    Late,
    /// The mailbox was full of what is more important.
    Outranked,
    /// The mailbox was full.
    Overflow,
}

impl MailboxOutcome {
    const ALL: [Self; 6] = [
        Self::Unwanted,
        Self::BeforeFirst,
        Self::Given,
        Self::Late,
        Self::Outranked,
        Self::Overflow,
    ];

    pub(super) const fn of_drop(cause: DropCause) -> Self {
        match cause {
            // The subscriber wants only the newest.
            DropCause::Cancelled => Self::Unwanted,
            DropCause::Expired => Self::Late,
            DropCause::Preempted => Self::Outranked,
            _ => Self::Overflow,
        }
    }

    const fn result(self) -> Result<(), DropCause> {
        match self {
            Self::Given => Ok(()),
            Self::BeforeFirst | Self::Late => Err(DropCause::Expired),
            Self::Outranked => Err(DropCause::Preempted),
            Self::Overflow => Err(DropCause::Overflow),
            Self::Unwanted => Err(DropCause::Cancelled),
        }
    }
}

impl From<Refusal> for MailboxOutcome {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => Self::Overflow,
            Refusal::Outranked => Self::Outranked,
            Refusal::Superseded => Self::Unwanted,
            Refusal::Out(Coming::InTime | Coming::Twice) => Self::Given,
            Refusal::Out(Coming::BeforeFirst) => Self::BeforeFirst,
            Refusal::Out(Coming::Late) => Self::Late,
        }
    }
}

impl Delivery {
    /// Returns a delivery that reports its end.
    pub(crate) fn new(header: Header, by: Arc<dyn Delivered>) -> Arc<Self> {
        Arc::new(Self {
            header,
            by,
            worst: AtomicU8::new(MailboxOutcome::Unwanted as u8),
            is_counted: AtomicBool::new(false),
            held: OnceLock::new(),
        })
    }

    /// Returns where drops of the stream are recorded.
    pub(super) fn drops(&self) -> &Arc<DropLog> {
        self.by.drops()
    }

    /// Records that the mailbox of a subscriber drops the ADU.
    pub(super) fn drop_at(&self, subscriber: &Arc<str>, cause: DropCause, now: Instant) {
        let place = Place::Mailbox(Arc::clone(subscriber));
        self.by.drops().record(&self.header, place, cause, now);
    }

    /// Records the outcome in one mailbox.
    pub(super) fn record(&self, outcome: MailboxOutcome) {
        self.worst.fetch_max(outcome as u8, Relaxed);
    }

    /// Records that the payload is in a mailbox.
    pub(super) fn hold(&self, payload_bytes: usize, memory: &Arc<SharedMemory>) {
        self.held.get_or_init(|| memory.hold(payload_bytes as u64));
    }

    /// Counts the ADU as delivered now if it is in a mailbox and may wait there for long.
    pub(super) fn count_if_long_wait(&self, is_queued: bool, now: Instant) {
        if is_queued && self.header.deadline > now + COUNT_AFTER_MAX {
            self.record(MailboxOutcome::Given);
            self.count();
        }
    }

    fn count(&self) {
        if self.is_counted.swap(true, Relaxed) {
            return;
        }
        let worst = MailboxOutcome::ALL[usize::from(self.worst.load(Relaxed))];
        self.by.handle_delivered(&self.header, worst.result());
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.count();
    }
}
