//! Configuration reload while the node runs.
//!
//! *The idea.* Peers are added, removed and moved more often than anything else in a configuration,
//! and no flow depends on the address at which a peer is dialled. So a reload adds and removes
//! peers and applies new addresses and rates. Everything else waits for a restart: the node is
//! built on it (its key, sockets, fabric), or plans in force rely on it (trust). The reload lists
//! the keys that wait.
//!
//! *What it does not do.* It reads no file: its caller has read and checked the configuration.

use std::mem;
use std::time::{SystemTime, UNIX_EPOCH};

use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Instant};
use thalweg_control::control::Settings;
use thalweg_net::Clock;
use thalweg_world::text::TextError;

use super::Neighbours;
use crate::config::{Config, Peer};
use crate::control::mind::Mind;
use crate::input::Reloaded;

impl Neighbours {
    /// Applies the reloadable part of a configuration.
    ///
    /// Fails   if a peer is this node itself; nothing is applied then
    pub(in super::super) fn reload(
        &mut self,
        mut config: Config,
        mind: &mut Mind,
    ) -> Result<Reloaded, TextError> {
        if let Some(mistake) = config.own_peer(mind.controller().id()) {
            return Err(mistake);
        }
        let mut reloaded = Reloaded::default();
        for (key, differs) in restart_keys(&self.config, &config) {
            if differs {
                reloaded.restart.push(key.into());
            }
        }
        let before = mem::take(&mut self.config.peers);
        for old in &before {
            if config.peers.iter().all(|peer| peer.key != old.key) {
                self.remove_peer(old, mind);
                reloaded
                    .applied
                    .push(format!("peer `{}` removed", old.name));
            }
        }
        for peer in &mut config.peers {
            if let Some(old) = before.iter().find(|old| old.key == peer.key) {
                self.change_peer(old, peer, &mut reloaded, mind);
            } else {
                self.add_peer(peer, mind);
                reloaded.applied.push(format!("peer `{}` added", peer.name));
            }
        }
        self.config.peers = config.peers;
        self.config.source_text = config.source_text;
        Ok(reloaded)
    }

    fn add_peer(&mut self, peer: &Peer, mind: &mut Mind) {
        self.register(peer, mind);
        if peer.connect && mind.controller().roll().fabric().is_none() {
            self.admission.admit(peer.key);
        }
        self.dial(peer);
    }

    /// Removes a peer. In a fabric without an owner the peer may no longer connect, and its link
    /// closes.
    fn remove_peer(&mut self, peer: &Peer, mind: &mut Mind) {
        self.endpoint.forget(peer.key);
        if mind.controller().roll().fabric().is_none() {
            self.admission.revoke(peer.key);
        }
        self.peers.remove(&peer.key);
        self.states.remove(&peer.key);
        mind.drive(|controller, now, keys| controller.handle_peer_gone(peer.key, now, keys));
    }

    /// Applies a peer's new addresses and rate; other changes are reverted in `peer` and wait for a
    /// restart.
    fn change_peer(
        &mut self,
        old: &Peer,
        peer: &mut Peer,
        reloaded: &mut Reloaded,
        mind: &mut Mind,
    ) {
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
            self.register(peer, mind);
            reloaded.applied.push(format!("`rate` of peer `{name}`"));
        }
        if old.reach() != peer.reach() {
            self.peers
                .insert(peer.key, with_effective_security(peer, &self.config));
            self.dial(peer);
            reloaded
                .applied
                .push(format!("`addresses` of peer `{name}`"));
        }
    }

    fn register(&mut self, peer: &Peer, mind: &mut Mind) {
        let peer = with_effective_security(peer, &self.config);
        let known = control_peer(&peer);
        mind.drive(|controller, now, keys| controller.handle_peer(known, now, keys));
        self.peers.insert(peer.key, peer);
    }

    /// Dials a peer at its current addresses if it is configured to be dialled; an existing link
    /// stays.
    fn dial(&self, peer: &Peer) {
        let addresses = peer.reach();
        if peer.connect && (self.config.reach.mdns || !addresses.is_empty()) {
            // Any number that differs between nodes spreads retries in time.
            let seed = u64::from_be_bytes(peer.key.0[..8].try_into().expect("a key is longer"));
            self.endpoint.keep_dialled(peer.key, addresses, seed);
        } else {
            self.endpoint.forget(peer.key);
        }
    }
}

/// Returns a peer with its link marked secure only if the link is encrypted. Where encryption is off
/// for speed, confidential streams are still sealed end to end.
pub(super) fn with_effective_security(peer: &Peer, config: &Config) -> Peer {
    let mut peer = peer.clone();
    peer.secure &= !config.tcp.plain.contains(&peer.key);
    peer
}

/// Returns a peer in the control plane's form.
fn control_peer(peer: &Peer) -> thalweg_control::control::Peer {
    thalweg_control::control::Peer {
        key: peer.key,
        name: peer.name.clone(),
        trusted: peer.trusted,
        rate: peer.rate,
        secure: peer.secure,
    }
}

/// Returns the keys that wait for a restart, and whether each differs.
fn restart_keys(old: &Config, new: &Config) -> [(&'static str, bool); 11] {
    let listens = |config: &Config| (config.listen.clone(), config.tcp.listen.clone());
    let tcp = |config: &Config| {
        (
            config.tcp.pace,
            config.tcp.connections,
            config.tcp.plain.clone(),
            config.tcp.clear_loop,
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

/// Returns the control plane's settings from a configuration.
pub(in super::super) fn settings(config: &Config, id: NodeId, clock: &Clock) -> Settings {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let running = clock.now().saturating_since(Instant::ZERO);
    Settings {
        id,
        name: config.name.clone(),
        slots: config.slots,
        peers: config
            .peers
            .iter()
            .map(|peer| control_peer(&with_effective_security(peer, config)))
            .collect(),
        weights: config.weights,
        since_1970: Duration::from(since_1970.unwrap_or_default()).saturating_sub(running),
    }
}
