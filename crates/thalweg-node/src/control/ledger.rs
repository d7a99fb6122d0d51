//! The ledger of a stream published here, as status.

use thalweg_base::id::StreamId;
use thalweg_control::control::Controller;
use thalweg_control::ledger::{Loss, Reading};

use super::log::hop;
use crate::status::{LedgerStatus, LossStatus};

/// Returns the ledger of a stream published here.
pub(super) fn ledger_status(controller: &Controller, stream: StreamId) -> Option<LedgerStatus> {
    Some(ledger_of(controller, &controller.reading(stream)?))
}

/// Returns a ledger with the names of the nodes in it.
pub(super) fn ledger_of(controller: &Controller, reading: &Reading) -> LedgerStatus {
    let loss = |loss: &Loss| LossStatus {
        hop: hop(controller, loss.node),
        cause: loss.cause.name(),
        importance: [
            *loss.band.importances().start(),
            *loss.band.importances().end(),
        ],
        adus: loss.adus,
    };
    LedgerStatus {
        published: reading.given,
        delivered: reading.delivered,
        pending: reading.open(),
        losses: reading.losses.iter().map(loss).collect(),
    }
}
