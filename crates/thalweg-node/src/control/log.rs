//! What the control plane notes, written to the log: a decision at debug, a state an operator cares about at info.

use thalweg_core::control::{Controller, Note};
use thalweg_core::id::{NodeId, StreamName};
use thalweg_core::ledger::Reading;
use tracing::{debug, info, warn};

/// Writes down a note, with names where there are keys.
pub(super) fn log(controller: &Controller, note: Note) {
    match note {
        Note::Losing { stream, loss } => {
            info!(
                %stream,
                hop = %hop(controller, loss.node),
                cause = %loss.cause,
                importance = ?loss.band.importances(),
                adus = loss.adus,
                "losing ADUs"
            );
        }
        Note::Published { stream } => info!(%stream, "published"),
        Note::Draining { stream } => {
            info!(%stream, "publisher gone; what it gave is still carried");
        }
        Note::Unpublished { stream } => info!(%stream, "unpublished"),
        Note::NoPlan { sink, reason } => {
            debug!(sink = %controller.name_of(sink), %reason, "no plan");
        }
        Note::TooSlow { sink, reason } => {
            info!(sink = %controller.name_of(sink), %reason, "by a way that is too slow");
        }
        Note::Rekeyed { stream, key_epoch } => {
            info!(%stream, key_epoch, "another key: a node that had the key before may not have it any more");
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
        Note::Resending { stream, to } => {
            info!(%stream, epoch = to.0, "sending again what is not acknowledged");
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
        note => log_node(controller, note),
    }
}

/// Writes down a note on another node.
fn log_node(controller: &Controller, note: Note) {
    match note {
        Note::Doubtful { peer } => {
            debug!(peer = %controller.name_of(peer), "neighbour is late to answer; making other ways ready");
        }
        Note::Silent { peer } => {
            info!(peer = %controller.name_of(peer), "neighbour does not answer");
        }
        Note::ProducerSilent { stream, producer } => {
            info!(%stream, producer = %controller.name_of(producer), "its producer does not answer; turning to another");
        }
        Note::Withholding { nodes, end } => {
            let nodes: Vec<String> = nodes.iter().map(|node| controller.name_of(*node)).collect();
            warn!(nodes = %nodes.join(", "), end = %controller.name_of(end), "what goes that way does not come through, or not all of it; keeping away");
        }
        Note::Leaving { node } => {
            info!(node = %controller.name_of(node), "leaving; planning around it");
        }
        Note::Enrolled { node, rights } => {
            info!(node = %controller.name_of(node), %rights, "belongs to the fabric");
        }
        Note::Expelled { node } => {
            info!(node = %controller.name_of(node), "belongs to the fabric no more");
        }
        note => debug!(?note, "noted"),
    }
}

/// Writes down what became of a stream that is over.
pub(super) fn log_closed(controller: &Controller, stream: &StreamName, reading: &Reading) {
    let (given, delivered, lost) = (reading.given, reading.delivered, reading.lost());
    info!(%stream, given, delivered, lost, open = reading.open(), "stream over");
    for loss in &reading.losses {
        debug!(
            %stream,
            hop = %hop(controller, loss.node),
            cause = %loss.cause,
            importance = ?loss.band.importances(),
            adus = loss.adus,
            "lost"
        );
    }
}

/// Returns the name of the node where ADUs ended.
pub(super) fn hop(controller: &Controller, node: Option<NodeId>) -> String {
    node.map_or_else(|| "elsewhere".into(), |node| controller.name_of(node))
}
