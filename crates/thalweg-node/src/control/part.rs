//! Installing what a source has prepared for this node.

use std::sync::{Arc, Mutex};

use aws_lc_rs::rand;
use thalweg_core::id::{Epoch, NodeId, StreamId};
use thalweg_core::limits::EPOCHS_PER_STREAM_MAX;
use thalweg_core::session::LEASE;
use thalweg_core::time::Instant;
use thalweg_core::wire::control::{Body, Prepare};
use thalweg_lift::keys::{KeyEpoch, KeyRing, SealInstance, StreamKey};
use thalweg_lift::lift::{Lift, Materials};
use tracing::info;

use super::Control;
use super::routed::reversed;
use crate::envelope::Context;
use crate::forward::{Chain, Lease, Route, needs_key};

impl Control {
    pub(super) async fn handle_prepare(
        &mut self,
        from: NodeId,
        route: Vec<NodeId>,
        prepare: Prepare,
        now: Instant,
    ) {
        let (stream, epoch) = (prepare.stream, prepare.epoch);
        let sink = prepare.next.is_none();
        let answer = match self.install(from, prepare, now) {
            Ok(()) => Body::Ready { stream, epoch },
            Err(reason) => Body::Refuse {
                stream,
                epoch,
                reason,
            },
        };
        if sink && matches!(answer, Body::Ready { .. }) {
            self.note_served(stream);
        }
        // Boxed, for a source prepares its own part too.
        Box::pin(self.send_routed(reversed(&route), &answer)).await;
    }

    fn install(&self, from: NodeId, prepare: Prepare, now: Instant) -> Result<(), String> {
        self.authorise(from, &prepare)?;
        let until = now + LEASE;
        let present = self.forwarder.route(prepare.stream, prepare.epoch);
        if let Some(route) = present.filter(|route| is_same(route, &prepare)) {
            route.lease.renew(until);
            return Ok(());
        }
        let installed = self.forwarder.routes();
        if installed
            .iter()
            .filter(|r| r.stream == prepare.stream)
            .count()
            >= EPOCHS_PER_STREAM_MAX
        {
            return Err(format!(
                "{EPOCHS_PER_STREAM_MAX} plans of the stream are installed already"
            ));
        }
        let chain = self.chain(from, &prepare)?;
        info!(
            stream = %prepare.name,
            epoch = prepare.epoch.0,
            adapters = %prepare.adapters.join(" "),
            "part of a plan installed"
        );
        let route = Route {
            counts: self.forwarder.ledger.row(prepare.stream),
            exposure: prepare
                .next
                .map(|next| self.forwarder.ledger.exposure(next)),
            name: prepare.name,
            stream: prepare.stream,
            epoch: prepare.epoch,
            source: from,
            previous: prepare.previous,
            next: prepare.next,
            adapters: prepare.adapters,
            chain,
            reliability: prepare.reliability,
            order: prepare.order,
            plaintext: prepare.plaintext,
            lease: Lease::until(until),
        };
        self.forwarder.install(Arc::new(route));
        Ok(())
    }

    /// Only who publishes a stream may install its plans, and only as many adapters as there are slots.
    fn authorise(&self, from: NodeId, prepare: &Prepare) -> Result<(), String> {
        let publishes = |record: &thalweg_core::wire::record::Record| {
            record
                .streams
                .iter()
                .any(|stream| stream.id == prepare.stream)
        };
        if !self.directory.record(from).is_some_and(publishes) {
            return Err(format!("{} does not announce the stream", from.short()));
        }
        let (asked, slots) = (prepare.adapters.len(), self.config.slots as usize);
        if asked > slots {
            return Err(format!(
                "{asked} adapters are asked for, and this node has {slots} slots"
            ));
        }
        Ok(())
    }

    fn chain(&self, from: NodeId, prepare: &Prepare) -> Result<Chain, String> {
        match &prepare.adapters[..] {
            [] => return Ok(Chain::Pass),
            [keep] => {
                if let Some(layers) = keep.strip_prefix("keep:").and_then(|q| q.parse().ok()) {
                    return Ok(Chain::Keep(layers));
                }
            }
            _ => {}
        }
        let mut materials = Materials {
            stream: prepare.stream,
            keys: self.keys(from, prepare)?,
            instance: SealInstance::from_random(random()?),
        };
        let words = prepare.adapters.iter().map(String::as_str);
        let lift = Lift::from_spec(words, &mut materials, self.forwarder.pool.clone());
        lift.map(|lift| Chain::Lift(Box::new(Mutex::new(lift))))
            .map_err(|error| error.to_string())
    }

    fn keys(&self, from: NodeId, prepare: &Prepare) -> Result<KeyRing, String> {
        if !prepare.adapters.iter().any(|word| needs_key(word)) {
            return Ok(KeyRing::new());
        }
        let envelope = prepare
            .envelope
            .as_deref()
            .ok_or("the stream's key is missing")?;
        let context = Context {
            source: from,
            stream: prepare.stream,
        };
        let content = self
            .box_key
            .open(envelope, context)
            .map_err(|error| error.to_string())?;
        Ok(KeyRing::with_key(
            KeyEpoch(content.key_epoch),
            StreamKey::new(content.key),
        ))
    }

    /// Forgets a part, if it is the sender's own.
    pub(super) fn handle_release(&self, from: NodeId, stream: StreamId, epoch: Epoch) {
        let route = self.forwarder.route(stream, epoch);
        if route.is_some_and(|route| route.source == from) {
            self.forwarder.remove(stream, epoch);
        }
    }
}

/// Returns whether what is to be installed is what is installed; the key's envelope differs each time it is sent.
fn is_same(route: &Route, prepare: &Prepare) -> bool {
    route.previous == prepare.previous
        && route.next == prepare.next
        && route.adapters == prepare.adapters
        && (route.reliability, route.order) == (prepare.reliability, prepare.order)
        && route.plaintext == prepare.plaintext
}

fn random() -> Result<u64, String> {
    let mut bits = [0; 8];
    rand::fill(&mut bits).map_err(|_| "the system gives no random numbers")?;
    Ok(u64::from_be_bytes(bits))
}
