//! The addresses at which a peer can be dialled, and their notation.
//!
//! *The idea.* An address is a UDP address, for QUIC; with `tcp:` before it, a TCP address; or the
//! URL of a relay, which both ends dial and which forwards QUIC packets by the peer's key.
//!
//! *What it does not do.* It neither parses nor resolves host names: `host` does.

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
use thalweg_base::limits::RELAY_URL_BYTES_MAX;

use crate::error::{BindError, Unreachable};
use crate::file;
use crate::host::Host;

/// The prefix of a TCP address.
pub const TCP_PREFIX: &str = "tcp:";

/// Converts a UDP address to iroh's form of it.
pub(crate) type Udp = fn(SocketAddr) -> TransportAddr;

/// The addresses at which a peer can be dialled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// UDP addresses, for QUIC.
    pub udp: Vec<SocketAddr>,
    /// TCP addresses, where UDP is blocked; successive connections of a session use successive
    /// addresses.
    pub tcp: Vec<SocketAddr>,
    /// Relays at which the peer waits, for QUIC.
    pub relays: Vec<Relay>,
    /// Host names for QUIC, resolved at each dial.
    pub hosts: Vec<Host>,
    /// Host names for TCP, resolved at each dial.
    pub tcp_hosts: Vec<Host>,
}

/// An iroh relay, by its URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Relay(RelayUrl);

/// The text is not the URL of a relay.
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
        // A ticket would disclose the password to every holder.
        let is_bare = url.username().is_empty() && url.password().is_none();
        // The normalized form counts, which may be longer than the text.
        if is_web && is_bare && url.as_str().len() <= RELAY_URL_BYTES_MAX {
            Ok(Self(url))
        } else {
            Err(shown())
        }
    }
}

impl Relay {
    pub(crate) fn is(&self, url: &RelayUrl) -> bool {
        self.0 == *url
    }
}

impl fmt::Display for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns iroh's relay mode; without relays, iroh uses none, not even to dial others.
pub(crate) fn relay_mode(relays: &[Relay]) -> RelayMode {
    if relays.is_empty() {
        RelayMode::Disabled
    } else {
        RelayMode::custom(relays.iter().map(|relay| relay.0.clone()))
    }
}

/// Returns the trust roots for relays' certificates: the web's embedded ones and those in this
/// file.
///
/// Fails   if the file cannot be read, has no certificate, or has an invalid one
pub(crate) fn relay_trust(path: &Path) -> Result<CaTlsConfig, BindError> {
    let fault = |fault: String| BindError::RelayCa {
        path: path.into(),
        fault,
    };
    // Checked before opening: opening a pipe blocks.
    if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return Err(fault("it is not a regular file".into()));
    }
    let text = file::read(path).map_err(|error| fault(error.to_string()))?;
    let roots: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| fault(error.to_string()))?;
    if roots.is_empty() {
        return Err(fault("it contains no certificate".into()));
    }
    for (number, root) in (1..).zip(&roots) {
        rustls::RootCertStore::empty()
            .add(root.clone())
            .map_err(|error| fault(format!("number {number} in it is invalid: {error}")))?;
    }
    Ok(CaTlsConfig::embedded().with_extra_roots(roots))
}

/// Checks a file of certificate authorities as [`Endpoint::bind`](crate::endpoint::Endpoint::bind) would.
///
/// Fails   if it cannot be read or holds something other than certificates
pub fn check_relay_ca(path: &Path) -> Result<(), BindError> {
    relay_trust(path).map(|_| ())
}

impl Addresses {
    /// Returns TCP addresses alone.
    pub fn tcp(addresses: &[SocketAddr]) -> Self {
        Self {
            tcp: addresses.to_vec(),
            ..Self::default()
        }
    }

    /// Returns whether there is no address at all.
    pub const fn is_empty(&self) -> bool {
        let has_names = !self.hosts.is_empty() || !self.tcp_hosts.is_empty();
        self.udp.is_empty() && self.tcp.is_empty() && self.relays.is_empty() && !has_names
    }

    /// Returns these addresses with the host names resolved.
    ///
    /// Fails   if no address results; a name that does not resolve is skipped if others do
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
                        tracing::debug!(%error, "host name skipped");
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

    /// Returns whether QUIC would have only link-local addresses: iroh drops their interface (scope
    /// id).
    pub(crate) fn is_link_local_alone(&self) -> bool {
        let is_local = |address: &SocketAddr| match address {
            SocketAddr::V4(_) => false,
            SocketAddr::V6(address) => address.ip().is_unicast_link_local(),
        };
        self.relays.is_empty() && !self.udp.is_empty() && self.udp.iter().all(is_local)
    }

    /// Returns whether the peer has only TCP addresses.
    pub(crate) const fn is_tcp_alone(&self) -> bool {
        self.udp.is_empty() && self.relays.is_empty() && !self.tcp.is_empty()
    }

    /// Returns the target for iroh's dialler; `udp` converts the UDP addresses.
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
