//! The door: where a node that is not admitted yet shows its grant or redeems a ticket.
//!
//! *The idea.* One request and one answer on a connection of its own, with its own protocol name.
//! So the gate of links stays simple (a key that is not admitted gets no further), and a caller
//! occupies one of a few places for a moment only.
//!
//! ```text
//! caller ── connect, `thalweg-door/1` ──► keeper          both keys proved by TLS
//!        ── one stream: the request ────►         at most DOOR_BYTES_MAX bytes
//!        ◄── one stream: the answer ─────
//! ```
//!
//! Where UDP is blocked and the node has a TCP address, the same exchange runs over TCP. Both
//! transports share the places.
//!
//! *What it does not do.* It interprets neither the request nor the answer: the [`Doorkeeper`]
//! does.
//!
//! *Sources.* docs/reference/protocol.md §12.

use bytes::Bytes;
use iroh::endpoint::{Connection, PortmapperConfig, presets};
use iroh::{PublicKey, TransportAddr};
use thalweg_base::id::NodeId;
use thalweg_base::limits::DOOR_BYTES_MAX;
use thalweg_base::time::Duration;
use thalweg_link::congestion::Algorithm;
use thalweg_link::hop::settings::{GREETING_WAIT, IDLE_TIMEOUT};
use tokio::time::timeout;

use crate::address::{self, Addresses, Udp};
use crate::close::{CloseCode, ToVarInt as _};
use crate::doorkeeper::{Door, NO_REQUEST};
use crate::error::Unreachable;
use crate::identity::Identity;
use crate::transport::HEAD_START;
use crate::{reason, tcp, transport};

pub use crate::doorkeeper::{AtDoor, DOOR_ALPN, Doorkeeper};

/// The means by which a node calls at another's door.
pub(crate) struct Caller<'a> {
    pub(crate) identity: &'a Identity,
    /// `None` if QUIC cannot reach any address.
    pub(crate) iroh: Option<(&'a iroh::Endpoint, Udp)>,
    /// The kernel's congestion control for TCP; `None` for its default.
    pub(crate) congestion: Option<&'a str>,
    /// How long QUIC is tried alone if there is a TCP address too.
    pub(crate) head_start: Duration,
}

/// Sends one request to a node's door and returns the answer, from an endpoint of its own.
///
/// It uses the relays among the addresses, and dials TCP addresses when QUIC gets no answer.
///
/// Fails   with the reason as a sentence, after 10 s at the latest, or 14 s if both transports are
///         tried
pub async fn call(
    identity: &Identity,
    keeper: NodeId,
    addresses: impl Into<Addresses>,
    request: &[u8],
) -> Result<Bytes, Unreachable> {
    let addresses = addresses.into();
    if keeper == identity.id() {
        return Err(Unreachable::OwnKey(keeper));
    }
    let mut caller = Caller {
        identity,
        iroh: None,
        congestion: None,
        head_start: HEAD_START,
    };
    if addresses.is_tcp_alone() {
        return Box::pin(caller.call(keeper, &addresses, request)).await;
    }
    let binding = iroh::Endpoint::builder(presets::Minimal)
        .secret_key(identity.secret())
        .transport_config(transport::config(IDLE_TIMEOUT, Algorithm::default()))
        .portmapper_config(PortmapperConfig::Disabled)
        .relay_mode(address::relay_mode(&addresses.relays))
        .bind();
    // Boxed: it is tens of kilobytes, which the caller's future need not hold.
    let endpoint = Box::pin(binding)
        .await
        .map_err(|error| other(keeper, &error))?;
    caller.iroh = Some((&endpoint, TransportAddr::Ip));
    let answer = Box::pin(caller.call(keeper, &addresses, request)).await;
    endpoint.close().await;
    answer
}

impl Caller<'_> {
    /// Calls over QUIC, and over TCP when QUIC gets no answer.
    pub(crate) async fn call(
        &self,
        keeper: NodeId,
        addresses: &Addresses,
        request: &[u8],
    ) -> Result<Bytes, Unreachable> {
        let over_tcp = tcp::request(
            self.identity,
            self.congestion,
            keeper,
            &addresses.tcp,
            request,
        );
        let Some((iroh, udp)) = self.iroh else {
            return over_tcp.await;
        };
        let has_tcp = !addresses.tcp.is_empty();
        let wait = if has_tcp {
            self.head_start
        } else {
            GREETING_WAIT
        };
        match exchange((iroh, udp), keeper, addresses, request, wait).await {
            Err(udp) if has_tcp && !udp.is_answer() => over_tcp.await.map_err(|tcp| {
                let (udp, tcp) = (Box::new(udp), Box::new(tcp));
                Unreachable::Both { udp, tcp }
            }),
            response => response,
        }
    }
}

/// Serves one caller; returns why it could not be served.
pub(crate) async fn serve(connection: Connection, door: &Door) -> Result<(), String> {
    let caller = NodeId(*connection.remote_id().as_bytes());
    let served = timeout(GREETING_WAIT.into(), answer(&connection, caller, door)).await;
    let result = served.unwrap_or_else(|_| Err("timed out".into()));
    let (code, reason) = match &result {
        Ok(()) => (CloseCode::Shutdown, "done"),
        Err(_) => (CloseCode::Protocol, NO_REQUEST),
    };
    connection.close(code.varint(), reason.as_bytes());
    result
}

async fn answer(connection: &Connection, caller: NodeId, door: &Door) -> Result<(), String> {
    let mut incoming = connection.accept_uni().await.map_err(text)?;
    let request = incoming.read_to_end(DOOR_BYTES_MAX).await.map_err(text)?;
    let answer = door.ask(caller, request.into()).await;
    let answer = answer.ok_or("the node shuts down")?;
    let mut reply = connection.open_uni().await.map_err(text)?;
    reply.write_all(&answer).await.map_err(text)?;
    reply.finish().map_err(text)?;
    // The caller closes once it has read the answer; its leaving is no failure.
    connection.closed().await;
    Ok(())
}

async fn exchange(
    (endpoint, udp): (&iroh::Endpoint, Udp),
    keeper: NodeId,
    addresses: &Addresses,
    request: &[u8],
    wait: Duration,
) -> Result<Bytes, Unreachable> {
    let key = PublicKey::from_bytes(&keeper.0).map_err(|error| other(keeper, &error))?;
    let target = addresses.target(key, udp);
    let response = async {
        let connection = endpoint
            .connect(target, DOOR_ALPN.as_bytes())
            .await
            .map_err(|error| reason::of_dial(error, keeper, addresses))?;
        let answer = send_request(&connection, request).await;
        // The reason of the connection's end is more precise than the stream's error.
        let answer = answer.map_err(|error| match connection.close_reason() {
            Some(ended) => reason::of_end(ended, keeper, addresses),
            None => other(keeper, &error),
        });
        connection.close(CloseCode::Shutdown.varint(), b"done");
        answer
    };
    let timed_out = |_| {
        Err(Unreachable::TimedOut {
            addresses: reason::list_quic(addresses),
        })
    };
    let response = timeout(wait.into(), response).await;
    response
        .unwrap_or_else(timed_out)
        .map_err(|error| match error {
            // The unknown protocol is the door's, not that of links.
            Unreachable::Version { peer, .. } => Unreachable::Version {
                peer,
                alpn: DOOR_ALPN,
            },
            error => error,
        })
}

async fn send_request(connection: &Connection, request: &[u8]) -> Result<Bytes, String> {
    let mut stream = connection.open_uni().await.map_err(text)?;
    stream.write_all(request).await.map_err(text)?;
    stream.finish().map_err(text)?;
    let mut reply = connection.accept_uni().await.map_err(text)?;
    let answer = reply.read_to_end(DOOR_BYTES_MAX).await.map_err(text)?;
    Ok(answer.into())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn other(peer: NodeId, error: &impl std::fmt::Display) -> Unreachable {
    Unreachable::Other {
        peer,
        reason: format!("{error:#}"),
    }
}
