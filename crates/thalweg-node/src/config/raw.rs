//! The shape of the configuration file, and the checks that need more than one key.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thalweg_core::congestion::Algorithm;
use thalweg_core::id::NodeId;
use thalweg_core::limits::NEIGHBOURS_MAX;
use thalweg_core::model::{NodeName, Weights};
use thalweg_core::units::Bitrate;
use thalweg_world::text::{self, TextError};

use super::{API_DEFAULT, Config, LISTEN_DEFAULT, Peer, Reach, SLOTS_DEFAULT, socket_default};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    name: NodeName,
    key_file: Option<PathBuf>,
    listen: Option<Vec<SocketAddr>>,
    slots: Option<u32>,
    #[serde(default)]
    congestion: Algorithm,
    socket: Option<PathBuf>,
    #[serde(default)]
    reach: RawReach,
    #[serde(default)]
    api: RawApi,
    #[serde(default)]
    weights: Weights,
    #[serde(default)]
    peer: Vec<RawPeer>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawReach {
    mdns: bool,
    relays: Vec<String>,
    confined: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawApi {
    enabled: Option<bool>,
    listen: Option<SocketAddr>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPeer {
    name: NodeName,
    key: NodeId,
    #[serde(default)]
    addresses: Vec<SocketAddr>,
    connect: Option<bool>,
    trusted: Option<bool>,
    secure: Option<bool>,
    rate: Option<Bitrate>,
}

impl RawConfig {
    pub(super) fn parse(text: &str, file: &str) -> Result<Self, TextError> {
        text::from_toml(text, file)
    }

    /// Fills in the defaults and checks what spans several keys.
    pub(super) fn resolve(
        self,
        text: &str,
        file: &str,
        folder: &Path,
    ) -> Result<Config, TextError> {
        if let Some((path, message)) = self.first_fault() {
            return Err(text::error_at(
                text,
                text::Format::Toml,
                file,
                &path,
                &message,
            ));
        }
        let fixed = |address: &str| address.parse().expect("the constant is an address");
        let api = self.api.listen.unwrap_or_else(|| fixed(API_DEFAULT));
        Ok(Config {
            name: self.name,
            key_file: folder.join(self.key_file.unwrap_or_else(|| "node.key".into())),
            listen: self.listen.unwrap_or_else(|| vec![fixed(LISTEN_DEFAULT)]),
            slots: self.slots.unwrap_or(SLOTS_DEFAULT),
            congestion: self.congestion,
            socket: Some(match self.socket {
                Some(socket) => folder.join(socket),
                None => socket_default(folder),
            }),
            api: self.api.enabled.unwrap_or(true).then_some(api),
            reach: Reach {
                mdns: self.reach.mdns,
                relays: self.reach.relays,
                confined: self.reach.confined,
            },
            peers: self.peer.into_iter().map(RawPeer::resolve).collect(),
            weights: self.weights,
        })
    }

    /// Returns the key path and the message of the first thing that is wrong.
    fn first_fault(&self) -> Option<(String, String)> {
        if self.listen.as_ref().is_some_and(Vec::is_empty) {
            let message = "a node listens on one address at least, such as \"0.0.0.0:7400\"";
            return Some(("listen".into(), message.into()));
        }
        if self.peer.len() > NEIGHBOURS_MAX {
            let message = format!(
                "{} peers are above the limit of {NEIGHBOURS_MAX}",
                self.peer.len()
            );
            return Some((format!("peer[{NEIGHBOURS_MAX}]"), message));
        }
        let mut names = BTreeMap::from([(&self.name, "this node itself".to_string())]);
        let mut keys = BTreeMap::new();
        for (index, peer) in self.peer.iter().enumerate() {
            let this = format!("peer[{index}]");
            if let Some(other) = names.insert(&peer.name, this.clone()) {
                let message = format!("`{}` is already the name of {other}", peer.name);
                return Some((format!("{this}.name"), message));
            }
            if let Some(other) = keys.insert(peer.key, this.clone()) {
                let message = format!("the key {} is already that of {other}", peer.key.short());
                return Some((format!("{this}.key"), message));
            }
            if peer.rate.is_some_and(|rate| rate == Bitrate::ZERO) {
                let message = "a link that carries nothing is no link; leave the key out if the rate is unknown";
                return Some((format!("{this}.rate"), message.into()));
            }
        }
        None
    }
}

impl RawPeer {
    fn resolve(self) -> Peer {
        Peer {
            name: self.name,
            key: self.key,
            addresses: self.addresses,
            connect: self.connect.unwrap_or(true),
            trusted: self.trusted.unwrap_or(false),
            secure: self.secure.unwrap_or(true),
            rate: self.rate,
        }
    }
}
