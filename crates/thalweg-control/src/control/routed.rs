//! Envelopes: signed messages that travel along the route written on them (source routing).

use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::limits::PATH_NODES_MAX;
use thalweg_base::time::Instant;
use thalweg_base::wire::control::{self as wire, Body, Message, Routed};

use super::{Controller, Keys, Note};

/// Domain separator in front of addressee and body under an envelope's signature.
const ROUTED_CONTEXT: &[u8] = b"thalweg routed v1";

impl Controller {
    /// Sends a body along a route that begins here. A message to this node itself is queued, and
    /// handled by `settle`.
    pub(super) fn send_routed(&mut self, route: Vec<NodeId>, body: Body, keys: &mut dyn Keys) {
        let Some(&to) = route.last().filter(|_| route.len() <= PATH_NODES_MAX) else {
            return;
        };
        if to == self.id() {
            return self.to_self.push_back((route, body));
        }
        let body = wire::encode_body(&body);
        let signature = keys.sign(&signed_bytes(to, &body));
        self.pass_on(Routed {
            route,
            position: 0,
            body,
            signature,
        });
    }

    pub(super) fn handle_routed(
        &mut self,
        from: NodeId,
        routed: Routed,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let at = routed.position;
        let here = routed.route.get(at) == Some(&self.id());
        let came_from_previous = at > 0 && routed.route.get(at - 1) == Some(&from);
        if !here || !came_from_previous {
            return self.note(Note::EnvelopeAstray { from });
        }
        if at + 1 < routed.route.len() {
            return self.pass_on(routed);
        }
        let sender = routed.route[0];
        let signed = signed_bytes(self.id(), &routed.body);
        if !keys.verify(sender, &signed, &routed.signature) {
            return self.note(Note::EnvelopeForged { sender });
        }
        if !self.roll.admits(sender) {
            return self.note(Note::EnvelopeUngranted { from, sender });
        }
        match wire::decode_body(&routed.body) {
            Ok(body) => self.handle_body(sender, &routed.route, body, now, keys),
            Err(error) => self.note(Note::EnvelopeRefused { sender, error }),
        }
    }

    fn pass_on(&mut self, mut routed: Routed) {
        routed.position += 1;
        let next = routed.route[routed.position];
        self.send(next, &Message::Routed(routed));
    }

    pub(super) fn handle_body(
        &mut self,
        from: NodeId,
        route: &[NodeId],
        body: Body,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        match body {
            Body::Subscribe { stream, has_waited } => {
                self.handle_subscribe(from, route, (stream, has_waited), now, keys);
            }
            Body::Unsubscribe { stream } => {
                if let Some(source) = self.sources.get_mut(&stream) {
                    source.session.handle_unsubscribe(from, now);
                }
            }
            Body::Trace { stream, every } => {
                self.handle_trace(from, route, (stream, every), now, keys);
            }
            Body::Tracing {
                stream,
                sinks,
                reason,
            } => self.handle_tracing(from, stream, sinks, reason),
            Body::Traced(traced) => self.handle_traced(from, traced, now, keys),
            Body::Leave { stream } => self.handle_leave(from, stream, now),
            Body::GivenUp { stream, below } => self.handle_given_up(from, stream, below),
            Body::Prepare(prepare) => self.handle_prepare(from, route, prepare, now, keys),
            Body::Renew { stream, epochs } => {
                self.handle_renew(from, route, (stream, &epochs), now, keys);
            }
            Body::Lacking { stream, epochs } => {
                if let Some(source) = self.sources.get_mut(&stream) {
                    source.session.handle_lacking(from, &epochs, now);
                    if let Some(plan) = source.sinks.get_mut(&from) {
                        plan.handle_lacking();
                    }
                }
            }
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
            Body::Refuse { stream, reason, .. } => {
                self.handle_refused(from, stream, &reason, now, keys);
            }
            Body::Release { stream, epoch } => self.handle_release(from, stream, epoch),
            Body::Cast {
                stream,
                epoch,
                feed,
            } => {
                let route_back = reversed(route);
                self.handle_cast(from, route_back, (stream, epoch), feed, keys);
            }
            Body::Casting { stream, epoch } => {
                if let Some(source) = self.sources.get_mut(&stream) {
                    source.session.handle_casting(from, epoch, now);
                }
            }
        }
    }
}

fn signed_bytes(to: NodeId, body: &[u8]) -> Vec<u8> {
    [ROUTED_CONTEXT, &to.0, body].concat()
}

/// Returns the reverse route.
pub(super) fn reversed(route: &[NodeId]) -> Vec<NodeId> {
    route.iter().rev().copied().collect()
}
