//! Hands the data path's counts to the controller.
//!
//! *The idea.* The data path counts by itself and never waits for this task. So its counts are read:
//! of one plan before a report on it, of those that lead to a neighbour when it falls silent, of all
//! when someone asks, and of the rest when they are old.
//!
//! *What it does not do.* It counts nothing.

use std::sync::Arc;

use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::time::Duration;

use super::mind::Mind;
use crate::forward::Forwarder;

/// Maximum age of a plan's counts while no input arrives. Each report on the plan reads them
/// anyway, several times a second while ADUs flow.
const COUNTS_AGE_MAX: Duration = Duration::from_secs(1);

/// The data path's counts.
pub(super) struct Counts {
    forwarder: Arc<Forwarder>,
}

impl Counts {
    pub(super) fn new(forwarder: Arc<Forwarder>) -> Self {
        Self { forwarder }
    }

    /// Hands over a plan's current counts.
    pub(super) fn sync_plan(&self, plan: (StreamId, Epoch), mind: &mut Mind) {
        self.forwarder.catch_up(plan);
        self.sync(plan, mind);
    }

    /// Hands over the current counts of the plans that lead to a neighbour. With hundreds of neighbours
    /// some are silent or back at any time, and each has a plan or two.
    pub(super) fn sync_to(&self, peer: NodeId, mind: &mut Mind) {
        let plans: Vec<_> = mind.controller().parts().leading_to(peer).collect();
        for plan in plans {
            self.sync_plan(plan, mind);
        }
    }

    /// Hands over all counts that have changed since the last call.
    pub(super) fn sync_all(&self, mind: &mut Mind) {
        for link in self.forwarder.links() {
            link.catch_up();
        }
        self.sync_older(Duration::ZERO, mind);
    }

    /// Hands over the counts that were not read for a while, and drops those of streams that are
    /// over.
    pub(super) fn sweep(&self, mind: &mut Mind) {
        self.sync_older(COUNTS_AGE_MAX, mind);
        let records = mind.controller().directory().records();
        let announced = records.flat_map(|record| record.streams.iter().map(|stream| stream.id));
        self.forwarder.sweep(mind.now(), || announced.collect());
    }

    /// Hands over the counts of plans of streams whose counts were last read at least `age` ago.
    fn sync_older(&self, age: Duration, mind: &mut Mind) {
        for plan in self.forwarder.take_due(mind.now(), age) {
            self.sync(plan, mind);
        }
    }

    /// Hands over the counts of the plans that the controller is about to report on.
    pub(super) fn sync_due(&self, mind: &mut Mind) {
        let due: Vec<_> = mind.controller().accounting().due(mind.now()).collect();
        for plan in due {
            self.sync_plan(plan, mind);
        }
    }

    /// Hands over the sequences that have arrived of streams that end here.
    pub(super) fn report_held(&self, mind: &mut Mind) {
        // A stream blocked at a mailbox here is acknowledged no further, which slows its source.
        for (stream, held, news) in self.forwarder.take_news() {
            mind.drive(|controller, now, _| controller.handle_held(stream, held, news, now));
        }
    }

    /// Hands over a plan's counts if they have changed.
    fn sync(&self, (stream, epoch): (StreamId, Epoch), mind: &mut Mind) {
        if let Some(counts) = self.forwarder.take_counts((stream, epoch)) {
            mind.drive(|controller, now, _| controller.handle_counts(stream, epoch, &counts, now));
        }
    }
}
