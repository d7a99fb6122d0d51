//! Writes the controller's notes to the log: decisions at `debug`, states that an operator cares
//! about at `info`.

use thalweg_base::id::{NodeId, StreamName};
use thalweg_control::control::{Controller, Note};
use thalweg_control::ledger::Reading;
use tracing::{debug, info, warn};

/// Logs a note, with names in place of keys.
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
            info!(%stream, "publisher gone; what it has published is still carried");
        }
        Note::Unpublished { stream } => info!(%stream, "unpublished"),
        Note::NoPlan { sink, reason } => {
            debug!(sink = %controller.name_of(sink), %reason, "no plan");
        }
        Note::TooSlow { sink, reason } => {
            info!(sink = %controller.name_of(sink), %reason, "planned over a path that is too slow");
        }
        Note::Rekeyed { stream, key_epoch } => {
            info!(%stream, key_epoch, "stream rekeyed: a node that had the old key may no longer read the stream");
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
            info!(%stream, epoch = to.0, "resending what is not acknowledged");
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
            debug!(%stream, epoch = epoch.0, "route expired: its lease was not renewed");
        }
        note => log_node(controller, note),
    }
}

/// Logs a note on another node.
fn log_node(controller: &Controller, note: Note) {
    match note {
        Note::Doubtful { peer } => {
            debug!(peer = %controller.name_of(peer), "neighbour is late to answer; preparing other paths");
        }
        Note::Silent { peer } => {
            info!(peer = %controller.name_of(peer), "neighbour does not answer");
        }
        Note::ProducerSilent { stream, producer } => {
            info!(%stream, producer = %controller.name_of(producer), "producer does not answer; switching to another");
        }
        Note::Withholding { nodes, end } => {
            let nodes: Vec<String> = nodes.iter().map(|node| controller.name_of(*node)).collect();
            warn!(nodes = %nodes.join(", "), end = %controller.name_of(end), "ADUs sent through these nodes do not all arrive; planning around them");
        }
        Note::Leaving { node } => {
            info!(node = %controller.name_of(node), "leaving; planning around it");
        }
        Note::Enrolled { node, rights } => {
            info!(node = %controller.name_of(node), %rights, "node belongs to the fabric");
        }
        Note::Expelled { node } => {
            info!(node = %controller.name_of(node), "node no longer belongs to the fabric");
        }
        note => debug!(?note, "noted"),
    }
}

/// Logs the final ledger of a stream that is over.
pub(super) fn log_closed(controller: &Controller, stream: &StreamName, reading: &Reading) {
    let (published, delivered, lost) = (reading.given, reading.delivered, reading.lost());
    info!(%stream, published, delivered, lost, pending = reading.open(), "stream over");
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

/// Returns the name of the node where ADUs were lost.
pub(super) fn hop(controller: &Controller, node: Option<NodeId>) -> String {
    node.map_or_else(|| "elsewhere".into(), |node| controller.name_of(node))
}
