//! What a node knows, for reading: its configuration, links, the roll of members, the directory.
//!
//! *The idea.* An owner decides by its own fields and by what all may know. That comes as a view,
//! [`Facts`], so a method's arguments say what it reads of others, and it can change none of it.
//!
//! | file | what it is |
//! |---|---|
//! | `keys` | what the control plane needs of cryptography |
//! | `links` | the links to neighbours, with their gauges |
//!
//! *What it does not do.* It owns nothing: [`control`](crate::control) has the owners and makes the views.

mod keys;
mod links;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::limits::NODE_NAME_BYTES_MAX;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{NodeName, Weights};

use crate::admission::{Rights, Roll};
use crate::routing::Directory;

pub use keys::{KeyContext, Keys, KeysError};
pub use links::Links;

/// The configuration of a node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its public key.
    pub id: NodeId,
    /// Its name, for display.
    pub name: NodeName,
    /// How many adapters plans may run here for each stream.
    pub slots: u32,
    /// The nodes that the configuration names.
    pub peers: Vec<Peer>,
    /// The weights of the planner's cost.
    pub weights: Weights,
    /// Wall-clock time at [`Instant::ZERO`], since 1970. Sequence numbers derived from it keep
    /// growing across restarts.
    pub since_1970: Duration,
}

/// A node that the configuration names.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// Its public key.
    pub key: NodeId,
    /// Its name, for display.
    pub name: NodeName,
    /// Whether it may see the plaintext of confidential streams.
    pub trusted: bool,
    /// The configured rate of the link to it, if any.
    pub rate: Option<Bitrate>,
    /// Whether the path to it is safe from eavesdroppers.
    pub secure: bool,
}

impl Settings {
    /// Returns wall-clock time in ms, which is larger after a restart.
    pub(crate) const fn millis_at(&self, now: Instant) -> u64 {
        self.since_1970.as_millis() + now.as_nanos() / 1_000_000
    }
}

/// What concerns this node and its neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local<'a> {
    pub(crate) settings: &'a Settings,
    /// The configured peers as they are now.
    pub(crate) peers: &'a BTreeMap<NodeId, Peer>,
    pub(crate) links: &'a Links,
    pub(crate) roll: &'a Roll,
}

impl Local<'_> {
    /// Returns this node's key.
    pub(crate) const fn id(&self) -> NodeId {
        self.settings.id
    }

    /// Returns whether this node has a right.
    pub(crate) fn may(&self, right: Rights) -> bool {
        self.roll.may(self.id(), right)
    }
}

/// Everything that a node knows of itself and of others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) local: Local<'a>,
    pub(crate) directory: &'a Directory,
}

impl Facts<'_> {
    /// Returns this node's key.
    pub(crate) const fn id(&self) -> NodeId {
        self.local.id()
    }

    /// Returns whether a node has a right.
    pub(crate) fn may(&self, node: NodeId, right: Rights) -> bool {
        self.local.roll.may(node, right)
    }

    /// Returns whether a node may see the plaintext of this node's streams: by its grant, or by
    /// this node's configuration in a fabric without an owner.
    pub(crate) fn trusts(&self, node: NodeId) -> bool {
        let configured = || self.local.peers.get(&node).is_some_and(|peer| peer.trusted);
        node == self.id()
            || match self.local.roll.fabric() {
                Some(_) => self.may(node, Rights::SEE_PLAINTEXT),
                None => configured(),
            }
    }

    /// Returns the display name of a node.
    pub(crate) fn name_of(&self, node: NodeId) -> String {
        if node == self.id() {
            return self.local.settings.name.to_string();
        }
        let peer = self.local.peers.get(&node);
        let configured = peer.map(|peer| peer.name.to_string());
        let recorded = || {
            let record = self.directory.record(node);
            record.map(|record| record.name.clone())
        };
        configured.or_else(recorded).unwrap_or_else(|| node.short())
    }

    /// Returns a path from here with the fewest hops, whatever plans avoid.
    ///
    /// Cost    O(links of the map)
    pub(crate) fn path(&self, to: NodeId) -> Option<Vec<NodeId>> {
        self.directory.path(self.id(), to)
    }
}

/// Returns the reason to refuse a node that lacks a right.
pub(crate) fn no_right(name: &str, right: Rights) -> String {
    let short: String = name.chars().take(NODE_NAME_BYTES_MAX).collect();
    format!("the grant of {short} does not include `{right}`")
}
