//! A node's configuration: from text to validated values. Errors name the line and key.
//!
//! *The idea.* Text → `RawConfig` (shape only) → [`Config`] (checked, defaults filled in, paths
//! resolved). A [`Config`] is plain data, so a program can build one without a file
//! ([`Config::new`]).
//!
//! *What it does not do.* It opens no sockets and reads no keys; [`crate::Node::load`] does.

mod address;
mod ends;
mod raw;
mod renamed;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use thalweg_base::id::NodeId;
use thalweg_base::limits::FILE_BYTES_MAX;
use thalweg_base::units::Bitrate;
use thalweg_link::congestion::Algorithm;
use thalweg_link::tcp_mux::Pacing;
use thalweg_link::tcp_mux::settings::STANDBYS;
use thalweg_net::{Addresses, Host, Relay, file};
use thalweg_planner::model::{NodeName, Weights};
use thalweg_world::text::{Format, TextError, error_at};

pub(crate) use self::address::relays;
pub use self::ends::{Egress, Ingest};

/// The commented default configuration: every key with its meaning, unit and default.
pub const DEFAULT_CONFIG: &str = include_str!("default.toml");

/// The admin API's address unless configured.
pub const API_DEFAULT: &str = "127.0.0.1:7481";

/// The address that a node listens on unless configured.
pub const LISTEN_DEFAULT: &str = "0.0.0.0:7400";

/// The number of adapters that a node runs unless configured.
pub const SLOTS_DEFAULT: u32 = 4;

/// A node's configuration, complete and checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's display name.
    pub name: NodeName,
    /// The file with the node's secret key, created on the first start.
    pub key_file: PathBuf,
    /// The UDP addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// Use of TCP, for peers that UDP does not reach.
    pub tcp: Tcp,
    /// The UDP address of the engine, if links with peers that are reached directly go over one.
    pub engine: Option<SocketAddr>,
    /// The number of adapters that plans may run here for each stream.
    pub slots: u32,
    /// The congestion controller: it limits the data in flight on a link.
    pub congestion: Algorithm,
    /// The Unix socket for local publishers and subscribers, if any.
    pub socket: Option<PathBuf>,
    /// The admin API's address, if it is served.
    pub api: Option<SocketAddr>,
    /// Ways to find and reach peers beyond their configured addresses.
    pub reach: Reach,
    /// The fabric to which it belongs.
    pub fabric: Fabric,
    /// The nodes that this one knows.
    pub peers: Vec<Peer>,
    /// The weights of the planner's cost.
    pub weights: Weights,
    /// The inputs that run here.
    pub ingest: Vec<Ingest>,
    /// The outputs that run here.
    pub egress: Vec<Egress>,
    /// Its text, if it was read from a file.
    pub(crate) source_text: Option<Box<SourceText>>,
}

/// The text of a configuration, for errors that show only once the files that it names are read.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SourceText {
    pub(crate) text: String,
    pub(crate) file: String,
}

impl fmt::Debug for SourceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceText({})", self.file)
    }
}

/// Ways to find and reach peers beyond their configured addresses; all are off unless configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Announce and look up by mDNS on the local network.
    pub mdns: bool,
    /// The relays that this node uses: to be reached without an address of its own, and to reach
    /// others.
    pub relays: Vec<Relay>,
    /// A file of root certificates for the relays, besides the public ones.
    pub relay_ca: Option<PathBuf>,
    /// Where packets may be sent: anywhere, or to configured addresses only.
    pub packets: thalweg_net::Reach,
}

/// The use of TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// The TCP addresses to listen on; none unless configured.
    pub listen: Vec<SocketAddr>,
    /// What limits the bytes handed to a connection.
    pub pace: Pacing,
    /// Connections of a link that this node dials: one carries data, the others stand by.
    pub connections: usize,
    /// Peers with which links over TCP are not encrypted after the handshake; each must be
    /// configured the same way.
    pub plain: Vec<NodeId>,
    /// Whether one thread's loop carries those links, in place of a task for each connection.
    pub clear_loop: bool,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            pace: Pacing::default(),
            connections: 1 + STANDBYS,
            plain: Vec::new(),
            clear_loop: false,
        }
    }
}

/// The fabric to which a node belongs, and the file with its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fabric {
    /// The source of valid grants.
    pub owner: Owner,
    /// The file with this node's grant, revocations and open tickets; `None` keeps nothing over a
    /// restart.
    pub state: Option<PathBuf>,
}

/// The source of valid grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// The owner named in the state file that `thalweg join` wrote. Without one there is no owner:
    /// configured peers have all rights.
    #[default]
    Kept,
    /// This node.
    Own,
    /// The node with this key.
    Key(NodeId),
}

/// A node that this one knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// Its display name.
    pub name: NodeName,
    /// Its key.
    pub key: NodeId,
    /// The UDP addresses at which to dial it.
    pub addresses: Vec<SocketAddr>,
    /// The TCP addresses, dialled when UDP gets no answer.
    pub tcp_addresses: Vec<SocketAddr>,
    /// The relays through which it can be reached.
    pub relays: Vec<Relay>,
    /// Host names, or addresses with their interface's name, at which to dial it over UDP.
    pub hosts: Vec<Host>,
    /// The same over TCP.
    pub tcp_hosts: Vec<Host>,
    /// Whether it may connect.
    pub connect: bool,
    /// Whether it may see the plaintext of confidential streams.
    pub trusted: bool,
    /// Whether no third party can listen on the link to it.
    pub secure: bool,
    /// The capacity of the link to it, if known.
    pub rate: Option<Bitrate>,
}

impl Peer {
    /// Returns the addresses at which it can be dialled.
    pub(crate) fn reach(&self) -> Addresses {
        Addresses {
            udp: self.addresses.clone(),
            tcp: self.tcp_addresses.clone(),
            relays: self.relays.clone(),
            hosts: self.hosts.clone(),
            tcp_hosts: self.tcp_hosts.clone(),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is far larger than a configuration.
    #[error("{path} has more than {FILE_BYTES_MAX} bytes, the maximum of a configuration")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A key is unknown, missing, or has an invalid value.
    #[error(transparent)]
    Text(#[from] TextError),
}

impl Config {
    /// Returns the configuration of a node that listens on a free loopback port, without peers and
    /// without an API.
    pub fn new(name: NodeName, key_file: PathBuf) -> Self {
        Self {
            name,
            key_file,
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            tcp: Tcp::default(),
            engine: None,
            slots: SLOTS_DEFAULT,
            congestion: Algorithm::default(),
            socket: None,
            api: None,
            reach: Reach::default(),
            fabric: Fabric::default(),
            peers: Vec::new(),
            weights: Weights::default(),
            ingest: Vec::new(),
            egress: Vec::new(),
            source_text: None,
        }
    }

    /// Reads and checks a configuration file; relative paths in it are relative to it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let failed = |source: io::Error| {
            let path = path.to_path_buf();
            match source.kind() {
                io::ErrorKind::FileTooLarge => ConfigError::TooLarge { path },
                _ => ConfigError::Read { path, source },
            }
        };
        let bytes = file::read(path).map_err(failed)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| failed(io::Error::other("it is not UTF-8 text")))?;
        Self::parse_as(&text, path)
    }

    /// Reads and checks the text of a configuration file, which need not exist; relative paths in
    /// it are relative to the file.
    pub fn parse_as(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok(Self::parse(text, &path.display().to_string(), folder)?)
    }

    /// Reads and checks a configuration; `file` is named in errors, relative paths are relative to `folder`.
    pub fn parse(text: &str, file: &str, folder: &Path) -> Result<Self, TextError> {
        raw::RawConfig::parse(text, file)?.resolve(text, file, folder)
    }

    /// Returns the mistake of a peer with this node's own key, if there is one.
    pub(crate) fn own_peer(&self, own: NodeId) -> Option<TextError> {
        let place = self.peers.iter().position(|peer| peer.key == own)?;
        let key = format!("peer[{place}].key");
        let message = "this is the node's own key, and a node cannot be its own peer: leave this [[peer]] out, or write the key that \
                       `thalweg id` prints at the other node";
        Some(self.mistake(&key, message))
    }

    /// Returns a mistake at a key, with its line if the configuration was read from a file.
    pub(crate) fn mistake(&self, key: &str, message: &str) -> TextError {
        match &self.source_text {
            Some(source_text) => {
                let SourceText { text, file } = &**source_text;
                error_at(text, Format::Toml, file, key, message)
            }
            None => TextError {
                file: "the configuration".into(),
                line: None,
                path: key.into(),
                message: message.into(),
            },
        }
    }
}

/// Returns the default Unix socket of a node: in the session's run-time folder if there is one.
pub fn socket_default(folder: &Path) -> PathBuf {
    std::env::var_os("XDG_RUNTIME_DIR").map_or_else(
        || folder.join("thalweg.sock"),
        |run| Path::new(&run).join("thalweg").join("node.sock"),
    )
}
