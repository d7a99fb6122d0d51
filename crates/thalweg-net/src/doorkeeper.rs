//! The places at this node's door, and who answers there.
//!
//! *The idea.* Callers over QUIC and over TCP share the places; [`door`](crate::door) says what
//! happens at them.

use bytes::Bytes;
use thalweg_base::id::NodeId;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot};

/// The protocol of the door and its version, as the TLS handshake names it.
pub const DOOR_ALPN: &str = "thalweg-door/1";

/// Maximum number of concurrent callers; further ones are turned away, so that they do not crowd
/// out links.
pub(crate) const CALLERS_MAX: usize = 16;

/// The close reason for a caller that finds no free place.
pub(crate) const DOOR_BUSY: &str = "the door is busy: try again later";

/// The close reason for a caller that sends no request in time, or too long a one.
pub(crate) const NO_REQUEST: &str = "no valid request arrived in time";

/// Receives the events of the door: requests of callers, and the exchanges at other nodes' doors.
pub type Doorkeeper = mpsc::Sender<AtDoor>;

/// An event at a door.
#[derive(Debug)]
pub enum AtDoor {
    /// A caller sent a request to this node's door.
    Asked {
        /// The caller's proved key.
        caller: NodeId,
        /// The request.
        knock: Bytes,
        /// Takes the answer; dropping it closes the door without one.
        answer: oneshot::Sender<Bytes>,
    },
    /// A kept peer and this node do not admit each other yet: which request should go to its door?
    Introduce {
        /// Takes the request; `None` if there is none to send.
        knock: oneshot::Sender<Option<Bytes>>,
    },
    /// A kept peer answered at its door.
    Answered {
        /// The peer's proved key.
        keeper: NodeId,
        /// The peer's answer.
        answer: Bytes,
        /// Takes whether the peer now admits this node; if not, the reason as a sentence.
        heeded: oneshot::Sender<Result<(), String>>,
    },
}

/// This node's door, with the places for callers of both transports.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) keeper: Doorkeeper,
    places: Semaphore,
}

impl Door {
    pub(crate) fn new(keeper: Doorkeeper) -> Self {
        Self {
            keeper,
            places: Semaphore::new(CALLERS_MAX),
        }
    }

    /// Takes a place if one is free.
    pub(crate) fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.try_acquire().ok()
    }

    /// Asks the doorkeeper for the answer to a request; `None` if the doorkeeper is gone.
    pub(crate) async fn ask(&self, caller: NodeId, request: Bytes) -> Option<Bytes> {
        let (answer, answered) = oneshot::channel();
        let asked = AtDoor::Asked {
            caller,
            knock: request,
            answer,
        };
        self.keeper.send(asked).await.ok()?;
        answered.await.ok()
    }
}
