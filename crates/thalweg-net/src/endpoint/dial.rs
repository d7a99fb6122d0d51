//! Dialling a peer once.
//!
//! *The idea.* QUIC is tried first. If it gets no answer and the peer has a TCP address, that is
//! dialled.

use std::net::SocketAddr;

use iroh::PublicKey;
use iroh::endpoint::Connection;
use thalweg_base::id::NodeId;
use tokio::time::{Duration, timeout};

use super::{Endpoint, accept, narrow};
use crate::address::Addresses;
use crate::error::Unreachable;
use crate::link::{ALPN, Link, NewConnection, Transport};
use crate::{reason, tcp};

/// Time limit of one dial; iroh's own is about the same.
const DIAL_WAIT: Duration = Duration::from_secs(10);

/// The endpoint's settings for TCP, and the addresses it listens on.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) session: tcp::Options,
    pub(super) listening: Vec<SocketAddr>,
    pub(crate) head_start: thalweg_base::time::Duration,
    pub(super) retry: thalweg_base::time::Duration,
}

/// Dials once, with `first` as the first transport; returns the existing link if there is one.
pub(crate) async fn once(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &Addresses,
    first: Transport,
) -> Result<Link, Unreachable> {
    if peer == endpoint.id() {
        return Err(Unreachable::OwnKey(peer));
    }
    if let Some(link) = endpoint.link(peer) {
        return Ok(link);
    }
    if addresses.tcp.is_empty() {
        return over_quic(endpoint, peer, addresses, DIAL_WAIT).await;
    }
    if !endpoint.may_try_quic(addresses) {
        return over_tcp(endpoint, peer, &addresses.tcp).await;
    }
    let head_start = endpoint.0.tcp.head_start.into();
    let udp = over_quic(endpoint, peer, addresses, head_start);
    let tcp = over_tcp(endpoint, peer, &addresses.tcp);
    let (udp, tcp) = match first {
        Transport::Quic | Transport::Engine => match udp.await {
            Err(udp) if !udp.is_answer() => (udp, tcp.await),
            done => return done,
        },
        Transport::Tcp => match tcp.await {
            Err(tcp) if !tcp.is_answer() => match udp.await {
                Err(udp) => (udp, Err(tcp)),
                done => return done,
            },
            done => return done,
        },
    };
    tcp.map_err(|tcp| {
        let (udp, tcp) = (Box::new(udp), Box::new(tcp));
        Unreachable::Both { udp, tcp }
    })
}

pub(super) async fn over_quic(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &Addresses,
    wait: Duration,
) -> Result<Link, Unreachable> {
    // Boxed: a caller that may dial over both transports holds both futures.
    let dialled = Box::pin(async {
        let connection = connect(endpoint, peer, addresses).await?;
        accept::establish(endpoint, NewConnection::Quic(connection), true).await
    });
    let test = narrow::Test::default();
    let small_paths = &endpoint.0.small_paths;
    tokio::select! {
        dialled = timeout(wait, dialled) => match dialled {
            Ok(Err(Unreachable::TimedOut { .. })) | Err(_) => Err(test.why_no_handshake(addresses)),
            Ok(dialled) => dialled.inspect(|_| small_paths.remove(peer)),
        },
        too_small = test.fails(endpoint, addresses) => {
            small_paths.insert(peer);
            Err(too_small)
        }
    }
}

/// Opens a QUIC connection that is not a link yet.
pub(super) async fn connect(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &Addresses,
) -> Result<Connection, Unreachable> {
    connect_by(endpoint, peer, addresses, ALPN).await
}

/// Opens a QUIC connection of this protocol.
pub(super) async fn connect_by(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &Addresses,
    alpn: &str,
) -> Result<Connection, Unreachable> {
    if endpoint.0.confined.is_none() && addresses.is_link_local_alone() {
        return Err(Unreachable::LinkLocal {
            addresses: reason::list(&addresses.udp),
        });
    }
    let other = |reason: String| Unreachable::Other { peer, reason };
    let key = PublicKey::from_bytes(&peer.0).map_err(|error| other(error.to_string()))?;
    let target = addresses.target(key, endpoint.udp());
    let connecting = endpoint.0.iroh.connect(target, alpn.as_bytes());
    connecting
        .await
        .map_err(|error| reason::of_dial(error, peer, addresses))
}

async fn over_tcp(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &[SocketAddr],
) -> Result<Link, Unreachable> {
    let dialled = Box::pin(async {
        let connection = connect_tcp(endpoint, peer, addresses).await?;
        accept::establish(endpoint, connection, true).await
    });
    timeout(DIAL_WAIT, dialled).await.unwrap_or_else(|_| {
        Err(Unreachable::TimedOut {
            addresses: reason::list(addresses),
        })
    })
}

/// Opens a session over TCP that is not a link yet.
pub(super) async fn connect_tcp(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &[SocketAddr],
) -> Result<NewConnection, Unreachable> {
    if !endpoint.admission().admits(peer) {
        return Err(Unreachable::NotAdmittedHere(peer));
    }
    let mut options = endpoint.0.tcp.session.clone();
    if endpoint.0.small_paths.contains(peer) {
        options.segments = tcp::Segments::Small;
    }
    let (connection, events) = tcp::dial(&options, peer, addresses).await?;
    Ok(NewConnection::Tcp(connection, events))
}
