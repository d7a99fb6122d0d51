//! Envelopes: signed messages that travel along the nodes written on them.

use thalweg_core::id::NodeId;
use thalweg_core::limits::PATH_NODES_MAX;
use thalweg_core::wire::control::{self as wire, Body, Message, Routed};
use thalweg_net::identity;
use tracing::debug;

use super::Control;

/// What precedes the addressee and the body under an envelope's signature.
const ROUTED_CONTEXT: &[u8] = b"thalweg routed v1";

impl Control {
    /// Sends a body along a route that begins here; a route of this node alone comes back at once.
    pub(super) async fn send_routed(&mut self, route: Vec<NodeId>, body: &Body) {
        let Some(&to) = route.last().filter(|_| route.len() <= PATH_NODES_MAX) else {
            return;
        };
        if to == self.id {
            return self.handle_body(self.id, route, body.clone()).await;
        }
        let body = wire::encode_body(body);
        let signature = self.identity.sign(&signed_bytes(to, &body));
        self.pass_on(Routed {
            route,
            position: 0,
            body,
            signature,
        })
        .await;
    }

    pub(super) async fn handle_routed(&mut self, from: NodeId, routed: Routed) {
        let at = routed.position;
        let here = routed.route.get(at) == Some(&self.id);
        let came_right = at > 0 && routed.route.get(at - 1) == Some(&from);
        if !here || !came_right {
            return debug!(peer = %from.short(), "envelope off its route");
        }
        if at + 1 < routed.route.len() {
            return self.pass_on(routed).await;
        }
        let sender = routed.route[0];
        if !identity::verify(
            sender,
            &signed_bytes(self.id, &routed.body),
            &routed.signature,
        ) {
            return debug!(sender = %sender.short(), "envelope with a bad signature");
        }
        match wire::decode_body(&routed.body) {
            Ok(body) => self.handle_body(sender, routed.route, body).await,
            Err(error) => debug!(sender = %sender.short(), %error, "envelope refused"),
        }
    }

    async fn pass_on(&self, mut routed: Routed) {
        routed.position += 1;
        let next = routed.route[routed.position];
        self.send(next, &Message::Routed(routed)).await;
    }

    async fn handle_body(&mut self, from: NodeId, route: Vec<NodeId>, body: Body) {
        let now = self.now();
        match body {
            Body::Subscribe { stream } => self.handle_subscribe(from, route, stream, now).await,
            Body::Unsubscribe { stream } => {
                if let Some(source) = self.sources.get_mut(&stream) {
                    source.session.handle_unsubscribe(from, now);
                }
            }
            Body::Prepare(prepare) => self.handle_prepare(from, route, prepare, now).await,
            Body::Ready { stream, epoch } => {
                if let Some(source) = self.sources.get_mut(&stream) {
                    source.session.handle_ready(from, epoch, now);
                }
            }
            Body::Refuse {
                stream,
                epoch,
                reason,
            } if epoch.0 > 0 => {
                if let Some(source) = self.sources.get_mut(&stream) {
                    source.session.handle_refuse(from, epoch, &reason, now);
                }
            }
            Body::Refuse { stream, reason, .. } => self.handle_refused(from, stream, &reason),
            Body::Release { stream, epoch } => self.handle_release(from, stream, epoch),
        }
        // Boxed, for what a source sends to itself comes through here again.
        Box::pin(self.handle_sources(now)).await;
    }
}

fn signed_bytes(to: NodeId, body: &[u8]) -> Vec<u8> {
    [ROUTED_CONTEXT, &to.0, body].concat()
}

/// Returns the way back.
pub(super) fn reversed(route: &[NodeId]) -> Vec<NodeId> {
    route.iter().rev().copied().collect()
}
