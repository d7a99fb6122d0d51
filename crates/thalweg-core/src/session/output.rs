//! What a session asks of its driver.
//!
//! *What it does not do.* It says nothing of when: the session does.

use alloc::string::String;
use alloc::vec::Vec;

use super::Feed;
use crate::id::{Epoch, NodeId};

/// One node's part of a plan that is to be deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The node that it runs on.
    pub node: NodeId,
    /// Its adapters, in order.
    pub adapters: Vec<String>,
    /// Whether ADUs arrive there unsealed.
    pub plaintext: bool,
}

/// Something for the driver to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Find a plan for this sink and give it to [`Session::handle_plan`](super::Session::handle_plan).
    PlanWanted {
        /// For whom.
        sink: NodeId,
    },
    /// Send a part of a plan to its node, along the plan's own path.
    Prepare {
        /// Which plan.
        epoch: Epoch,
        /// The path from the source up to the addressee.
        route: Vec<NodeId>,
        /// The node after the addressee; `None` at the sink.
        next: Option<NodeId>,
        /// What to install.
        part: Part,
        /// The plan whose ADUs it is to have copies of, if it is grafted there.
        base: Option<Epoch>,
    },
    /// Renew the leases of a node's parts.
    Renew {
        /// Of which plans.
        epochs: Vec<Epoch>,
        /// The path from the source up to the addressee.
        route: Vec<NodeId>,
    },
    /// Have a node begin or cease to give a plan copies of what arrives for its base.
    Cast {
        /// Which plan.
        epoch: Epoch,
        /// The path from the source up to the addressee.
        route: Vec<NodeId>,
        /// Whether it is to begin, and with what.
        feed: Feed,
    },
    /// What the source keeps since the newest key ADU is given under this plan, before anything new: its sink begins with it.
    Replay {
        /// For whom.
        sink: NodeId,
        /// Under which plan, which is not grafted.
        to: Epoch,
    },
    /// From now on ADUs for this sink carry this epoch; said again when a plan that was doubted is in force after all.
    Switched {
        /// For whom.
        sink: NodeId,
        /// Under which plan.
        epoch: Epoch,
    },
    /// What was sent under these plans and is not acknowledged is sent again under this one, before anything new.
    Resend {
        /// For whom.
        sink: NodeId,
        /// Under which plans it was sent; their ways are broken.
        from: Vec<Epoch>,
        /// The plan in force.
        to: Epoch,
        /// The plan under which the source gives what goes by that: itself, unless it is grafted.
        under: Epoch,
    },
    /// Forget an epoch on a node; at the source itself the route has one node.
    Release {
        /// Which plan.
        epoch: Epoch,
        /// The path from the source up to the addressee.
        route: Vec<NodeId>,
    },
    /// A deployment failed; another plan is asked for after [`RETRY`](super::RETRY).
    Failed {
        /// For whom.
        sink: NodeId,
        /// Under which plan.
        epoch: Epoch,
        /// Why, as a sentence.
        reason: String,
        /// The nodes of it that were told their parts and did not answer.
        unanswered: Vec<NodeId>,
    },
    /// Draw another key for the stream and say so by [`Session::handle_key`](super::Session::handle_key).
    KeyWanted,
    /// A sink's subscription ended; nothing is sent to it any more.
    Gone {
        /// Who.
        sink: NodeId,
    },
}
