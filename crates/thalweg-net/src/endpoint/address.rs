//! Where a peer can be dialled, and how that is written.
//!
//! *The idea.* An address is one of UDP, on which QUIC is spoken; with `tcp:` before it, one of TCP; or the URL of a relay,
//! which both ends dial and which passes QUIC's packets on by the peer's key.
//!
//! *What it does not do.* It says nothing of how a name is written, or looked up: `host` does.

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;

use iroh::tls::CaTlsConfig;
use iroh::{EndpointAddr, PublicKey, RelayMode, RelayUrl, TransportAddr};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use thalweg_core::limits::RELAY_URL_BYTES_MAX;

use super::host::Host;
use crate::error::{BindError, Unreachable};
use crate::file;

/// What stands before an address of TCP.
pub const TCP_PREFIX: &str = "tcp:";

/// How iroh knows an address of UDP.
pub(crate) type Udp = fn(SocketAddr) -> TransportAddr;

/// Where a peer can be dialled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Over QUIC.
    pub udp: Vec<SocketAddr>,
    /// Over TCP, where UDP is blocked: each connection of a session goes to the next.
    pub tcp: Vec<SocketAddr>,
    /// Over QUIC by relays, where the peer waits to be reached.
    pub relays: Vec<Relay>,
    /// Over QUIC at what these names stand for, which is looked up at each dial.
    pub hosts: Vec<Host>,
    /// The same over TCP.
    pub tcp_hosts: Vec<Host>,
}

/// A relay of iroh's, by its URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Relay(RelayUrl);

/// A text is not the URL of a relay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the URL of a relay: write http:// or https://, a host and, if need be, a port, such as \
     \"https://relay.example.org\", {RELAY_URL_BYTES_MAX} bytes at most"
)]
pub struct NoRelay(String);

impl FromStr for Relay {
    type Err = NoRelay;

    fn from_str(text: &str) -> Result<Self, NoRelay> {
        let shown = || NoRelay(text.chars().take(RELAY_URL_BYTES_MAX).collect());
        let url: RelayUrl = text.parse().map_err(|_| shown())?;
        let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
        // A password would be told to everybody who gets a ticket.
        let is_bare = url.username().is_empty() && url.password().is_none();
        // As it is written again, which may be longer than what was read.
        if is_web && is_bare && url.as_str().len() <= RELAY_URL_BYTES_MAX {
            Ok(Self(url))
        } else {
            Err(shown())
        }
    }
}

impl Relay {
    pub(super) fn is(&self, url: &RelayUrl) -> bool {
        self.0 == *url
    }
}

impl fmt::Display for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns how iroh is to use these relays; none: it uses none, not even to dial others.
pub(crate) fn relay_mode(relays: &[Relay]) -> RelayMode {
    if relays.is_empty() {
        RelayMode::Disabled
    } else {
        RelayMode::custom(relays.iter().map(|relay| relay.0.clone()))
    }
}

/// Returns whose word is taken for the certificates of relays: that of those whom browsers believe, and of those in this file.
///
/// Fails   a file that cannot be read, or has no certificate in it, or something that is none
pub(super) fn relay_trust(path: &Path) -> Result<CaTlsConfig, BindError> {
    let fault = |fault: String| BindError::RelayCa {
        path: path.into(),
        fault,
    };
    // Before it is opened: a pipe makes who opens it wait.
    if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return Err(fault("it is no file".into()));
    }
    let text = file::read(path).map_err(|error| fault(error.to_string()))?;
    let roots: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| fault(error.to_string()))?;
    if roots.is_empty() {
        return Err(fault("there is no certificate in it".into()));
    }
    for (number, root) in (1..).zip(&roots) {
        rustls::RootCertStore::empty()
            .add(root.clone())
            .map_err(|error| fault(format!("number {number} in it is none: {error}")))?;
    }
    Ok(CaTlsConfig::embedded().with_extra_roots(roots))
}

/// Looks whether a file vouches for relays, as [`Endpoint::bind`](super::Endpoint::bind) would find it.
///
/// Fails   it cannot be read, or something in it is no certificate
pub fn check_relay_ca(path: &Path) -> Result<(), BindError> {
    relay_trust(path).map(|_| ())
}

impl Addresses {
    /// Returns addresses of TCP alone.
    pub fn tcp(addresses: &[SocketAddr]) -> Self {
        Self {
            tcp: addresses.to_vec(),
            ..Self::default()
        }
    }

    /// Returns whether there is none at all.
    pub const fn is_empty(&self) -> bool {
        let has_names = !self.hosts.is_empty() || !self.tcp_hosts.is_empty();
        self.udp.is_empty() && self.tcp.is_empty() && self.relays.is_empty() && !has_names
    }

    /// Returns these addresses with those that the names stand for now in the place of the names.
    ///
    /// Fails   nothing is left then that could be dialled; a name that stands for nothing is passed over where something is
    pub(crate) async fn looked_up(&self) -> Result<Cow<'_, Self>, Unreachable> {
        if self.hosts.is_empty() && self.tcp_hosts.is_empty() {
            return Ok(Cow::Borrowed(self));
        }
        let mut found = Self {
            udp: self.udp.clone(),
            tcp: self.tcp.clone(),
            relays: self.relays.clone(),
            ..Self::default()
        };
        let mut unknown = None;
        for (hosts, addresses) in [
            (&self.hosts, &mut found.udp),
            (&self.tcp_hosts, &mut found.tcp),
        ] {
            for host in hosts {
                match host.look_up().await {
                    Ok(more) => addresses.extend(more),
                    Err(error) => {
                        tracing::debug!(%error, "a name is passed over");
                        unknown = Some(error);
                    }
                }
            }
        }
        match unknown {
            Some(error) if found.is_empty() => Err(Unreachable::Unknown(error)),
            _ => Ok(Cow::Owned(found)),
        }
    }

    /// Returns whether QUIC would have nothing but link-local addresses, of which iroh drops the interface.
    pub(crate) fn is_link_local_alone(&self) -> bool {
        let is_local = |address: &SocketAddr| match address {
            SocketAddr::V4(_) => false,
            SocketAddr::V6(address) => address.ip().is_unicast_link_local(),
        };
        self.relays.is_empty() && !self.udp.is_empty() && self.udp.iter().all(is_local)
    }

    /// Returns whether nothing but TCP leads there.
    pub(crate) const fn is_tcp_alone(&self) -> bool {
        self.udp.is_empty() && self.relays.is_empty() && !self.tcp.is_empty()
    }

    /// Returns what iroh is to dial, where it knows an address of UDP as this.
    pub(crate) fn target(&self, key: PublicKey, udp: Udp) -> EndpointAddr {
        let udp = self.udp.iter().copied().map(udp);
        let relays = self.relays.iter().map(|relay| relay.0.clone());
        EndpointAddr::from_parts(key, udp.chain(relays.map(TransportAddr::Relay)))
    }
}

impl From<&[SocketAddr]> for Addresses {
    fn from(udp: &[SocketAddr]) -> Self {
        Self {
            udp: udp.to_vec(),
            ..Self::default()
        }
    }
}

impl<const N: usize> From<&[SocketAddr; N]> for Addresses {
    fn from(udp: &[SocketAddr; N]) -> Self {
        Self::from(udp.as_slice())
    }
}

impl From<&Vec<SocketAddr>> for Addresses {
    fn from(udp: &Vec<SocketAddr>) -> Self {
        Self::from(udp.as_slice())
    }
}
