//! An address in a configuration: of UDP, with `tcp:` before it of TCP, or the URL of a relay.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};
use thalweg_net::endpoint::TCP_PREFIX;
use thalweg_net::{Addresses, NoRelay, Relay};

/// One address, and what is spoken there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Udp(SocketAddr),
    Tcp(SocketAddr),
    Relay(Relay),
}

/// A text is no address.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoAddress {
    Other(String),
    Relay(NoRelay),
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Relay(error) => return error.fmt(f),
            Self::Other(text) => text,
        };
        write!(
            f,
            "`{text}` is not an address: write an IP address and a port, such as \"192.0.2.7:7400\", or \
             \"{TCP_PREFIX}192.0.2.7:7400\" for TCP, or the URL of a relay, such as \"https://relay.example.org\""
        )
    }
}

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        if text.contains("://") {
            return text.parse().map(Self::Relay).map_err(NoAddress::Relay);
        }
        let (make, address): (fn(SocketAddr) -> Self, _) = match text.strip_prefix(TCP_PREFIX) {
            Some(address) => (Self::Tcp, address),
            None => (Self::Udp, text),
        };
        let address = address.parse().map_err(|_| NoAddress::Other(text.into()))?;
        Ok(make(address))
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
