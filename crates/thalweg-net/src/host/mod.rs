//! The notation of a listening place: an IP address or a host name, and a port.
//!
//! *The idea.* A name is kept and resolved at each dial, since its addresses may change while a
//! node runs. So is a link-local address with an interface name, as in `[fe80::1%eth0]:7400`: an
//! interface gets a new index when it comes back. A text that is neither is refused with its
//! specific fault: `192.0.2.1` lacks a port, `2001:db8::1:7400` lacks brackets.
//!
//! *What it does not do.* It caches no answer: the system's resolver does.
//!
//! *Sources.* RFC 1123 §2.1 (host names); RFC 4007 §11 (zones); RFC 3986 §3.2.2 (brackets).

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;

/// Time limit of a lookup; a resolver asks its second server after 5 s.
const LOOKUP_WAIT: Duration = Duration::from_secs(6);

/// Maximum number of addresses tried per name.
const FOUND_MAX: usize = 8;

/// Longest host name, in bytes (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// Longest interface name, in bytes (Linux `IFNAMSIZ` less the final zero).
const ZONE_BYTES_MAX: usize = 15;

/// A listening place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address.
    Address(SocketAddr),
    /// A name that is resolved when it is used.
    Host(Host),
}

/// A host name, or a link-local address with its interface's name, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host {
    name: String,
    port: u16,
}

/// The text is not a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an address: {fault}")]
pub struct NoPlace {
    text: String,
    fault: String,
}

/// The name does not resolve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{host}` cannot be looked up: {reason}")]
pub struct NoHost {
    /// The name.
    pub host: String,
    /// What the system said.
    pub reason: String,
}

impl FromStr for Place {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        host(text).map(Self::Host).map_err(|fault| NoPlace {
            text: text.chars().take(NAME_BYTES_MAX).collect(),
            fault,
        })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Host(host) => host.fmt(f),
        }
    }
}

impl Host {
    /// Returns whether it is an address with its interface, which only this machine resolves.
    pub fn is_zoned(&self) -> bool {
        self.name.contains('%')
    }

    /// Resolves the name to at most 8 addresses.
    ///
    /// Fails   if there is none, or the resolver does not answer in time
    pub async fn look_up(&self) -> Result<Vec<SocketAddr>, NoHost> {
        let found = timeout(LOOKUP_WAIT, lookup_host((self.name.as_str(), self.port))).await;
        match found {
            Ok(Ok(found)) => self.some(found),
            Ok(Err(error)) => Err(self.unknown(error.to_string())),
            Err(_) => Err(self.unknown("no answer in time".into())),
        }
    }

    /// Resolves the name and blocks, for a command that has nothing else to do.
    pub fn look_up_blocking(&self) -> Result<Vec<SocketAddr>, NoHost> {
        match (self.name.as_str(), self.port).to_socket_addrs() {
            Ok(found) => self.some(found),
            Err(error) => Err(self.unknown(error.to_string())),
        }
    }

    fn some(&self, found: impl Iterator<Item = SocketAddr>) -> Result<Vec<SocketAddr>, NoHost> {
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in found {
            if addresses.len() < FOUND_MAX && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(self.unknown("it has no address".into()));
        }
        Ok(addresses)
    }

    fn unknown(&self, reason: String) -> NoHost {
        let host = self.name.clone();
        match self.name.split_once('%') {
            Some((_, zone)) => NoHost {
                reason: format!("this machine has no interface `{zone}` ({reason})"),
                host,
            },
            None => NoHost { host, reason },
        }
    }
}

/// Parses a text that is no socket address as a host and a port.
///
/// Fails   with the fault, as a sentence
fn host(text: &str) -> Result<Host, String> {
    if text.trim() != text {
        return Err("there is a blank before or after it".into());
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (inner, port) = rest
            .split_once(']')
            .ok_or("its bracket is not closed, as in [2001:db8::1]:7400")?;
        return bracketed(inner, port);
    }
    if text.parse::<Ipv6Addr>().is_ok() || text.matches(':').count() > 2 {
        return Err(
            "write an IPv6 address in brackets, followed by the port: [2001:db8::1]:7400".into(),
        );
    }
    let (name, port) = text
        .rsplit_once(':')
        .ok_or("it has no port: add one, such as :7400")?;
    let port = number(port)?;
    if name.contains(':') {
        return Err("there is one `:` too many; the only prefix of an address is `tcp:`".into());
    }
    if name
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return Err(format!("`{name}` is not an IPv4 address"));
    }
    check_name(name)?;
    let name = name.into();
    Ok(Host { name, port })
}

fn bracketed(inner: &str, port: &str) -> Result<Host, String> {
    let port = port
        .strip_prefix(':')
        .ok_or("it has no port: add one after the bracket, such as :7400")?;
    let port = number(port)?;
    let (address, zone) = inner.split_once('%').unwrap_or((inner, ""));
    if address.parse::<Ipv4Addr>().is_ok() {
        return Err("write an IPv4 address without brackets".into());
    }
    if address.parse::<Ipv6Addr>().is_err() {
        return Err(format!("`{address}` is not an IPv6 address"));
    }
    let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b'%';
    if zone.is_empty() || zone.len() > ZONE_BYTES_MAX || !zone.bytes().all(is_name) {
        return Err(format!("`{zone}` is not the name of an interface"));
    }
    let name = inner.into();
    Ok(Host { name, port })
}

fn number(port: &str) -> Result<u16, String> {
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{port}` is not a port number"));
    }
    port.parse()
        .map_err(|_| format!("{port} is above 65535, the largest port"))
}

fn check_name(name: &str) -> Result<(), String> {
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_framed = label.starts_with('-') || label.ends_with('-');
        (1..=63).contains(&label.len()) && label.bytes().all(is_part) && !is_framed
    };
    let labels = name.strip_suffix('.').unwrap_or(name);
    if name.len() <= NAME_BYTES_MAX && labels.split('.').all(is_label) {
        Ok(())
    } else {
        Err(format!(
            "`{name}` is neither an IP address nor the name of a host"
        ))
    }
}
