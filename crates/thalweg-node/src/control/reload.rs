//! The configuration, read again while the node runs.
//!
//! *The idea.* Peers come, go and move more often than anything else in a configuration, and nothing that flows rests on where a peer can
//! be dialled. So peers are added and removed, and their addresses and rates taken over. The rest is what a node is built on (its key,
//! sockets, fabric) or what plans in force rely on (who is trusted), and is left until the next start; which keys those are is said.
//!
//! *What it does not do.* It reads no file: who asks has read and checked it.

use std::mem;
use std::time::{SystemTime, UNIX_EPOCH};

use thalweg_core::control::Settings;
use thalweg_core::id::NodeId;
use thalweg_core::time::{Duration, Instant};
use thalweg_net::Clock;
use thalweg_world::text::TextError;

use super::Control;
use crate::config::{Config, Peer};

/// What became of a configuration that was read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// What the node goes by now, each as a phrase.
    pub applied: Vec<String>,
    /// What differs and waits for the next start, by its keys.
    pub restart: Vec<String>,
}

impl Control {
    /// Takes over what can be taken over; the rest stays as it is.
    ///
    /// Fails   a peer that is this node itself: nothing is taken over then
    pub(super) fn reload(&mut self, mut config: Config) -> Result<Reloaded, TextError> {
        if let Some(mistake) = config.own_peer(self.controller.id()) {
            return Err(mistake);
        }
        let mut reloaded = Reloaded::default();
        for (key, differs) in fixed(&self.config, &config) {
            if differs {
                reloaded.restart.push(key.into());
            }
        }
        let before = mem::take(&mut self.config.peers);
        for old in &before {
            if config.peers.iter().all(|peer| peer.key != old.key) {
                self.remove_peer(old);
                reloaded
                    .applied
                    .push(format!("peer `{}` removed", old.name));
            }
        }
        for peer in &mut config.peers {
            if let Some(old) = before.iter().find(|old| old.key == peer.key) {
                self.change_peer(old, peer, &mut reloaded);
            } else {
                self.add_peer(peer);
                reloaded.applied.push(format!("peer `{}` added", peer.name));
            }
        }
        self.config.peers = config.peers;
        self.config.written = config.written;
        Ok(reloaded)
    }

    fn add_peer(&mut self, peer: &Peer) {
        self.know(peer);
        if peer.connect && self.controller.roll().fabric().is_none() {
            self.admission.admit(peer.key);
        }
        self.dial(peer);
    }

    /// Forgets a peer; in a fabric without an owner it may not connect any more, and its link ends.
    fn remove_peer(&mut self, peer: &Peer) {
        self.endpoint.forget(peer.key);
        if self.controller.roll().fabric().is_none() {
            self.admission.revoke(peer.key);
        }
        self.peers.remove(&peer.key);
        self.peer_states.remove(&peer.key);
        let now = self.now();
        self.controller
            .handle_peer_gone(peer.key, now, &mut self.keys);
    }

    /// Takes over where a peer is and what its link carries; what else differs is put back to what it was.
    fn change_peer(&mut self, old: &Peer, peer: &mut Peer, reloaded: &mut Reloaded) {
        let name = &old.name;
        for (key, differs) in [
            ("name", old.name != peer.name),
            ("connect", old.connect != peer.connect),
            ("trusted", old.trusted != peer.trusted),
            ("secure", old.secure != peer.secure),
        ] {
            if differs {
                reloaded.restart.push(format!("`{key}` of peer `{name}`"));
            }
        }
        (peer.connect, peer.trusted, peer.secure) = (old.connect, old.trusted, old.secure);
        peer.name.clone_from(&old.name);
        if old.rate != peer.rate {
            self.know(peer);
            reloaded.applied.push(format!("`rate` of peer `{name}`"));
        }
        if old.reach() != peer.reach() {
            self.peers.insert(peer.key, as_secured(peer, &self.config));
            self.dial(peer);
            reloaded
                .applied
                .push(format!("`addresses` of peer `{name}`"));
        }
    }

    fn know(&mut self, peer: &Peer) {
        let peer = as_secured(peer, &self.config);
        let now = self.now();
        self.controller
            .handle_peer(known(&peer), now, &mut self.keys);
        self.peers.insert(peer.key, peer);
    }

    /// Dials a peer where it is now, if it is to be dialled; a link that there is stays.
    fn dial(&self, peer: &Peer) {
        let addresses = peer.reach();
        if peer.connect && (self.config.reach.mdns || !addresses.is_empty()) {
            // Any number that not all nodes have in common spreads retries apart.
            let seed = u64::from_be_bytes(peer.key.0[..8].try_into().expect("a key is longer"));
            self.endpoint.keep_dialled(peer.key, addresses, seed);
        } else {
            self.endpoint.forget(peer.key);
        }
    }
}

/// Returns a peer whose link is secure only if it is ciphered: where ciphers are given up for speed, what is confidential is still sealed
/// from end to end.
pub(super) fn as_secured(peer: &Peer, config: &Config) -> Peer {
    let mut peer = peer.clone();
    peer.secure &= !config.tcp.plain.contains(&peer.key);
    peer
}

/// Returns what the control plane need know of a peer.
pub(super) fn known(peer: &Peer) -> thalweg_core::control::Peer {
    thalweg_core::control::Peer {
        key: peer.key,
        name: peer.name.clone(),
        trusted: peer.trusted,
        rate: peer.rate,
        secure: peer.secure,
    }
}

/// Returns the keys that wait for the next start, and whether they differ.
fn fixed(old: &Config, new: &Config) -> [(&'static str, bool); 11] {
    let listens = |config: &Config| (config.listen.clone(), config.tcp.listen.clone());
    let tcp = |config: &Config| {
        (
            config.tcp.pace,
            config.tcp.connections,
            config.tcp.plain.clone(),
        )
    };
    [
        ("`name`", old.name != new.name),
        ("`key_file`", old.key_file != new.key_file),
        ("`listen`", listens(old) != listens(new)),
        ("`slots`", old.slots != new.slots),
        ("`congestion`", old.congestion != new.congestion),
        ("`socket`", old.socket != new.socket),
        ("[api]", old.api != new.api),
        ("[reach]", old.reach != new.reach),
        ("[tcp]", tcp(old) != tcp(new)),
        ("[fabric]", old.fabric != new.fabric),
        ("[weights]", old.weights != new.weights),
    ]
}

/// Returns what the control plane need know of a configuration.
pub(super) fn settings(config: &Config, id: NodeId, clock: &Clock) -> Settings {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let running = clock.now().saturating_since(Instant::ZERO);
    Settings {
        id,
        name: config.name.clone(),
        slots: config.slots,
        peers: config
            .peers
            .iter()
            .map(|peer| known(&as_secured(peer, config)))
            .collect(),
        weights: config.weights,
        since_1970: Duration::from(since_1970.unwrap_or_default()).saturating_sub(running),
    }
}
