//! A route of the plan's with what only a node has: a lock around its lift, and its counters.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_core::control::{Installation, Secrets};
use thalweg_core::event::DropCause;
use thalweg_core::time::Instant;
use thalweg_lift::lift::{Lift, SpecError};
use thalweg_lift::packet::{Packet, Pool};
use thalweg_lift::route::{self, Route as Part};

use super::{ExposureCounts, Ledger, StreamCounts};

/// What happens here to the ADUs of a plan, and where they go.
pub(crate) struct Route {
    pub(crate) part: Part,
    /// The chain, if it changes payloads.
    lift: Option<Mutex<Lift>>,
    pub(crate) counts: Arc<StreamCounts>,
    /// What is sent to the next node, sealed or not; `None` at the sink.
    pub(crate) exposure: Option<Arc<ExposureCounts>>,
}

impl Route {
    /// Returns a route whose ADUs are counted in the ledger.
    pub(crate) fn build(
        installation: Installation,
        secrets: Secrets,
        pool: Pool,
        ledger: &Ledger,
    ) -> Result<Self, SpecError> {
        let (stream, next) = (installation.stream, installation.next);
        let (part, lift) = Part::build(installation, secrets, pool)?;
        Ok(Self {
            part,
            lift: lift.map(Mutex::new),
            counts: ledger.row(stream),
            exposure: next.map(|next| ledger.exposure(next)),
        })
    }

    /// Returns the part of a plan that this is.
    pub(crate) const fn installation(&self) -> &Installation {
        self.part.installation()
    }

    /// Carries a packet through the lift and returns what comes out; what does not is counted.
    pub(super) fn carry(&self, packet: Packet, now: Instant) -> Vec<Packet> {
        let Some(lift) = &self.lift else {
            return Vec::from([packet]);
        };
        let mut lift = lift.lock().unwrap_or_else(PoisonError::into_inner);
        let carried = route::carry(&mut lift, packet, now);
        drop(lift);
        for cause in DropCause::ALL {
            self.counts.dropped_many(cause, carried.dropped.of(cause));
        }
        carried.packets
    }
}
