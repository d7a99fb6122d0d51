//! How much may wait in a mailbox, and what happens to an ADU without room.
//!
//! *What it does not do.* It holds nothing: the mailbox asks.

use thalweg_base::adu::{Flags, Header};
use thalweg_base::limits::{MAILBOX_ADUS_MAX, MAILBOX_BYTES_MAX};
use thalweg_base::mailbox::{Depth, MailboxOptions, Policy};
use thalweg_base::needs::Reliability;
use thalweg_base::time::Duration;

/// A subscriber's wishes, resolved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    policy: Option<Policy>,
    /// The bounds: ADUs, payload bytes, and the time within which all that waits arrived.
    pub(super) adus: usize,
    pub(super) bytes: u64,
    pub(super) span: Duration,
    /// Whether the subscriber chose them.
    has_depth: bool,
}

/// What happens to an ADU without room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutRoom {
    /// It is accepted all the same.
    Accept,
    /// It is refused.
    Refuse,
    /// What would leave first makes room.
    DropFirst,
    /// The least important makes room.
    DropLeast,
}

impl Rules {
    pub(super) fn new(options: &MailboxOptions) -> Self {
        let (mut adus, mut bytes) = (MAILBOX_ADUS_MAX, MAILBOX_BYTES_MAX.as_bytes());
        let mut span = Duration::NEVER;
        match options.depth {
            Some(Depth::Adus(most)) => adus = most.clamp(1, adus),
            Some(Depth::Bytes(most)) => bytes = most.as_bytes().min(bytes),
            Some(Depth::Time(most)) => span = most,
            None => {}
        }
        Self {
            policy: options.policy,
            adus,
            bytes,
            span,
            has_depth: options.depth.is_some(),
        }
    }

    /// Returns whether only the newest ADU waits.
    pub(super) fn is_newest(&self) -> bool {
        self.policy == Some(Policy::Newest)
    }

    /// Returns whether the least important ADU makes room.
    pub(super) fn is_ranked(&self) -> bool {
        self.policy == Some(Policy::ByImportance)
    }

    /// Returns whether a full mailbox may block its stream.
    pub(super) const fn may_block(&self) -> bool {
        matches!(self.policy, None | Some(Policy::Wait))
    }

    /// Returns whether a gap is given up when all that the subscriber wants to wait is behind it: else
    /// it would lose what it could have by now.
    pub(super) const fn gives_up_gaps(&self) -> bool {
        self.has_depth && !self.may_block()
    }

    /// Returns what happens to an ADU of a stream with this reliability when there is no room.
    pub(super) fn without_room(&self, header: &Header, reliability: Reliability) -> WithoutRoom {
        if header.flags.contains(Flags::END) {
            return WithoutRoom::Accept;
        }
        let is_promised = must_deliver(header, reliability);
        match self.policy {
            None | Some(Policy::Wait) if is_promised => WithoutRoom::Accept,
            None if header.deadline.is_never() => WithoutRoom::DropFirst,
            None | Some(Policy::Wait | Policy::DropNew) => WithoutRoom::Refuse,
            Some(Policy::DropOld | Policy::Newest) => WithoutRoom::DropFirst,
            Some(Policy::ByImportance) => WithoutRoom::DropLeast,
        }
    }
}

/// Returns whether the source keeps the ADU until this sink has it.
pub(super) fn is_kept(header: &Header, reliability: Reliability) -> bool {
    match reliability {
        Reliability::Full => true,
        Reliability::UntilDeadline => header.deadline.is_never(),
        Reliability::None | Reliability::Repaired => false,
    }
}

/// Returns whether an ADU must be delivered however late: its stream is slowed down rather than lose it.
pub(super) fn must_deliver(header: &Header, reliability: Reliability) -> bool {
    let is_promised = header.deadline.is_never() && reliability.is_sent_again();
    is_promised || reliability.is_ordered() || header.flags.contains(Flags::END)
}
