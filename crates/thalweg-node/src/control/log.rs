//! What the control plane notes, written to the log: a decision at debug, a state an operator cares about at info.

use thalweg_core::control::{Controller, Note};
use tracing::{debug, info, warn};

/// Writes down a note, with names where there are keys.
pub(super) fn log(controller: &Controller, note: Note) {
    match note {
        Note::FrameRefused { .. }
        | Note::RecordRefused { .. }
        | Note::RecordForged { .. }
        | Note::RecordBorrows { .. }
        | Note::EnvelopeAstray { .. }
        | Note::EnvelopeForged { .. }
        | Note::EnvelopeRefused { .. } => log_refusal(&note),
        Note::Published { stream } => info!(%stream, "published"),
        Note::Unpublished { stream } => info!(%stream, "unpublished"),
        Note::NoPlan { sink, reason } => {
            debug!(sink = %controller.name_of(sink), %reason, "no plan");
        }
        Note::KeyNotSealed { node, error } => {
            warn!(node = %node.short(), %error, "key not sealed");
        }
        Note::PlanInForce { sink, epoch } => {
            info!(sink = %controller.name_of(sink), epoch = epoch.0, "plan in force");
        }
        Note::DeploymentFailed {
            sink,
            epoch,
            reason,
        } => {
            warn!(sink = %controller.name_of(sink), epoch = epoch.0, %reason, "deployment failed; planning again");
        }
        Note::SinkGone { sink } => info!(sink = %controller.name_of(sink), "subscriber gone"),
        Note::Subscribed { stream } => info!(%stream, "subscribed"),
        Note::PartInstalled {
            stream,
            epoch,
            adapters,
        } => {
            info!(
                %stream,
                epoch = epoch.0,
                adapters = %adapters.join(" "),
                "part of a plan installed"
            );
        }
        Note::PartExpired { stream, epoch } => {
            debug!(%stream, epoch = epoch.0, "route expired without renewal");
        }
        note => debug!(?note, "noted"),
    }
}

/// Writes down what a peer got wrong.
fn log_refusal(note: &Note) {
    match note {
        Note::FrameRefused { from, error } => {
            debug!(peer = %from.short(), %error, "control frame refused");
        }
        Note::RecordRefused { from, error } => {
            debug!(peer = %from.short(), %error, "record refused");
        }
        Note::RecordForged { from, node } => {
            debug!(peer = %from.short(), node = %node.short(), "record with a bad signature");
        }
        Note::RecordBorrows { node, stream } => {
            debug!(node = %node.short(), %stream, "record announces a stream that is not its own");
        }
        Note::EnvelopeAstray { from } => {
            debug!(peer = %from.short(), "envelope off its route");
        }
        Note::EnvelopeForged { sender } => {
            debug!(sender = %sender.short(), "envelope with a bad signature");
        }
        Note::EnvelopeRefused { sender, error } => {
            debug!(sender = %sender.short(), %error, "envelope refused");
        }
        note => debug!(?note, "noted"),
    }
}
