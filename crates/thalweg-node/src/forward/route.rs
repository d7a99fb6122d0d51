//! One node's part of one plan of one stream, ready to carry ADUs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_core::adu::Header;
use thalweg_core::event::{DropCause, DropCounts};
use thalweg_core::id::{Epoch, NodeId, StreamId, StreamName};
use thalweg_core::needs::{Order, Reliability};
use thalweg_core::time::Instant;
use thalweg_lift::lift::Lift;
use thalweg_lift::module::Direction;
use thalweg_lift::packet::Packet;

use super::{ExposureCounts, StreamCounts};

/// What happens here to the ADUs of a plan, and where they go.
pub(crate) struct Route {
    pub(crate) name: StreamName,
    pub(crate) stream: StreamId,
    pub(crate) epoch: Epoch,
    /// The stream's source, whose plan it is.
    pub(crate) source: NodeId,
    /// The node that ADUs come from; this one at the source.
    pub(crate) previous: NodeId,
    /// The node that they go to; `None` at the sink.
    pub(crate) next: Option<NodeId>,
    pub(crate) adapters: Vec<String>,
    pub(crate) chain: Chain,
    pub(crate) reliability: Reliability,
    pub(crate) order: Order,
    /// Whether ADUs may arrive here unsealed.
    pub(crate) plaintext: bool,
    pub(crate) counts: Arc<StreamCounts>,
    /// What is sent to the next node, sealed or not; `None` at the sink.
    pub(crate) exposure: Option<Arc<ExposureCounts>>,
    pub(crate) lease: Lease,
}

/// The chain, by what it needs of an ADU.
pub(crate) enum Chain {
    /// Nothing: the payload may pass while it arrives.
    Pass,
    /// Only the header: layers from this one on go no further.
    Keep(u8),
    /// The payload.
    Lift(Box<Mutex<Lift>>),
}

/// Until when a route stays without being renewed.
pub(crate) struct Lease(AtomicU64);

impl Lease {
    pub(crate) const fn until(instant: Instant) -> Self {
        Self(AtomicU64::new(instant.as_nanos()))
    }

    pub(crate) fn renew(&self, until: Instant) {
        self.0.store(until.as_nanos(), Relaxed);
    }

    pub(crate) fn has_ended(&self, now: Instant) -> bool {
        Instant::from_nanos(self.0.load(Relaxed)) < now
    }
}

impl Route {
    /// Returns whether an ADU waits for room in a mailbox for as long as it takes, rather than be dropped.
    pub(crate) fn waits(&self, header: &Header) -> bool {
        self.reliability == Reliability::Full
            || (self.reliability == Reliability::UntilDeadline && header.deadline.is_never())
    }
}

/// Carries a packet through a lift and returns what comes out; what does not is counted.
pub(super) fn carry(
    lift: &Mutex<Lift>,
    packet: Packet,
    now: Instant,
    counts: &StreamCounts,
) -> Vec<Packet> {
    let mut lift = lift.lock().unwrap_or_else(PoisonError::into_inner);
    let before = drops(&lift);
    if lift.handle_forward(packet, now).is_err() {
        counts.dropped(DropCause::Overflow);
    }
    let carried = std::iter::from_fn(|| lift.poll_forward()).collect();
    let after = drops(&lift);
    for cause in DropCause::ALL {
        counts.dropped_many(cause, after.of(cause) - before.of(cause));
    }
    carried
}

/// Returns what all modules of a lift have dropped on the way forward.
fn drops(lift: &Lift) -> DropCounts {
    let mut all = DropCounts::ZERO;
    for (_, counters) in lift.counters(Direction::Forward) {
        all.merge(&counters.dropped);
    }
    all
}
