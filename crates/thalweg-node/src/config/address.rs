//! An address in a configuration: of UDP, with `tcp:` before it of TCP, a name in the place of either, or the URL of a relay.
//!
//! *The idea.* What a peer is dialled at may be a name, which is looked up at each dial; what this node listens on is an address, for it is
//! one of its own.
//!
//! *What it does not do.* It looks up no name of a host.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};
use thalweg_net::endpoint::TCP_PREFIX;
use thalweg_net::{Addresses, Host, NoPlace, NoRelay, Place, Relay};

/// One address, and what is spoken there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Udp(SocketAddr),
    Tcp(SocketAddr),
    UdpHost(Host),
    TcpHost(Host),
    Relay(Relay),
}

/// A text is no address.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoAddress {
    Place(NoPlace),
    /// A URL of what is no relay.
    Scheme(String),
    Relay(NoRelay),
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relay(error) => error.fmt(f),
            Self::Scheme(text) => write!(
                f,
                "`{text}` is not an address: write it without what ends in `://`, and for TCP with \"{TCP_PREFIX}\" before it"
            ),
            Self::Place(error) => write!(
                f,
                "{error}; write an IP address or a host's name and a port, such as \"192.0.2.7:7400\", or \
                 \"{TCP_PREFIX}192.0.2.7:7400\" for TCP, or the URL of a relay, such as \"https://relay.example.org\""
            ),
        }
    }
}

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        if text.starts_with("udp://") || text.starts_with("tcp://") {
            return Err(NoAddress::Scheme(text.into()));
        }
        if text.contains("://") {
            return text.parse().map(Self::Relay).map_err(NoAddress::Relay);
        }
        let tcp = text.strip_prefix(TCP_PREFIX);
        let place = tcp.unwrap_or(text).parse().map_err(NoAddress::Place)?;
        Ok(match (place, tcp.is_some()) {
            (Place::Address(address), false) => Self::Udp(address),
            (Place::Address(address), true) => Self::Tcp(address),
            (Place::Host(host), false) => Self::UdpHost(host),
            (Place::Host(host), true) => Self::TcpHost(host),
        })
    }
}

impl Address {
    /// Returns an address of this machine with its interface's number in the place of its name; another as it is.
    ///
    /// Fails   with why it cannot be listened on: a name of a host, or of an interface that there is not
    pub(super) fn listened(self) -> Result<Self, String> {
        let (host, make): (_, fn(SocketAddr) -> Self) = match &self {
            Self::UdpHost(host) => (host, Self::Udp),
            Self::TcpHost(host) => (host, Self::Tcp),
            Self::Udp(_) | Self::Tcp(_) | Self::Relay(_) => return Ok(self),
        };
        if !host.is_zoned() {
            return Err(format!(
                "a node listens on IP addresses of its own, and `{host}` is a name: write one, or \"0.0.0.0:7400\" for all of them"
            ));
        }
        let found = host.look_up_blocking().map_err(|error| error.to_string())?;
        let first = found.first().copied();
        first
            .map(make)
            .ok_or_else(|| format!("`{host}` is no address of this machine"))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Parts addresses of UDP, of TCP and relays, each in the order given.
pub(super) fn parted(addresses: Vec<Address>) -> Addresses {
    let mut parted = Addresses::default();
    for address in addresses {
        match address {
            Address::Udp(address) => parted.udp.push(address),
            Address::Tcp(address) => parted.tcp.push(address),
            Address::UdpHost(host) => parted.hosts.push(host),
            Address::TcpHost(host) => parted.tcp_hosts.push(host),
            Address::Relay(relay) => parted.relays.push(relay),
        }
    }
    parted
}

/// Reads the relays of a configuration, and nothing else.
pub(crate) fn relays<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Relay>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let relays = texts.iter().map(|text| text.parse::<Relay>());
    relays.collect::<Result<_, _>>().map_err(de::Error::custom)
}

/// Reads the address of a server of TCP, where a name would not do.
pub(super) fn tcp_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let address = text.parse().map_err(|_| {
        de::Error::custom(format_args!(
            "`{text}` is not an address: write an IP address and a port, such as \"127.0.0.1:7481\""
        ))
    });
    address.map(Some)
}
