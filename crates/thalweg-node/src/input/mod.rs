//! What comes to the control task: events of the network, and requests of programs with their answers.
//!
//! *What it does not do.* It decides nothing; `control` does.

mod answers;
mod selection;
mod traces;

use std::net::SocketAddr;

use bytes::Bytes;
use thalweg_base::description::Description;
use thalweg_base::id::{Epoch, NodeId, StreamId, StreamName};
use thalweg_base::time::Duration;
use thalweg_control::admission::Rights;
use thalweg_control::control::{EndCause, Paths, Publication};
use thalweg_control::session::Part;
use thalweg_link::pulse::Hearing;
use thalweg_net::{AtDoor, LinkEvent, Samples};
use thalweg_world::text::TextError;
use tokio::sync::{mpsc, oneshot, watch};

use crate::config::Config;
use crate::continuity::Heard;
use crate::forward::Mailbox;
use crate::status::{LedgerStatus, Status};

pub(crate) use answers::Published;
pub use answers::{AdmissionError, PublishError, Reloaded, RouteError};
pub use selection::Selection;
pub use traces::{HopCost, TraceError, TraceEvent, TracedAdu};

/// Capacity of the control task's input queue; beyond it, links get backpressure.
pub(crate) const INPUTS_MAX: usize = 1024;

/// An event for the control task.
pub(crate) enum Input {
    /// A neighbour sent a control frame.
    Frame { from: NodeId, frame: Bytes },
    /// A link went up or down, or cannot be established.
    Link(LinkEvent),
    /// The links were sampled.
    Measured(Samples),
    /// An admission exchange with a node that is not admitted yet, or by this node with another.
    Door(AtDoor),
    /// A neighbour stopped answering, or answers again.
    Hearing { peer: NodeId, hearing: Hearing },
    /// A request of a program.
    Command(Command),
}

/// A request of a program.
pub(crate) enum Command {
    Publish {
        publication: Publication,
        given: Option<Vec<Part>>,
        reply: oneshot::Sender<Result<Published, PublishError>>,
    },
    /// The publishing program is gone: free the name, and keep carrying the ADUs that it published.
    Drain {
        stream: StreamId,
    },
    Unpublish {
        stream: StreamId,
    },
    Subscribe {
        name: StreamName,
        mailbox: Mailbox,
    },
    /// A mailbox's subscriber has read the end of a stream. Replies whether the name continues with
    /// another producer's stream, which exists or is awaited.
    Ended {
        name: StreamName,
        ended: (StreamId, EndCause),
        reply: oneshot::Sender<bool>,
    },
    /// What a stream of a node carries, if it is described.
    Describe {
        of: (NodeId, StreamId),
        reply: oneshot::Sender<Option<Description>>,
    },
    Status {
        reply: oneshot::Sender<Status>,
    },
    /// Issue a ticket.
    Invite {
        request: InviteRequest,
        reply: oneshot::Sender<Result<String, AdmissionError>>,
    },
    /// The paths between two nodes, given by name or key.
    Route {
        ends: [String; 2],
        stream: Option<StreamName>,
        reply: oneshot::Sender<Result<Paths, RouteError>>,
    },
    /// Follow the names of a selection.
    Watch {
        selection: Selection,
        reply: oneshot::Sender<watch::Receiver<Vec<StreamName>>>,
    },
    /// Trace a stream for some seconds; send the results to `events`.
    Trace {
        name: StreamName,
        every: Duration,
        events: mpsc::Sender<TraceEvent>,
        reply: oneshot::Sender<Result<String, TraceError>>,
    },
    /// Revoke a node, given by name or key.
    Revoke {
        node: String,
        reply: oneshot::Sender<Result<String, AdmissionError>>,
    },
    /// Panic, so that a test sees how a node ends without its control task.
    #[cfg(test)]
    Panic,
    /// Apply the part of a configuration that can change while the node runs.
    Reload {
        config: Box<Config>,
        reply: oneshot::Sender<Result<Reloaded, TextError>>,
    },
    /// Announce that this node leaves; reply once no plan of another source continues through it.
    Leave {
        reply: oneshot::Sender<()>,
    },
    /// The ledger of a stream published here, and whether the number of ADUs that these plans took
    /// (they carried the stream's end) is known. The last request also counts the sinks' receipts.
    Ledger {
        stream: StreamId,
        ended: Vec<Epoch>,
        is_last: bool,
        reply: oneshot::Sender<(Option<LedgerStatus>, bool)>,
    },
}

impl From<Heard> for Input {
    fn from(Heard { peer, hearing }: Heard) -> Self {
        Self::Hearing { peer, hearing }
    }
}

/// The terms of a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InviteRequest {
    /// The rights granted to each node that redeems it.
    pub rights: Rights,
    /// The number of nodes that may redeem it.
    pub uses: usize,
    /// For how long it may be redeemed.
    pub open_for: Duration,
    /// How long a grant lasts from its redemption; `NEVER` for no end.
    pub lasts: Duration,
    /// Addresses at which this node can be dialled. If this and `tcp_addresses` are empty, the
    /// ticket names the node's own.
    pub addresses: Vec<SocketAddr>,
    /// The same for TCP.
    pub tcp_addresses: Vec<SocketAddr>,
}
