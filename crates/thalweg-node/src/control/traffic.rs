//! Recent traffic of streams on each link, and what was dropped of it: shows why one stream suffers
//! beside another.
//!
//! *The idea.* The counters of a plan on this node only grow
//! ([`Offered`]). A mark copies them every [`SPAN`]; the difference to the
//! mark before the last covers the last one to two spans, or the time since a younger plan was
//! first seen. This costs one reading per plan every few seconds, and nothing per ADU.
//!
//! *What it does not do.* It counts nothing itself and knows this node's links only. The ledger at
//! a stream's source has the losses on other links.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_control::ledger::Band;

use crate::forward::{Forwarder, Offered};
use crate::status::{BandTraffic, LinkLoss, TrafficStatus};

/// Time between two marks. Two spans are the window over which a link's losses and latencies are
/// counted.
const SPAN: Duration = Duration::from_secs(5);

/// Plans younger than this are not shown.
const SPAN_MIN: Duration = Duration::from_millis(500);

/// One plan of a stream.
type Plan = (StreamId, Epoch);

/// Marks of all plans' counters.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// The last two marks of each plan, the older one first.
    marks: BTreeMap<Plan, [Mark; 2]>,
    marked_at: Instant,
}

#[derive(Clone, Debug)]
struct Mark {
    at: Instant,
    offered: Offered,
}

/// The traffic of one stream on a link, over all its plans.
struct Sum {
    since: Instant,
    offered: Offered,
}

impl Traffic {
    /// Marks the counters of new plans at once, and of all plans every [`SPAN`].
    pub(super) fn update(&mut self, forwarder: &Forwarder, now: Instant) {
        let is_due = now >= self.marked_at + SPAN;
        let mut before = std::mem::take(&mut self.marks);
        for (plan, _) in forwarder.plans() {
            let mark = || Mark {
                at: now,
                offered: forwarder.offered(plan).unwrap_or_default(),
            };
            let marks = match before.remove(&plan) {
                Some([_, last]) if is_due => [last, mark()],
                Some(marks) => marks,
                None => [mark(), mark()],
            };
            self.marks.insert(plan, marks);
        }
        if is_due {
            self.marked_at = now;
        }
    }

    /// Returns the traffic of streams on the link to a neighbour, the largest first; `plans` are all
    /// that are installed, each with its next node.
    pub(super) fn of(
        &self,
        next: NodeId,
        plans: &[(Plan, Option<NodeId>)],
        forwarder: &Forwarder,
        now: Instant,
    ) -> Vec<TrafficStatus> {
        let mut streams: BTreeMap<String, Sum> = BTreeMap::new();
        for (plan, _) in plans.iter().filter(|(_, to)| *to == Some(next)) {
            let mark = self.marks.get(plan);
            let (Some([before, _]), Some(mut offered), Some(name)) =
                (mark, forwarder.offered(*plan), forwarder.name(plan.0))
            else {
                continue;
            };
            let since = before.at;
            if now.saturating_since(since) < SPAN_MIN {
                continue;
            }
            offered.subtract(&before.offered);
            let sum = streams.entry(name.to_string()).or_insert_with(|| Sum {
                since,
                offered: Offered::default(),
            });
            sum.since = sum.since.min(since);
            sum.offered.add(&offered);
        }
        let mut traffic: Vec<_> = streams
            .into_iter()
            .filter(|(_, sum)| sum.offered.adus() > 0)
            .map(|(stream, sum)| status(stream, &sum, now))
            .collect();
        traffic.sort_by_key(|stream| Reverse(stream.offered_bps));
        traffic
    }
}

fn status(stream: String, sum: &Sum, now: Instant) -> TrafficStatus {
    let seconds = now.saturating_since(sum.since).as_secs_f64();
    let Offered {
        bytes,
        given,
        dropped,
    } = &sum.offered;
    let bands = || Band::all().map(|band| (band.index(), band));
    let causes = DropCause::ALL.into_iter();
    let losses = causes.flat_map(|cause| {
        let row = dropped[cause.index()];
        let bands = bands().filter(move |(at, _)| row[*at] > 0);
        bands.map(move |(at, band)| LinkLoss {
            cause: cause.name(),
            importance: importances(band),
            adus: row[at],
        })
    });
    let by_importance = bands().filter(|(at, _)| given[*at] > 0);
    TrafficStatus {
        stream,
        seconds,
        offered_bps: (*bytes as f64 * 8.0 / seconds) as u64,
        adus: sum.offered.adus(),
        dropped: losses.collect(),
        by_importance: by_importance
            .map(|(at, band)| BandTraffic {
                importance: importances(band),
                adus: given[at],
                dropped: dropped.iter().map(|row| row[at]).sum(),
            })
            .collect(),
    }
}

fn importances(band: Band) -> [u8; 2] {
    let importances = band.importances();
    [*importances.start(), *importances.end()]
}
