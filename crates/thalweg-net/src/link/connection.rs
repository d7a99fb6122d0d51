//! The connection under a link: QUIC, TCP where UDP is blocked, or the engine's QUIC.
//!
//! *The idea.* All carry unidirectional streams and datagrams, and end with a code and a reason.
//! Their differences are handled here once, so that the rest of a link is independent of the
//! transport.
//!
//! *What it does not do.* It sends no ADU: `wire` does.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration as StdDuration;

use bytes::Bytes;
use iroh::endpoint::{self, ConnectionError, LocalTransportAddr, Path};
use thalweg_base::id::NodeId;
use thalweg_base::time::Duration;
use thalweg_base::units::DataSize;
use thalweg_link::hop::settings::LINK_WINDOW_BYTES;

use super::receiver::DownCause;
use super::stats::{self, Measured, Remote, Totals};
use super::stream::{Inbound, Outbound};
use super::{OpenError, Transport, text};
use crate::close::{CloseCode, ToVarInt as _};
use crate::confined::unwrapped;
use crate::lot::TakesLots;
use crate::{engine, tcp};

/// Polling interval for the end of queued datagrams while a link drains; neither transport notifies
/// of it.
const LOOK: StdDuration = StdDuration::from_millis(5);

/// A connection on which both ends have proved their keys; clones share it.
#[derive(Clone)]
pub(crate) enum Connection {
    Quic {
        connection: endpoint::Connection,
        /// QUIC's free datagram buffer while it is empty, in bytes.
        datagram_room: usize,
    },
    Tcp(tcp::Connection),
    Engine {
        connection: engine::Connection,
        /// As above.
        datagram_room: usize,
    },
}

/// A connection that is not a link yet.
pub(crate) enum NewConnection {
    Quic(endpoint::Connection),
    Tcp(tcp::Connection, tcp::Events),
    Engine(engine::Connection),
}

impl NewConnection {
    pub(crate) fn connection(&self) -> Connection {
        match self {
            Self::Quic(connection) => Connection::Quic {
                connection: connection.clone(),
                datagram_room: connection.datagram_send_buffer_space(),
            },
            Self::Tcp(connection, _) => Connection::Tcp(connection.clone()),
            Self::Engine(connection) => Connection::Engine {
                connection: connection.clone(),
                datagram_room: connection.datagram_room(),
            },
        }
    }
}

impl Connection {
    /// Returns the key that the peer has proved.
    pub(crate) fn peer(&self) -> NodeId {
        match self {
            Self::Quic { connection, .. } => NodeId(*connection.remote_id().as_bytes()),
            Self::Tcp(connection) => connection.peer(),
            Self::Engine { connection, .. } => connection.peer(),
        }
    }

    pub(crate) const fn transport(&self) -> Transport {
        match self {
            Self::Quic { .. } => Transport::Quic,
            Self::Tcp(_) => Transport::Tcp,
            Self::Engine { .. } => Transport::Engine,
        }
    }

    /// Returns the loop that takes lots for it, if one does.
    pub(crate) fn takes_lots(&self) -> Option<&Arc<dyn TakesLots>> {
        match self {
            Self::Quic { .. } => None,
            Self::Tcp(connection) => connection.takes_lots(),
            Self::Engine { connection, .. } => Some(connection.takes_lots()),
        }
    }

    /// Returns this node's address that the path in use is bound to, if any.
    pub(crate) fn source(&self) -> Option<IpAddr> {
        let Self::Quic { connection, .. } = self else {
            return None;
        };
        let paths = connection.paths();
        let path = paths.iter().max_by_key(Path::is_selected)?;
        match path.local_addr() {
            LocalTransportAddr::Ip(address) => address.map(|address| address.to_canonical()),
            LocalTransportAddr::Custom(address) => {
                let address = address.as_ref().and_then(unwrapped);
                address.map(|address| address.ip())
            }
            _ => None,
        }
    }

    /// Returns the peer's address on the path in use, if that leads there without a relay.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        let measured = match self {
            Self::Quic { connection, .. } => stats::of_quic(connection),
            Self::Tcp(_) | Self::Engine { .. } => return None,
        };
        match measured.paths.first()?.remote {
            Remote::Address(address) => Some(address),
            _ => None,
        }
    }

    /// Returns whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Quic { connection, .. } => connection.close_reason().is_some(),
            Self::Tcp(connection) => connection.is_over(),
            Self::Engine { connection, .. } => connection.is_over(),
        }
    }

    /// Returns why it has ended, if it has and the reason is known at once.
    pub(crate) fn end(&self) -> Option<OpenError> {
        match self {
            Self::Quic { connection, .. } => connection.close_reason().map(OpenError::Quic),
            Self::Tcp(connection) => connection.end().map(OpenError::Tcp),
            Self::Engine { connection, .. } => connection.end().map(OpenError::Quic),
        }
    }

    /// Closes it at once.
    pub(crate) fn close(&self, code: CloseCode, reason: &str) {
        match self {
            Self::Quic { connection, .. } => connection.close(code.varint(), reason.as_bytes()),
            Self::Tcp(connection) => connection.close(code, reason),
            Self::Engine { connection, .. } => connection.close(code, reason),
        }
    }

    /// Waits for its end and returns the cause.
    pub(crate) async fn closed(&self) -> DownCause {
        match self {
            Self::Quic { connection, .. } => down_cause(connection.closed().await),
            Self::Tcp(connection) => connection.closed().await,
            Self::Engine { connection, .. } => down_cause(connection.closed().await),
        }
    }

    /// Waits until the close code of a closed connection may have reached the peer; QUIC's endpoint
    /// does that itself.
    pub(crate) async fn gone(&self) {
        match self {
            Self::Quic { .. } => {}
            Self::Tcp(connection) => connection.gone().await,
            Self::Engine { connection, .. } => connection.gone().await,
        }
    }

    /// Opens the control stream.
    pub(crate) async fn open(&self, rank: i32) -> Result<Outbound, OpenError> {
        match self {
            Self::Quic { connection, .. } => {
                let stream = connection.open_uni().await?;
                // A stream that was just opened fails only with its connection.
                let _ = stream.set_priority(rank);
                Ok(Outbound::Quic(stream))
            }
            Self::Tcp(connection) => match connection.open_writer(rank) {
                Some(writer) => Ok(Outbound::Tcp(writer)),
                // The numbers that both ends share admit a first stream, so only the session's end
                // can refuse it.
                None => Err(OpenError::Tcp(connection.closed().await)),
            },
            Self::Engine { connection, .. } => match connection.open_writer(rank) {
                Some(writer) => Ok(Outbound::Engine(writer)),
                // As over TCP.
                None => Err(OpenError::Quic(connection.closed().await)),
            },
        }
    }

    /// Waits for the peer's next stream.
    pub(crate) async fn accept(&self) -> Result<Inbound, OpenError> {
        match self {
            Self::Quic { connection, .. } => Ok(Inbound::Quic(connection.accept_uni().await?)),
            Self::Tcp(connection) => match connection.accept().await {
                Some(stream) => Ok(Inbound::Tcp(stream)),
                None => Err(OpenError::Tcp(connection.closed().await)),
            },
            Self::Engine { connection, .. } => match connection.accept().await {
                Some(stream) => Ok(Inbound::Engine(stream)),
                None => Err(OpenError::Quic(connection.closed().await)),
            },
        }
    }

    /// Waits for the peer's next datagram; `None` once the connection has ended.
    pub(crate) async fn datagram(&self) -> Option<Bytes> {
        match self {
            Self::Quic { connection, .. } => connection.read_datagram().await.ok(),
            Self::Tcp(connection) => connection.datagram().await,
            Self::Engine { connection, .. } => connection.datagram().await,
        }
    }

    /// Waits until no datagram is queued, since closing would discard it.
    pub(crate) async fn datagrams_gone(&self) {
        let has_gone = || match self {
            Self::Quic {
                connection,
                datagram_room,
            } => connection.datagram_send_buffer_space() >= *datagram_room,
            Self::Tcp(connection) => connection.is_settled(),
            Self::Engine {
                connection,
                datagram_room,
            } => connection.datagram_room() >= *datagram_room,
        };
        while !has_gone() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Makes the peer acknowledge something: QUIC resends its receive window, one byte larger and
    /// then back. Does nothing over TCP.
    pub(crate) fn ping(&self) {
        match self {
            Self::Quic { connection, .. } => {
                connection.set_receive_window((LINK_WINDOW_BYTES + 1).into());
                connection.set_receive_window(LINK_WINDOW_BYTES.into());
            }
            Self::Tcp(_) => {}
            Self::Engine { connection, .. } => connection.ping(),
        }
    }

    /// Returns the number of bytes received.
    pub(crate) fn received(&self) -> DataSize {
        match self {
            Self::Quic { connection, .. } => DataSize::from_bytes(connection.stats().udp_rx.bytes),
            Self::Tcp(connection) => connection.traffic().received,
            Self::Engine { connection, .. } => {
                let (totals, _) = connection.stats();
                DataSize::from_bytes(totals.udp_rx.bytes)
            }
        }
    }

    /// Returns the smoothed round-trip time of the path in use.
    pub(crate) fn rtt(&self) -> Duration {
        match self {
            Self::Quic { connection, .. } => stats::rtt_of_quic(connection),
            Self::Tcp(connection) => connection.traffic().rtt,
            Self::Engine { connection, .. } => connection.stats().1.rtt.into(),
        }
    }

    /// Reads the totals for a link's meter; `rtt` is called only where the totals lack the
    /// round-trip time.
    pub(crate) fn totals(&self, rtt: impl FnOnce() -> Duration) -> Totals {
        match self {
            Self::Quic { connection, .. } => stats::totals_of_quic(connection, rtt),
            Self::Tcp(connection) => stats::totals_of_tcp(&connection.traffic()),
            Self::Engine { connection, .. } => stats::of_engine(connection).totals,
        }
    }

    /// Reads all of a link's measurements.
    pub(crate) fn measure(&self) -> Measured {
        match self {
            Self::Quic { connection, .. } => stats::of_quic(connection),
            Self::Tcp(connection) => stats::of_tcp(connection),
            Self::Engine { connection, .. } => stats::of_engine(connection),
        }
    }
}

impl From<ConnectionError> for OpenError {
    fn from(error: ConnectionError) -> Self {
        Self::Quic(error)
    }
}

/// Converts QUIC's reason for the end of a connection.
fn down_cause(error: ConnectionError) -> DownCause {
    match error {
        ConnectionError::ApplicationClosed(close) => DownCause::ByPeer {
            code: CloseCode::from_number(close.error_code.into_inner()),
            reason: text(&close.reason),
        },
        ConnectionError::LocallyClosed => DownCause::ByUs,
        ConnectionError::TimedOut => DownCause::TimedOut,
        ConnectionError::Reset => DownCause::Restarted,
        other => DownCause::Other(other.to_string()),
    }
}
