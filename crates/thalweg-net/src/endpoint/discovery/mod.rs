//! Finding admitted nodes on the local network by mDNS.
//!
//! *The idea.* Every node that announces itself is remembered, in a bounded set; only admitted ones
//! are dialled, at once or when their grant arrives. So a stranger on the network costs one entry
//! and receives no packet. A node that is no longer admitted or announced is no longer dialled.
//!
//! *What it does not do.* It leaves configured peers alone: they have addresses or are looked up
//! anyway. It admits no node: one that is found proves its key like any other.
//!
//! *Sources.* RFC 6762; `iroh-mdns-address-lookup` 0.6 over `swarm-discovery`.

use std::collections::BTreeSet;

use futures_util::{Stream, StreamExt as _};
use iroh_mdns_address_lookup::{DiscoveryEvent, MdnsAddressLookup};
use thalweg_base::id::NodeId;

use super::Endpoint;
use crate::error::BindError;
use crate::identity::Identity;

#[cfg(test)]
mod tests;

/// The mDNS service name, which keeps other iroh programs out of the answers.
const SERVICE: &str = "thalweg";

/// Maximum number of remembered nodes; a full set takes new ones when others expire.
const FOUND_MAX: usize = 1024;

/// Maximum number of links made because a node was found: as many as a hub keeps. Further nodes are
/// reached through these.
const DIALLED_MAX: usize = 32;

/// The nodes that were found, and those of them that are dialled for it.
#[derive(Debug, Default)]
pub(crate) struct Found {
    found: BTreeSet<NodeId>,
    dialled: BTreeSet<NodeId>,
}

/// What the endpoint must do about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Keep a link with the node.
    Dial(NodeId),
    /// Stop keeping a link with the node.
    Forget(NodeId),
}

/// Returns the mDNS service that announces this node and looks up others.
///
/// Fails   if the network allows no multicast socket
pub(crate) fn lookup(identity: &Identity) -> Result<MdnsAddressLookup, BindError> {
    MdnsAddressLookup::builder()
        .service_name(SERVICE)
        .build(identity.secret().public())
        .map_err(|error| BindError::Endpoint(format!("no mDNS: {error:#}")))
}

/// Dials the admitted nodes that are found, until the endpoint shuts down.
pub(crate) async fn run(endpoint: Endpoint, mdns: MdnsAddressLookup) {
    let events = mdns.subscribe().await;
    follow(&endpoint, events).await;
}

async fn follow(endpoint: &Endpoint, mut events: impl Stream<Item = DiscoveryEvent> + Unpin) {
    let mut found = Found::default();
    let mut changes = endpoint.admission().changes();
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(DiscoveryEvent::Discovered { endpoint_info, .. }) => {
                    found.handle_found(NodeId(*endpoint_info.endpoint_id.as_bytes()));
                }
                Some(DiscoveryEvent::Expired { endpoint_id }) => {
                    found.handle_gone(NodeId(*endpoint_id.as_bytes()));
                }
                Some(_) => {}
                None => return,
            },
            changed = changes.changed() => if changed.is_err() { return },
            () = endpoint.shutting_down() => return,
        }
        let may_dial = |node| endpoint.admission().admits(node) && node != endpoint.id();
        for action in found.actions(may_dial, |node| endpoint.is_kept(node)) {
            match action {
                Action::Dial(node) => {
                    tracing::info!(peer = %node.short(), "found on the local network");
                    endpoint.keep_dialled(node, &[], seed(endpoint.id(), node));
                }
                Action::Forget(node) => endpoint.forget(node),
            }
        }
    }
}

impl Found {
    pub(crate) fn handle_found(&mut self, node: NodeId) {
        if self.found.len() < FOUND_MAX {
            self.found.insert(node);
        }
    }

    pub(crate) fn handle_gone(&mut self, node: NodeId) {
        self.found.remove(&node);
    }

    /// Returns the pending actions and records them as done.
    pub(crate) fn actions(
        &mut self,
        may_dial: impl Fn(NodeId) -> bool,
        is_kept: impl Fn(NodeId) -> bool,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        let found = &self.found;
        self.dialled.retain(|node| {
            let is_kept_dialled = found.contains(node) && may_dial(*node);
            if !is_kept_dialled {
                actions.push(Action::Forget(*node));
            }
            is_kept_dialled
        });
        for node in &self.found {
            let is_new = !self.dialled.contains(node) && !is_kept(*node);
            if self.dialled.len() < DIALLED_MAX && is_new && may_dial(*node) {
                self.dialled.insert(*node);
                actions.push(Action::Dial(*node));
            }
        }
        actions
    }
}

/// Returns the seed of the redial jitter; it differs for the two ends, so that they do not redial
/// in step.
fn seed(own: NodeId, node: NodeId) -> u64 {
    let half = |id: NodeId| {
        let mut head = [0; 8];
        head.copy_from_slice(&id.0[..8]);
        u64::from_be_bytes(head)
    };
    half(own) ^ half(node).rotate_left(1)
}
