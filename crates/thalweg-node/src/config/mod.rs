//! A node's configuration: from text to validated values, with line and key of what is wrong.
//!
//! *The idea.* Text → `RawConfig` (shape only) → [`Config`] (checked, defaults filled in, paths resolved). A
//! [`Config`] is plain data, so a program builds one without a file ([`Config::new`]).
//!
//! *What it does not do.* It opens no socket and reads no key: [`crate::Node::load`] does.

mod address;
mod raw;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use thalweg_core::congestion::Algorithm;
use thalweg_core::id::NodeId;
use thalweg_core::limits::FILE_BYTES_MAX;
use thalweg_core::model::{NodeName, Weights};
use thalweg_core::pace::Pacing;
use thalweg_core::pace::settings::STANDBYS;
use thalweg_core::units::Bitrate;
use thalweg_net::{Addresses, Host, Relay, file};
use thalweg_world::text::{Format, TextError, error_at};

pub(crate) use self::address::relays;

/// The commented default configuration: every key with its meaning, unit and default.
pub const DEFAULT_CONFIG: &str = include_str!("default.toml");

/// The admin API's address unless configured.
pub const API_DEFAULT: &str = "127.0.0.1:7481";

/// The address that a node listens on unless configured.
pub const LISTEN_DEFAULT: &str = "0.0.0.0:7400";

/// How many adapters a node runs unless configured.
pub const SLOTS_DEFAULT: u32 = 4;

/// A node's configuration, whole and checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's name, for people.
    pub name: NodeName,
    /// The file with the node's secret key, made on the first start.
    pub key_file: PathBuf,
    /// The UDP addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// How TCP is used, for peers with which UDP does not get through.
    pub tcp: Tcp,
    /// How many adapters plans may run here for each stream.
    pub slots: u32,
    /// What decides how much may be on its way over a link.
    pub congestion: Algorithm,
    /// The Unix socket for local publishers and subscribers, if any.
    pub socket: Option<PathBuf>,
    /// The admin API's address, if it is served.
    pub api: Option<SocketAddr>,
    /// How peers are found and reached beyond their configured addresses.
    pub reach: Reach,
    /// Which fabric it belongs to.
    pub fabric: Fabric,
    /// The nodes that this one knows.
    pub peers: Vec<Peer>,
    /// The weights of the planner's cost.
    pub weights: Weights,
    /// Where it is written, if it is.
    pub(crate) written: Option<Box<Written>>,
}

/// The text of a configuration, for a mistake that shows only when the files are read that it names.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) file: String,
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Written({})", self.file)
    }
}

/// How peers are found and reached beyond their configured addresses; all of it is off unless configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Announce and look up by mDNS on the local network.
    pub mdns: bool,
    /// The relays by which this node can be reached where it has no address, and may reach others.
    pub relays: Vec<Relay>,
    /// Who vouches for their certificates, beside those whom browsers believe.
    pub relay_ca: Option<PathBuf>,
    /// Where packets may go: anywhere, or to the addresses that are configured alone.
    pub packets: thalweg_net::Reach,
}

/// How TCP is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// The TCP addresses to listen on; none unless configured.
    pub listen: Vec<SocketAddr>,
    /// Who says how much may be handed to a connection.
    pub pace: Pacing,
    /// How many connections a link has that this node dials: one carries, the others stand by.
    pub connections: usize,
    /// Peers with which links over TCP go in the clear behind their handshake; each must say the same of this node.
    pub plain: Vec<NodeId>,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            pace: Pacing::default(),
            connections: 1 + STANDBYS,
            plain: Vec::new(),
        }
    }
}

/// The fabric that a node belongs to, and where it keeps what it knows of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fabric {
    /// Whose grants count.
    pub owner: Owner,
    /// The file with this node's grant, what is revoked, and open tickets; none: nothing is kept over a restart.
    pub state: Option<PathBuf>,
}

/// Whose grants count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// The owner that the file names, which `thalweg join` wrote; nobody if there is none: then the configured peers
    /// have all rights.
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
    /// Its name, for people.
    pub name: NodeName,
    /// Its key.
    pub key: NodeId,
    /// Where to dial it over UDP, if it is to be dialled.
    pub addresses: Vec<SocketAddr>,
    /// Where to dial it over TCP, when nobody answers over UDP.
    pub tcp_addresses: Vec<SocketAddr>,
    /// The relays by which it can be reached.
    pub relays: Vec<Relay>,
    /// The names of hosts, or addresses with their interface's name, where to dial it over UDP.
    pub hosts: Vec<Host>,
    /// The same over TCP.
    pub tcp_hosts: Vec<Host>,
    /// Whether it may connect.
    pub connect: bool,
    /// Whether it may see the plaintext of confidential streams.
    pub trusted: bool,
    /// Whether nobody else can listen on the way to it.
    pub secure: bool,
    /// What the link to it can carry, if that is known.
    pub rate: Option<Bitrate>,
}

impl Peer {
    /// Returns where it can be dialled.
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

/// A configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is far larger than a configuration.
    #[error(
        "{path} has more than {FILE_BYTES_MAX} bytes, which are the most that a configuration has"
    )]
    TooLarge {
        /// Which file.
        path: PathBuf,
    },
    /// A key is unknown, missing, or has a value that cannot be.
    #[error(transparent)]
    Text(#[from] TextError),
}

impl Config {
    /// Returns the configuration of a node that listens on a free loopback port, knows nobody and serves no API.
    pub fn new(name: NodeName, key_file: PathBuf) -> Self {
        Self {
            name,
            key_file,
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            tcp: Tcp::default(),
            slots: SLOTS_DEFAULT,
            congestion: Algorithm::default(),
            socket: None,
            api: None,
            reach: Reach::default(),
            fabric: Fabric::default(),
            peers: Vec::new(),
            weights: Weights::default(),
            written: None,
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
            .map_err(|_| failed(io::Error::other("it is not text in UTF-8")))?;
        Self::parse_as(&text, path)
    }

    /// Reads and checks what is in a configuration file, or will be; relative paths in it are relative to the file.
    pub fn parse_as(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok(Self::parse(text, &path.display().to_string(), folder)?)
    }

    /// Reads and checks a configuration; `file` is named in errors, relative paths are relative to `folder`.
    pub fn parse(text: &str, file: &str, folder: &Path) -> Result<Self, TextError> {
        raw::RawConfig::parse(text, file)?.resolve(text, file, folder)
    }

    /// Returns the first peer that has this node's own key, as a mistake.
    pub(crate) fn own_peer(&self, own: NodeId) -> Option<TextError> {
        let place = self.peers.iter().position(|peer| peer.key == own)?;
        let key = format!("peer[{place}].key");
        let message = "this is the node's own key, and a node is no peer of its own: leave this [[peer]] out, or write the key that \
                       `thalweg id` prints at the other node";
        Some(match &self.written {
            Some(written) => {
                let Written { text, file } = &**written;
                error_at(text, Format::Toml, file, &key, message)
            }
            None => TextError {
                file: "the configuration".into(),
                line: None,
                path: key,
                message: message.into(),
            },
        })
    }
}

/// Returns the Unix socket of a node whose configuration names none: in the session's run-time folder if there is one.
pub fn socket_default(folder: &Path) -> PathBuf {
    std::env::var_os("XDG_RUNTIME_DIR").map_or_else(
        || folder.join("thalweg.sock"),
        |run| Path::new(&run).join("thalweg").join("node.sock"),
    )
}
