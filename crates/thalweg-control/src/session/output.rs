//! The actions that a session requests from its driver.
//!
//! *What it does not do.* It does not decide when: the session does.

use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId};

use super::Feed;

/// One node's part of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The node that it runs on.
    pub node: NodeId,
    /// Its adapters, in order.
    pub adapters: Vec<String>,
    /// Whether ADUs arrive there unsealed.
    pub plaintext: bool,
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Find a plan for this sink and give it to [`Session::handle_plan`](super::Session::handle_plan).
    PlanWanted {
        /// The sink.
        sink: NodeId,
    },
    /// Send a part of a plan to its node, along the plan's own path.
    Prepare {
        /// The plan.
        epoch: Epoch,
        /// The path from the source up to the addressee.
        route: Vec<NodeId>,
        /// The node after the addressee; `None` at the sink.
        next: Option<NodeId>,
        /// What to install.
        part: Part,
        /// Its base, if it is grafted there.
        base: Option<Epoch>,
    },
    /// Renew the leases of parts on a node.
    Renew {
        /// The plans.
        epochs: Vec<Epoch>,
        /// The path from the source up to the addressee.
        route: Vec<NodeId>,
    },
    /// Have a node start or stop copying into a plan what arrives for its base.
    Cast {
        /// The plan.
        epoch: Epoch,
        /// The path from the source up to the addressee.
        route: Vec<NodeId>,
        /// What to copy.
        feed: Feed,
    },
    /// Send what the source keeps since the newest key ADU under this plan, before anything new:
    /// its sink starts with it.
    Replay {
        /// The sink.
        sink: NodeId,
        /// The plan, which is not grafted.
        to: Epoch,
    },
    /// ADUs for this sink carry this epoch from now on.
    Switched {
        /// The sink.
        sink: NodeId,
        /// The plan.
        epoch: Epoch,
    },
    /// Resend what was sent under these plans and is not acknowledged, before anything new.
    Resend {
        /// The sink.
        sink: NodeId,
        /// The plans with broken paths that it was sent under.
        from: Vec<Epoch>,
        /// The plan in force.
        to: Epoch,
        /// The plan to send under: `to`, or the root of its grafts.
        under: Epoch,
    },
    /// Remove a plan from a node; at the source itself the route has one node.
    Release {
        /// The plan.
        epoch: Epoch,
        /// The path from the source up to the addressee.
        route: Vec<NodeId>,
    },
    /// A deployment failed; another plan is requested after [`RETRY`](super::RETRY).
    Failed {
        /// The sink.
        sink: NodeId,
        /// The plan.
        epoch: Epoch,
        /// The reason, as a sentence.
        reason: String,
        /// The nodes that were sent their parts and did not answer.
        unanswered: Vec<NodeId>,
    },
    /// Draw another key for the stream and report it by
    /// [`Session::handle_key`](super::Session::handle_key).
    KeyWanted,
    /// The subscription of a sink ended; nothing is sent to it any more.
    Gone {
        /// The sink.
        sink: NodeId,
    },
}
