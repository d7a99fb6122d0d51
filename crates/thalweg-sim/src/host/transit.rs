//! An ADU that was handed to a link, and what the link's outcome means here.

use thalweg_base::adu::{Header, Mark};
use thalweg_base::event::DropCause;
use thalweg_control::ledger::{Band, Counts};
use thalweg_link::hop::{Outcome, StreamCode};

use crate::fate::Copy;
use crate::transport::RecvId;

/// An ADU that was handed to a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transit {
    pub(super) copy: Option<Copy>,
    /// The header as sent.
    pub(super) header: Header,
    /// The mark with which the ADU arrived.
    pub(super) incoming_mark: Mark,
    pub(super) is_ordered: bool,
    /// The reception that feeds it, if it is forwarded while it arrives.
    pub(super) via: Option<(usize, RecvId)>,
    /// The rest of it did not come.
    pub(super) is_void: bool,
}

/// What a link's outcome for an ADU means for its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It left: the next node accounts for it.
    Left,
    /// It ended here.
    Failed(DropCause),
}

impl Ended {
    pub(super) const fn of(outcome: Outcome) -> Self {
        let cause = match outcome {
            Outcome::Refused(StreamCode::UnknownStream | StreamCode::Expired) => {
                outcome.drop_cause()
            }
            // The node that refused the ADU accounts for it.
            Outcome::Refused(_) => None,
            _ => outcome.drop_cause(),
        };
        match cause {
            None => Self::Left,
            Some(cause) => Self::Failed(cause),
        }
    }

    pub(super) fn count(self, counts: &mut Counts, mark: Mark, band: Band) {
        match self {
            Self::Left => counts.leave(mark, band),
            Self::Failed(cause) => counts.fail(mark, band, cause),
        }
    }
}
