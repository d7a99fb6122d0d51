//! What leaves this node's control plane: frames for neighbours, envelopes, actions for the driver.
//!
//! *The idea.* Everything goes out in one order. A message may rest on records that still wait for a
//! batch (`flood`): they go first. Envelopes are signed messages that travel along the route written
//! on them (source routing); one to this node itself stays here, and waits until it is handled.
//!
//! *What it does not do.* It reads no message: [`control`](crate::control) does.
//!
//! *Sources.* docs/reference/protocol.md §4.

pub(crate) mod flood;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::limits::PATH_NODES_MAX;
use thalweg_base::time::Instant;
use thalweg_base::wire::control::{self as wire, Body, Message, Routed};

use crate::effect::{Flooding, Note, Output};
use crate::facts::{Keys, Links, Local};
use flood::Flood;

/// Domain separator in front of addressee and body under an envelope's signature.
const ROUTED_CONTEXT: &[u8] = b"thalweg routed v1";

/// A message that arrived along a route.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) from: NodeId,
    /// The nodes that it passed, its sender first.
    pub(crate) route: Vec<NodeId>,
    pub(crate) body: Body,
}

/// The way out of the control plane.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    flood: Flood,
    /// Messages of this node to itself, with the route that they would have taken.
    to_self: VecDeque<Letter>,
    outputs: VecDeque<Output>,
}

impl Mail {
    /// Returns the next action for the driver.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns the next message of this node to itself.
    pub(crate) fn poll_letter(&mut self) -> Option<Letter> {
        self.to_self.pop_front()
    }

    /// Returns whether this node has sent itself nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.to_self.is_empty()
    }

    /// Returns whether this node is about to release a part of its own plan of a stream.
    pub(crate) fn releases(&self, stream: StreamId) -> bool {
        let is_about = |letter: &Letter| matches!(letter.body, Body::Release { stream: of, .. } if of == stream);
        self.to_self.iter().any(is_about)
    }

    /// Adds an action for the driver.
    pub(crate) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// Sends a message to a neighbour, if it is linked.
    pub(crate) fn send(&mut self, to: NodeId, message: &Message, links: &Links) {
        if links.has(to) {
            // The message may rest on records that still wait: they go first.
            self.outputs.extend(self.flood.waiting_for(to));
            self.flood.handle_synced(to);
            let frame = wire::encode(message).into();
            self.push(Output::Send { to, frame });
        }
    }

    /// Sends a message to all neighbours except one.
    pub(crate) fn broadcast(&mut self, message: &Message, except: Option<NodeId>, links: &Links) {
        for peer in links.peers().filter(|peer| Some(*peer) != except) {
            self.send(peer, message, links);
        }
    }

    /// Sends a body along a route that begins here.
    pub(crate) fn route(
        &mut self,
        route: Vec<NodeId>,
        body: Body,
        local: &Local<'_>,
        keys: &mut dyn Keys,
    ) {
        let Some(&to) = route.last().filter(|_| route.len() <= PATH_NODES_MAX) else {
            return;
        };
        if to == local.id() {
            let from = to;
            return self.to_self.push_back(Letter { from, route, body });
        }
        let body = wire::encode_body(&body);
        let signature = keys.sign(&signed_bytes(to, &body));
        let routed = Routed {
            route,
            position: 0,
            body,
            signature,
        };
        self.pass_on(routed, local.links);
    }

    /// Handles an envelope from a neighbour: passes it on, or returns its message if it is in order
    /// and for this node.
    pub(crate) fn handle_routed(
        &mut self,
        from: NodeId,
        routed: Routed,
        local: &Local<'_>,
        keys: &dyn Keys,
    ) -> Option<Letter> {
        let at = routed.position;
        let here = routed.route.get(at) == Some(&local.id());
        let came_from_previous = at > 0 && routed.route.get(at - 1) == Some(&from);
        if !here || !came_from_previous {
            return self.refuse(Note::EnvelopeAstray { from });
        }
        if at + 1 < routed.route.len() {
            self.pass_on(routed, local.links);
            return None;
        }
        let sender = routed.route[0];
        let signed = signed_bytes(local.id(), &routed.body);
        if !keys.verify(sender, &signed, &routed.signature) {
            return self.refuse(Note::EnvelopeForged { sender });
        }
        if !local.roll.admits(sender) {
            return self.refuse(Note::EnvelopeUngranted { from, sender });
        }
        let route = routed.route;
        match wire::decode_body(&routed.body) {
            Ok(body) => Some(Letter {
                from: sender,
                route,
                body,
            }),
            Err(error) => self.refuse(Note::EnvelopeRefused { sender, error }),
        }
    }

    fn refuse(&mut self, note: Note) -> Option<Letter> {
        self.push(Output::Note(note));
        None
    }

    fn pass_on(&mut self, mut routed: Routed, links: &Links) {
        routed.position += 1;
        let next = routed.route[routed.position];
        self.send(next, &Message::Routed(routed), links);
    }

    /// Floods a record, at once or batched.
    pub(crate) fn flood(&mut self, flooding: Flooding, links: &Links, now: Instant) {
        if self.flood.handle_record(flooding, links.count(), now) {
            self.outputs.extend(self.flood.flush(links, now));
        }
    }

    /// Handles a neighbour that has a record already.
    pub(crate) fn handle_known(&mut self, (node, sequence): (NodeId, u64), peer: NodeId) {
        self.flood.handle_known(node, sequence, peer);
    }

    /// Handles a new neighbour, which is about to be sent all records.
    pub(crate) fn handle_linked(&mut self, peer: NodeId) {
        self.flood.handle_synced(peer);
    }

    /// Handles the loss of a link.
    pub(crate) fn handle_unlinked(&mut self, peer: NodeId) {
        self.flood.set_leaf(peer, false);
    }

    /// Handles a neighbour that is a leaf from now on, or no longer. What waits goes to it first, so
    /// that nothing which came before is withheld twice.
    pub(crate) fn handle_leaf(&mut self, peer: NodeId, is_leaf: bool) {
        self.outputs.extend(self.flood.waiting_for(peer));
        self.flood.handle_synced(peer);
        self.flood.set_leaf(peer, is_leaf);
    }

    /// Discards the record of a node that no longer belongs here.
    pub(crate) fn remove_record(&mut self, node: NodeId) {
        self.flood.remove(node);
    }

    /// Sends the batch of records that is due.
    pub(crate) fn handle_timeout(&mut self, links: &Links, now: Instant) {
        if self.flood.poll_timeout() <= now {
            self.outputs.extend(self.flood.flush(links, now));
        }
    }

    /// Returns when the next batch is due.
    pub(crate) const fn poll_timeout(&self) -> Instant {
        self.flood.poll_timeout()
    }
}

fn signed_bytes(to: NodeId, body: &[u8]) -> Vec<u8> {
    [ROUTED_CONTEXT, &to.0, body].concat()
}
