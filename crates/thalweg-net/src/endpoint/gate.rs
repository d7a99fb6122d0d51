//! The admission check of QUIC connections, right after the handshake has proved the key.
//!
//! *The idea.* iroh calls its hooks after the handshake, before the application sees the
//! connection; a refusal there leaves only a count behind.
//!
//! *What it does not do.* It does not guard TCP: the TCP listener asks the same [`Admission`]
//! itself.

use iroh::EndpointAddr;
use iroh::endpoint::{AfterHandshakeOutcome, BeforeConnectOutcome, Connection, EndpointHooks};
use thalweg_base::id::NodeId;

use crate::admission::Admission;
use crate::close::{CloseCode, ToVarInt as _};
use crate::doorkeeper::DOOR_ALPN;

#[derive(Debug)]
pub(crate) struct Gate {
    admission: Admission,
    own: NodeId,
}

impl Gate {
    pub(crate) const fn new(admission: Admission, own: NodeId) -> Self {
        Self { admission, own }
    }

    fn refuse(&self, peer: NodeId) -> AfterHandshakeOutcome {
        AfterHandshakeOutcome::Reject {
            error_code: CloseCode::NotAdmitted.varint(),
            reason: self.admission.refuse(self.own, peer).into_bytes(),
        }
    }
}

impl EndpointHooks for Gate {
    async fn before_connect<'a>(
        &'a self,
        remote: &'a EndpointAddr,
        alpn: &'a [u8],
    ) -> BeforeConnectOutcome {
        if alpn == DOOR_ALPN.as_bytes() || self.admission.admits(NodeId(*remote.id.as_bytes())) {
            BeforeConnectOutcome::Accept
        } else {
            BeforeConnectOutcome::Reject
        }
    }

    async fn after_handshake<'a>(&'a self, connection: &'a Connection) -> AfterHandshakeOutcome {
        let peer = NodeId(*connection.remote_id().as_bytes());
        // Any key may call at the door, which grants no link.
        if connection.alpn() == DOOR_ALPN.as_bytes() || self.admission.admits(peer) {
            AfterHandshakeOutcome::accept()
        } else {
            self.refuse(peer)
        }
    }
}
