//! How this end begins a connection.
//!
//! *The idea.* The dial accepts one key; the answer comes when the handshake has ended. Whether the
//! peer admits this node shows afterwards, in the greeting, as over iroh.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use noq_proto::{Connection as Quic, ConnectionError, ConnectionHandle, Endpoint};
use thalweg_base::id::NodeId;

use super::config::Config;
use crate::raw_key::NO_NAME;

/// Why a dial has failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The handshake failed, or the peer closed the connection.
    #[error(transparent)]
    Lost(#[from] ConnectionError),
    /// This node's own configuration does not admit the peer.
    #[error("{0} is not admitted by this node's own configuration")]
    NotAdmittedHere(NodeId),
    /// The connection cannot be begun from here.
    #[error("{0}")]
    Unable(String),
    /// The engine has ended.
    #[error("the engine has ended")]
    Stopped,
}

/// Begins a handshake that accepts only this peer.
pub(super) fn begin(
    endpoint: &mut Endpoint,
    config: &Config,
    now: Instant,
    peer: NodeId,
    address: SocketAddr,
) -> Result<(ConnectionHandle, Quic), DialError> {
    let unable = |error: &dyn std::error::Error| DialError::Unable(error.to_string());
    let client = config.client(peer).map_err(|error| unable(&error))?;
    let begun = endpoint.connect(now, client, address, NO_NAME);
    begun.map_err(|error| unable(&error))
}

/// Returns the form in which a socket of the other family takes an address: IPv4 within IPv6.
pub(super) fn for_socket(address: SocketAddr, local: SocketAddr) -> SocketAddr {
    match (address.ip().to_canonical(), local) {
        (IpAddr::V4(ip), SocketAddr::V6(_)) => (ip.to_ipv6_mapped(), address.port()).into(),
        (IpAddr::V4(ip), SocketAddr::V4(_)) => (ip, address.port()).into(),
        (IpAddr::V6(_), _) => address,
    }
}

/// Returns whether a socket that is bound to `local` can send to an address: one bound to IPv4 cannot
/// to IPv6, and one bound to a certain IPv6 address cannot to IPv4.
pub(super) fn reaches(local: IpAddr, address: IpAddr) -> bool {
    match local {
        IpAddr::V4(_) => address.to_canonical().is_ipv4(),
        IpAddr::V6(own) => own.is_unspecified() || address.to_canonical().is_ipv6(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_reaches_its_family() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        for (local, reached, not) in [
            (
                "0.0.0.0",
                &["10.0.0.1", "::ffff:10.0.0.1"][..],
                &["2001:db8::1"][..],
            ),
            ("127.0.0.1", &["127.0.0.2"], &["::1"]),
            ("::1", &["2001:db8::1"], &["10.0.0.1", "::ffff:10.0.0.1"]),
            ("::", &["2001:db8::1", "10.0.0.1", "::ffff:10.0.0.1"], &[]),
        ] {
            assert!(
                reached.iter().all(|other| reaches(ip(local), ip(other))),
                "{local}"
            );
            assert!(
                !not.iter().any(|other| reaches(ip(local), ip(other))),
                "{local}"
            );
        }
    }
}
