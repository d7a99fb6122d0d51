//! An address in a configuration: of UDP, or with `tcp:` before it of TCP.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};
use thalweg_net::endpoint::TCP_PREFIX;

/// One address, and what is spoken there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Udp(SocketAddr),
    Tcp(SocketAddr),
}

/// A text is no address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoAddress(String);

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not an address: write an IP address and a port, such as \"192.0.2.7:7400\", or \
             \"{TCP_PREFIX}192.0.2.7:7400\" for TCP",
            self.0
        )
    }
}

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let (make, address): (fn(SocketAddr) -> Self, _) = match text.strip_prefix(TCP_PREFIX) {
            Some(address) => (Self::Tcp, address),
            None => (Self::Udp, text),
        };
        let address = address.parse().map_err(|_| NoAddress(text.to_string()))?;
        Ok(make(address))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Parts addresses of UDP from those of TCP, each in the order given.
pub(super) fn parted(addresses: Vec<Address>) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
    let (mut udp, mut tcp) = (Vec::new(), Vec::new());
    for address in addresses {
        match address {
            Address::Udp(address) => udp.push(address),
            Address::Tcp(address) => tcp.push(address),
        }
    }
    (udp, tcp)
}
