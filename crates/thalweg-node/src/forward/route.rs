//! A plan's route on this node: the core's decision, a lock around its lift, and its counters.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_base::adu::Header;
use thalweg_base::event::DropCause;
use thalweg_base::time::Instant;
use thalweg_control::control::{Installation, Secrets};
use thalweg_dataplane::lift::{Lift, SpecError};
use thalweg_dataplane::packet::{Packet, Pool};
use thalweg_dataplane::route::{self, Route as Part};

use tokio::sync::watch;

use super::arrivals::{Arrivals, Arrived};
use super::{Account, ExposureCounts, Ledger, StreamCounts};

/// The route of one plan through this node.
pub(crate) struct Route {
    pub(crate) part: Part,
    /// The chain of modules, if it changes payloads.
    lift: Option<Mutex<Lift>>,
    pub(crate) counts: Arc<StreamCounts>,
    pub(crate) account: Arc<Account>,
    /// Counts ADUs sent to the next node, sealed or readable; `None` at the sink.
    pub(crate) exposure: Option<Arc<ExposureCounts>>,
    /// The stream's arrivals; only at the sink.
    pub(super) arrived: Option<Arc<Arrived>>,
    /// Set once ADUs that wait for their turn under this plan are given up.
    recalled: watch::Sender<bool>,
}

impl Route {
    /// Builds a route that counts in the ledger.
    pub(crate) fn build(
        installation: Installation,
        secrets: Secrets,
        pool: Pool,
        ledger: &Ledger,
        arrivals: &Arrivals,
    ) -> Result<Self, SpecError> {
        let (stream, epoch) = (installation.stream, installation.epoch);
        let (next, name) = (installation.next, installation.name.clone());
        let (part, lift) = Part::build(installation, secrets, pool)?;
        Ok(Self {
            part,
            lift: lift.map(Mutex::new),
            counts: ledger.row(stream, &name),
            account: ledger.account(stream, epoch),
            exposure: next.map(|next| ledger.exposure(next)),
            arrived: next.is_none().then(|| arrivals.of(stream)),
            recalled: watch::Sender::new(false),
        })
    }

    /// Gives up ADUs that wait for their turn under this plan, now and later: they are resent under
    /// another plan.
    pub(crate) fn recall(&self) {
        self.recalled.send_replace(true);
    }

    pub(super) fn is_recalled(&self) -> bool {
        *self.recalled.borrow()
    }

    /// Waits until the route is recalled.
    pub(super) async fn recalled(&self) {
        // The sender lives as long as the route, so only a recall ends the wait.
        let _ = self.recalled.subscribe().wait_for(|is| *is).await;
    }

    /// Returns the plan's part on this node.
    pub(crate) const fn installation(&self) -> &Installation {
        self.part.installation()
    }

    /// Counts an ADU that was here whole and is dropped.
    pub(super) fn dropped(&self, header: &Header, cause: DropCause) {
        self.counts.dropped(cause);
        self.account.dropped(header, cause);
    }

    /// Counts an ADU that is refused, whole or still arriving.
    pub(super) fn refused(&self, header: &Header, cause: DropCause) {
        self.counts.dropped(cause);
        self.account.refused(header, cause);
    }

    /// Carries a packet through the lift and returns its output; dropped packets are counted.
    pub(super) fn carry(&self, packet: Packet, now: Instant) -> Vec<Packet> {
        let Some(lift) = &self.lift else {
            return Vec::from([packet]);
        };
        let header = packet.header;
        let mut lift = lift.lock().unwrap_or_else(PoisonError::into_inner);
        let carried = route::carry(&mut lift, packet, now);
        drop(lift);
        for cause in DropCause::ALL {
            for _ in 0..carried.dropped.of(cause) {
                self.dropped(&header, cause);
            }
        }
        carried.packets
    }
}
