//! What becomes of one ADU in the mailboxes of its stream, counted once for all of them.
//!
//! *The idea.* Every mailbox that has the ADU holds the same [`Delivery`], and says what became of it there. When the last has let
//! go of it, the worst of that is counted: an ADU that one of two subscribers missed is not delivered. The source of a stream is to
//! hear soon that its ADUs come through, so an ADU that may wait for long counts as delivered when it is in the mailboxes.
//!
//! *What it does not do.* It drops nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use thalweg_core::adu::Header;
use thalweg_core::event::DropCause;
use thalweg_core::mailbox::{Coming, Refusal};
use thalweg_core::time::{Duration, Instant};

use crate::forward::{Account, Route, StreamCounts};

/// An ADU that may wait for a subscriber longer than this is counted when it is in the mailboxes: a source that hears nothing of its
/// ADUs for 5 s takes a node of the path for one that withholds them.
const COUNT_AFTER_MAX: Duration = Duration::from_secs(3);

/// One ADU in the mailboxes of its stream.
#[derive(Debug)]
pub(crate) struct Delivery {
    header: Header,
    counts: Arc<StreamCounts>,
    account: Arc<Account>,
    worst: AtomicU8,
    is_counted: AtomicBool,
}

/// What became of an ADU in one mailbox: of several, the last of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// Nobody wants it.
    Unwanted,
    /// It is older than what its subscriber began with.
    BeforeFirst,
    /// The subscriber is given it.
    Given,
    /// Its place in the sequence had passed, or its deadline before the subscriber took it.
    Late,
    /// There was no room.
    Overflow,
}

impl Fate {
    const ALL: [Self; 5] = [
        Self::Unwanted,
        Self::BeforeFirst,
        Self::Given,
        Self::Late,
        Self::Overflow,
    ];

    pub(super) const fn of_drop(cause: DropCause) -> Self {
        match cause {
            DropCause::Expired => Self::Late,
            _ => Self::Overflow,
        }
    }

    const fn result(self) -> Result<(), DropCause> {
        match self {
            Self::Given => Ok(()),
            Self::BeforeFirst | Self::Late => Err(DropCause::Expired),
            Self::Overflow => Err(DropCause::Overflow),
            Self::Unwanted => Err(DropCause::Cancelled),
        }
    }
}

impl From<Refusal> for Fate {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => Self::Overflow,
            Refusal::Out(Coming::InTime | Coming::Twice) => Self::Given,
            Refusal::Out(Coming::BeforeFirst) => Self::BeforeFirst,
            Refusal::Out(Coming::Late) => Self::Late,
        }
    }
}

impl Delivery {
    pub(crate) fn new(route: &Route, header: Header) -> Arc<Self> {
        Self::counted(
            header,
            Arc::clone(&route.counts),
            Arc::clone(&route.account),
        )
    }

    /// Returns one that is counted there.
    pub(crate) fn counted(
        header: Header,
        counts: Arc<StreamCounts>,
        account: Arc<Account>,
    ) -> Arc<Self> {
        Arc::new(Self {
            header,
            counts,
            account,
            worst: AtomicU8::new(Fate::Unwanted as u8),
            is_counted: AtomicBool::new(false),
        })
    }

    /// Takes in what became of it in one mailbox.
    pub(super) fn note(&self, fate: Fate) {
        self.worst.fetch_max(fate as u8, Relaxed);
    }

    /// Counts it now, as given where it waits, if it may wait for long.
    pub(super) fn count_if_lasting(&self, is_in: bool, now: Instant) {
        if is_in && self.header.deadline > now + COUNT_AFTER_MAX {
            self.note(Fate::Given);
            self.count();
        }
    }

    fn count(&self) {
        if self.is_counted.swap(true, Relaxed) {
            return;
        }
        match Fate::ALL[usize::from(self.worst.load(Relaxed))].result() {
            Ok(()) => {
                self.counts.delivered();
                self.account.delivered(&self.header);
            }
            Err(cause) => {
                self.counts.dropped(cause);
                self.account.dropped(&self.header, cause);
            }
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.count();
    }
}
