//! The door: who is not admitted is refused as soon as the handshake has proved the key.
//!
//! *The idea.* iroh asks its hooks after the handshake and before anybody sees the connection; refusing there leaves
//! nothing behind but a count. The log is told of the first refusal at once and then at most every ten seconds, so
//! that a stranger who tries again and again cannot fill it.

use std::sync::{Mutex, PoisonError};

use iroh::EndpointAddr;
use iroh::endpoint::{AfterHandshakeOutcome, BeforeConnectOutcome, Connection, EndpointHooks};
use thalweg_core::id::NodeId;
use tokio::time::{Duration, Instant};

use crate::admission::Admission;
use crate::close::{CloseCode, ToVarInt as _};

/// Between two lines in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Gate {
    admission: Admission,
    own: NodeId,
    logged: Mutex<Option<Instant>>,
}

impl Gate {
    pub(crate) fn new(admission: Admission, own: NodeId) -> Self {
        Self {
            admission,
            own,
            logged: Mutex::new(None),
        }
    }

    fn refuse(&self, peer: NodeId) -> AfterHandshakeOutcome {
        let refusals = self.admission.count_refusal();
        if self.may_log() {
            tracing::warn!(peer = %peer, refusals, "refused: not admitted");
        }
        AfterHandshakeOutcome::Reject {
            error_code: CloseCode::NotAdmitted.varint(),
            reason: refusal(self.own, peer).into_bytes(),
        }
    }

    fn may_log(&self) -> bool {
        let now = Instant::now();
        // No code that can panic runs under this lock.
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let may = logged.is_none_or(|last| now.duration_since(last) >= LOG_INTERVAL);
        if may {
            *logged = Some(now);
        }
        may
    }
}

/// What a refused peer is told.
pub(crate) fn refusal(own: NodeId, peer: NodeId) -> String {
    format!(
        "node {} does not admit the key {}",
        own.short(),
        peer.short()
    )
}

impl EndpointHooks for Gate {
    async fn before_connect<'a>(
        &'a self,
        remote: &'a EndpointAddr,
        _alpn: &'a [u8],
    ) -> BeforeConnectOutcome {
        if self.admission.admits(NodeId(*remote.id.as_bytes())) {
            BeforeConnectOutcome::Accept
        } else {
            BeforeConnectOutcome::Reject
        }
    }

    async fn after_handshake<'a>(&'a self, connection: &'a Connection) -> AfterHandshakeOutcome {
        let peer = NodeId(*connection.remote_id().as_bytes());
        if self.admission.admits(peer) {
            AfterHandshakeOutcome::accept()
        } else {
            self.refuse(peer)
        }
    }
}
