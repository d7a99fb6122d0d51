//! The shape of the configuration file, and the checks that need more than one key.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thalweg_base::id::NodeId;
use thalweg_base::limits::{ADAPTERS_PER_NODE_MAX, NEIGHBOURS_MAX};
use thalweg_base::units::Bitrate;
use thalweg_link::congestion::Algorithm;
use thalweg_link::tcp_mux::Pacing;
use thalweg_link::tcp_mux::settings::CARRIERS_MAX;
use thalweg_net::{Relay, identity};
use thalweg_planner::model::{NodeName, Weights};
use thalweg_world::text::{self, TextError};

use super::address::{Address, own_address, relays, split_by_kind};
use super::ends::{self, RawEgress, RawIngest};
use super::renamed;
use super::{
    API_DEFAULT, Config, Fabric, LISTEN_DEFAULT, Owner, Peer, Reach, SLOTS_DEFAULT, SourceText,
    Tcp, socket_default,
};

/// Maximum number of a node's adapters for one stream; no plan uses more.
const SLOTS_MAX: u32 = ADAPTERS_PER_NODE_MAX as u32;

/// Maximum length of a Unix socket's path: unix(7) has 108 bytes, including the terminating zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    name: NodeName,
    key_file: Option<PathBuf>,
    listen: Option<Vec<Address>>,
    slots: Option<u32>,
    #[serde(default)]
    congestion: Algorithm,
    socket: Option<PathBuf>,
    #[serde(default)]
    reach: RawReach,
    #[serde(default)]
    tcp: RawTcp,
    #[serde(default)]
    engine: RawEngine,
    #[serde(default)]
    fabric: RawFabric,
    #[serde(default)]
    api: RawApi,
    #[serde(default)]
    weights: Weights,
    #[serde(default)]
    peer: Vec<RawPeer>,
    #[serde(default)]
    ingest: Vec<RawIngest>,
    #[serde(default)]
    egress: Vec<RawEgress>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawReach {
    mdns: bool,
    #[serde(deserialize_with = "relays")]
    relays: Vec<Relay>,
    relay_ca: Option<PathBuf>,
    confined: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawTcp {
    send_credit: RawCredit,
    connections: Option<usize>,
    cleartext_peers: Vec<NodeName>,
    cleartext_loop: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawEngine {
    #[serde(deserialize_with = "own_address")]
    listen: Option<SocketAddr>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawCredit {
    #[default]
    Kernel,
    Acknowledged,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawFabric {
    owner: Option<String>,
    state_file: Option<PathBuf>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawApi {
    enabled: Option<bool>,
    #[serde(deserialize_with = "own_address")]
    listen: Option<SocketAddr>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPeer {
    name: NodeName,
    key: NodeId,
    #[serde(default)]
    addresses: Vec<Address>,
    connect: Option<bool>,
    trusted: Option<bool>,
    secure: Option<bool>,
    rate: Option<Bitrate>,
}

impl RawConfig {
    pub(super) fn parse(text: &str, file: &str) -> Result<Self, TextError> {
        text::from_toml(text, file).map_err(renamed::explain)
    }

    /// Fills in the defaults and runs the checks that span several keys.
    pub(super) fn resolve(
        mut self,
        text: &str,
        file: &str,
        folder: &Path,
    ) -> Result<Config, TextError> {
        let listen_fault = self.resolve_listen();
        let socket = self.socket.as_ref().map(|socket| folder.join(socket));
        let socket = socket.unwrap_or_else(|| socket_default(folder));
        let fault = listen_fault
            .or_else(|| self.first_fault())
            .or_else(|| self.shared_file(Path::new(file), folder))
            .or_else(|| fault_of_socket(&socket));
        if let Some((path, message)) = fault {
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
        let key_file = folder.join(self.key_file());
        let state = folder.join(self.fabric.state_file());
        let (listen, tcp) = match self.listen {
            Some(addresses) => {
                let addresses = split_by_kind(addresses);
                (addresses.udp, addresses.tcp)
            }
            None => (vec![fixed(LISTEN_DEFAULT)], Vec::new()),
        };
        Ok(Config {
            name: self.name,
            key_file,
            listen,
            tcp: self.tcp.resolve(tcp, &self.peer),
            engine: self.engine.listen,
            slots: self.slots.unwrap_or(SLOTS_DEFAULT),
            congestion: self.congestion,
            socket: Some(socket),
            api: self.api.enabled.unwrap_or(true).then_some(api),
            reach: Reach {
                packets: self.reach.packets(),
                mdns: self.reach.mdns,
                relays: self.reach.relays,
                relay_ca: self.reach.relay_ca.map(|file| folder.join(file)),
            },
            fabric: Fabric {
                owner: self.fabric.owner(),
                state: Some(state),
            },
            peers: self.peer.into_iter().map(RawPeer::resolve).collect(),
            weights: self.weights,
            ingest: self
                .ingest
                .into_iter()
                .map(|one| one.resolve(folder))
                .collect(),
            egress: self
                .egress
                .into_iter()
                .map(|one| one.resolve(folder))
                .collect(),
            source_text: Some(Box::new(SourceText {
                text: text.to_owned(),
                file: file.to_owned(),
            })),
        })
    }

    /// Replaces interface names by their indices in the listening addresses; returns the first that
    /// fails.
    fn resolve_listen(&mut self) -> Option<(String, String)> {
        for (place, address) in self.listen.iter_mut().flatten().enumerate() {
            match address.clone().into_listening() {
                Ok(resolved) => *address = resolved,
                Err(message) => return Some((format!("listen[{place}]"), message)),
            }
        }
        None
    }

    /// Returns the key path and the message of the first mistake.
    fn first_fault(&self) -> Option<(String, String)> {
        let fault = self.fault_of_paths().or_else(|| self.fault_of_listen());
        if let Some(fault) = fault.or_else(|| self.fault_of_relays()) {
            return Some(fault);
        }
        if let Some(slots) = self.slots.filter(|slots| *slots > SLOTS_MAX) {
            let message = format!(
                "at most {SLOTS_MAX} adapters of a plan run on a node: {slots} is too many"
            );
            return Some(("slots".into(), message));
        }
        if self.reach.confined && self.reach.mdns {
            let message = "`mdns` and `confined` exclude each other, for a confined node uses configured addresses only: leave one out";
            return Some(("reach.mdns".into(), message.into()));
        }
        if let Some(fault) = self.weights.faults().into_iter().next() {
            return Some((fault.path, fault.message));
        }
        if let Some(connections) = self.tcp.connections
            && !(1..=CARRIERS_MAX).contains(&connections)
        {
            let message = format!(
                "a link over TCP has 1 to {CARRIERS_MAX} connections, one active and the others standby, not {connections}"
            );
            return Some(("tcp.connections".into(), message));
        }
        for (index, name) in self.tcp.cleartext_peers.iter().enumerate() {
            let peer = self.peer.iter().find(|peer| peer.name == *name);
            let message = match peer.map(|peer| peer.secure) {
                Some(Some(true)) => continue,
                Some(_) => format!(
                    "links with `{name}` would go in the clear: write `secure = true` under that [[peer]] if nobody else \
                     can listen or speak on the way to it"
                ),
                None => format!("no [[peer]] is called `{name}`"),
            };
            return Some((format!("tcp.cleartext_peers[{index}]"), message));
        }
        if let Some(message) = self.fabric.fault() {
            return Some(("fabric.owner".into(), message));
        }
        self.fault_of_peers()
            .or_else(|| ends::first_fault(&self.ingest, &self.egress))
    }

    /// Returns the first empty path.
    fn fault_of_paths(&self) -> Option<(String, String)> {
        let named = [
            ("key_file", self.key_file.as_deref()),
            ("socket", self.socket.as_deref()),
            ("reach.relay_ca", self.reach.relay_ca.as_deref()),
            ("fabric.state_file", self.fabric.state_file.as_deref()),
        ];
        let is_empty = |path: Option<&Path>| path.is_some_and(|path| path.as_os_str().is_empty());
        let (key, _) = named.into_iter().find(|(_, path)| is_empty(*path))?;
        let message =
            "an empty path names no file: write one, or leave the key out for the default";
        Some((key.into(), message.into()))
    }

    /// Returns the first mistake in the list of listening addresses.
    fn fault_of_listen(&self) -> Option<(String, String)> {
        let listen = self.listen.as_ref()?;
        if !listen
            .iter()
            .any(|address| matches!(address, Address::Udp(_)))
        {
            let message = "a node listens on at least one UDP address, such as \"0.0.0.0:7400\"";
            return Some(("listen".into(), message.into()));
        }
        listen.iter().enumerate().find_map(|(place, address)| {
            // Each port 0 gets another port.
            if let Address::Udp(socket) | Address::Tcp(socket) = address
                && socket.port() == 0
            {
                return None;
            }
            let before = listen.iter().position(|other| other == address)?;
            let message = format!("this is listen[{before}] already: name each address once");
            (before < place).then(|| (format!("listen[{place}]"), message))
        })
    }

    /// Returns the mistake of the first invalid peer.
    fn fault_of_peers(&self) -> Option<(String, String)> {
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
            if !identity::is_possible(peer.key) {
                return Some((format!("{this}.key"), invalid_key(peer.key)));
            }
            if peer.rate.is_some_and(|rate| rate == Bitrate::ZERO) {
                let message =
                    "a link's rate must be above zero; leave the key out if the rate is unknown";
                return Some((format!("{this}.rate"), message.into()));
            }
        }
        None
    }

    /// Returns the first file that is named for two purposes; one would overwrite the other.
    fn shared_file(&self, config: &Path, folder: &Path) -> Option<(String, String)> {
        // A common prefix, so that paths compare wherever the configuration is.
        let folder = Path::new(".").join(folder);
        let own = config.file_name().map(|name| folder.join(name));
        let own = own.map(|path| ("this configuration", path));
        let named = [
            ("key_file", Some(self.key_file())),
            ("fabric.state_file", Some(self.fabric.state_file())),
            ("socket", self.socket.as_deref()),
        ];
        let named = named
            .iter()
            .filter_map(|(key, path)| Some((*key, folder.join((*path)?))));
        let mut before: Vec<(&str, PathBuf)> = own.into_iter().collect();
        for (key, path) in named {
            // Compared by components, so that `./a` equals `a`.
            if let Some((other, _)) = before.iter().find(|(_, other)| *other == path) {
                let message = format!("{} is already {other}: name another", path.display());
                return Some((key.into(), message));
            }
            before.push((key, path));
        }
        None
    }

    fn key_file(&self) -> &Path {
        self.key_file.as_deref().unwrap_or(Path::new("node.key"))
    }

    /// Returns the first relay that is named where it has no effect.
    fn fault_of_relays(&self) -> Option<(String, String)> {
        let is_relay = |address: &Address| matches!(address, Address::Relay(_));
        if let Some(place) = self.listen.iter().flatten().position(is_relay) {
            let message = "a node listens on addresses of its own; the relays by which it can be reached are `relays` \
                           under [reach]";
            return Some((format!("listen[{place}]"), message.into()));
        }
        if !self.reach.relays.is_empty() {
            return None;
        }
        self.peer.iter().enumerate().find_map(|(index, peer)| {
            let place = peer.addresses.iter().position(is_relay)?;
            let message = "this node uses no relay: name one in `relays` under [reach], the same if there is no other";
            Some((format!("peer[{index}].addresses[{place}]"), message.into()))
        })
    }
}

impl RawReach {
    const fn packets(&self) -> thalweg_net::Reach {
        if self.confined {
            thalweg_net::Reach::Configured
        } else {
            thalweg_net::Reach::Anywhere
        }
    }
}

impl RawTcp {
    /// Fills in the defaults. Unknown names have been rejected before.
    fn resolve(self, listen: Vec<SocketAddr>, peers: &[RawPeer]) -> Tcp {
        let key = |name: &NodeName| {
            let peer = peers.iter().find(|peer| peer.name == *name);
            peer.map(|peer| peer.key)
        };
        Tcp {
            plain: self.cleartext_peers.iter().filter_map(key).collect(),
            listen,
            pace: match self.send_credit {
                RawCredit::Kernel => Pacing::Kernel,
                RawCredit::Acknowledged => Pacing::Acked,
            },
            connections: self.connections.unwrap_or(Tcp::default().connections),
            clear_loop: self.cleartext_loop,
        }
    }
}

impl RawFabric {
    fn state_file(&self) -> &Path {
        self.state_file
            .as_deref()
            .unwrap_or(Path::new("fabric.json"))
    }

    fn fault(&self) -> Option<String> {
        let owner = self.owner.as_deref().filter(|owner| *owner != "self")?;
        match owner.parse::<NodeId>() {
            Ok(key) => (!identity::is_possible(key)).then(|| invalid_key(key)),
            Err(error) => Some(format!("{error}, or \"self\" for this node's own")),
        }
    }

    /// Returns the owner. An invalid one has been rejected before.
    fn owner(&self) -> Owner {
        match self.owner.as_deref() {
            None => Owner::Kept,
            Some("self") => Owner::Own,
            Some(key) => key.parse().map_or(Owner::Kept, Owner::Key),
        }
    }
}

impl RawPeer {
    fn resolve(self) -> Peer {
        let addresses = split_by_kind(self.addresses);
        Peer {
            name: self.name,
            key: self.key,
            addresses: addresses.udp,
            tcp_addresses: addresses.tcp,
            relays: addresses.relays,
            hosts: addresses.hosts,
            tcp_hosts: addresses.tcp_hosts,
            connect: self.connect.unwrap_or(true),
            trusted: self.trusted.unwrap_or(false),
            secure: self.secure.unwrap_or(true),
            rate: self.rate,
        }
    }
}

/// Returns the mistake of the local socket's resolved path.
fn fault_of_socket(socket: &Path) -> Option<(String, String)> {
    let bytes = socket.as_os_str().len();
    let message = format!(
        "{} has {bytes} bytes, and the path of a Unix socket has at most {SOCKET_PATH_BYTES_MAX}: name a shorter one, such as \
         \"/run/thalweg.sock\"",
        socket.display()
    );
    (bytes > SOCKET_PATH_BYTES_MAX).then(|| ("socket".into(), message))
}

/// Returns the message for a key that no node can have.
fn invalid_key(key: NodeId) -> String {
    format!(
        "{} is not a node's key: copy what `thalweg id` prints there",
        key.short()
    )
}
