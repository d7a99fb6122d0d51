//! Where something listens, as people write it: an IP address or a host's name, and a port.
//!
//! *The idea.* A name is kept and looked up at each dial, for what it stands for may change while a node runs. So is a link-local address
//! whose interface is named, as in `[fe80::1%eth0]:7400`: the system counts interfaces anew when one comes back. What can be neither is
//! refused with what is wrong with it, for `192.0.2.1` and `2001:db8::1:7400` lack different things.
//!
//! *What it does not do.* It keeps no answer: that is the system's resolver's.
//!
//! *Sources.* RFC 1123 §2.1 (names of hosts); RFC 4007 §11 (zones); RFC 3986 §3.2.2 (brackets).

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;

/// How long a name is looked up; a resolver asks its second server after 5 s.
const LOOKUP_WAIT: Duration = Duration::from_secs(6);

/// Addresses of one name that are tried.
const FOUND_MAX: usize = 8;

/// The longest name of a host.
const NAME_BYTES_MAX: usize = 253;

/// The longest name of an interface, in bytes.
const ZONE_BYTES_MAX: usize = 15;

/// Where something listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At an address.
    Address(SocketAddr),
    /// At what a name stands for when it is looked up.
    Host(Host),
}

/// A host's name, or a link-local address with its interface's name, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host {
    name: String,
    port: u16,
}

/// A text names no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an address: {fault}")]
pub struct NoPlace {
    text: String,
    fault: String,
}

/// A name stands for nothing.
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
    /// Returns whether it is an address with its interface, which is looked up on this machine alone.
    pub fn is_zoned(&self) -> bool {
        self.name.contains('%')
    }

    /// Returns the addresses that it stands for now, 8 at most.
    ///
    /// Fails   there are none, or nobody says in time
    pub async fn look_up(&self) -> Result<Vec<SocketAddr>, NoHost> {
        let found = timeout(LOOKUP_WAIT, lookup_host((self.name.as_str(), self.port))).await;
        match found {
            Ok(Ok(found)) => self.some(found),
            Ok(Err(error)) => Err(self.unknown(error.to_string())),
            Err(_) => Err(self.unknown("no answer in time".into())),
        }
    }

    /// Does the same and waits for it, for a command that has nothing else to do.
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

/// Returns the host and the port in a text that is no address of its own.
///
/// Fails   with what is wrong with it
fn host(text: &str) -> Result<Host, String> {
    if text.trim() != text {
        return Err("there is a blank before or behind it".into());
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (inner, port) = rest
            .split_once(']')
            .ok_or("its bracket is not closed, as in [2001:db8::1]:7400")?;
        return bracketed(inner, port);
    }
    if text.parse::<Ipv6Addr>().is_ok() || text.matches(':').count() > 2 {
        return Err(
            "an address of IPv6 stands in brackets, with its port behind them: [2001:db8::1]:7400"
                .into(),
        );
    }
    let (name, port) = text
        .rsplit_once(':')
        .ok_or("it has no port: write one behind it, such as :7400")?;
    let port = number(port)?;
    if name.contains(':') {
        return Err("there is a `:` too many; only `tcp:` may stand before an address".into());
    }
    if name
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return Err(format!("`{name}` is no address of IPv4"));
    }
    check_name(name)?;
    let name = name.into();
    Ok(Host { name, port })
}

fn bracketed(inner: &str, port: &str) -> Result<Host, String> {
    let port = port
        .strip_prefix(':')
        .ok_or("it has no port: write one behind the bracket, such as :7400")?;
    let port = number(port)?;
    let (address, zone) = inner.split_once('%').unwrap_or((inner, ""));
    if address.parse::<Ipv4Addr>().is_ok() {
        return Err("an address of IPv4 stands without brackets".into());
    }
    if address.parse::<Ipv6Addr>().is_err() {
        return Err(format!("`{address}` is no address of IPv6"));
    }
    let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b'%';
    if zone.is_empty() || zone.len() > ZONE_BYTES_MAX || !zone.bytes().all(is_name) {
        return Err(format!("`{zone}` is no name of an interface"));
    }
    let name = inner.into();
    Ok(Host { name, port })
}

fn number(port: &str) -> Result<u16, String> {
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{port}` is no port, which is a number"));
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
