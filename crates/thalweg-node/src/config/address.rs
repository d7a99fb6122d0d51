//! An address in a configuration: UDP, TCP with the prefix `tcp:`, a host name in place of either,
//! or the URL of a relay.
//!
//! *The idea.* A peer's address may be a name, which is resolved at each dial. A listening address
//! is one of this machine's own IP addresses.
//!
//! *What it does not do.* It resolves no host names.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};
use thalweg_net::endpoint::TCP_PREFIX;
use thalweg_net::{Addresses, Host, NoPlace, NoRelay, Place, Relay};

/// An address and its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Udp(SocketAddr),
    Tcp(SocketAddr),
    UdpHost(Host),
    TcpHost(Host),
    Relay(Relay),
}

/// Why a text is not an address.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoAddress {
    Place(NoPlace),
    /// A URL of another scheme than a relay's.
    Scheme(String),
    Relay(NoRelay),
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relay(error) => error.fmt(f),
            Self::Scheme(text) => write!(
                f,
                "`{text}` is not an address: leave out the scheme and `://`, and for TCP write \"{TCP_PREFIX}\" before it"
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
    /// Returns a listening address with the interface's name replaced by its index; others are
    /// unchanged.
    ///
    /// Fails   with the reason if it is a host name, or the interface does not exist
    pub(super) fn into_listening(self) -> Result<Self, String> {
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
            .ok_or_else(|| format!("`{host}` is not an address of this machine"))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Splits addresses by kind, each in the order given.
pub(super) fn split_by_kind(addresses: Vec<Address>) -> Addresses {
    let mut split = Addresses::default();
    for address in addresses {
        match address {
            Address::Udp(address) => split.udp.push(address),
            Address::Tcp(address) => split.tcp.push(address),
            Address::UdpHost(host) => split.hosts.push(host),
            Address::TcpHost(host) => split.tcp_hosts.push(host),
            Address::Relay(relay) => split.relays.push(relay),
        }
    }
    split
}

/// Reads a list of relays.
pub(crate) fn relays<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Relay>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let relays = texts.iter().map(|text| text.parse::<Relay>());
    relays.collect::<Result<_, _>>().map_err(de::Error::custom)
}

/// Reads an own address, which must not be a name.
pub(super) fn own_address<'de, D: Deserializer<'de>>(
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
