//! TLS for sessions over TCP, with the node's raw key.
//!
//! *The idea.* Whether the session is encrypted is part of the protocol name, which both ends
//! authenticate in the handshake, so an attacker on the path cannot downgrade it.
//!
//! *What it does not do.* No resumption: a session's standbys make it needless.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Error, ServerConfig, ServerConnection};
use thalweg_base::id::NodeId;
use thalweg_link::tcp_mux::SessionId;

use super::ALPN;
use crate::identity::Identity;
use crate::raw_key::{NO_NAME, RawKey};

/// A node's TLS configuration.
#[derive(Clone)]
pub(super) struct Tls {
    key: RawKey,
    server: Arc<ServerConfig>,
}

impl Tls {
    /// Makes a node's configuration; its server side accepts the protocols in `others` besides
    /// [`ALPN`].
    ///
    /// Fails   if the crypto library does not offer TLS 1.3
    pub(super) fn new(identity: &Identity, others: &[&str]) -> Result<Self, Error> {
        let key = RawKey::new(identity);
        let alpns = [ALPN].into_iter().chain(others.iter().copied());
        let server = Arc::new(key.server(alpns)?);
        Ok(Self { key, server })
    }

    /// Begins a client handshake that accepts only this peer and this protocol.
    pub(super) fn client(&self, peer: NodeId, alpn: &str) -> Result<ClientConnection, Error> {
        let client = Arc::new(self.key.client(peer, alpn)?);
        let no_name = ServerName::try_from(NO_NAME)
            .map_err(|_| Error::General("a fixed name is a name".into()))?;
        ClientConnection::new(client, no_name)
    }

    /// Begins a server handshake with any client.
    pub(super) fn server(&self) -> Result<ServerConnection, Error> {
        ServerConnection::new(self.server.clone())
    }

    /// Draws a random session id.
    pub(super) fn draw_session_id(&self) -> Result<SessionId, Error> {
        let mut session = SessionId::default();
        self.key.provider().secure_random.fill(&mut session.0)?;
        Ok(session)
    }
}
