//! The actions that a session requests from its driver, and their queue.
//!
//! *What it does not do.* It does not decide when: the session does.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
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

/// Epochs to renew, by the route to their node.
pub(super) type Renewals = BTreeMap<Vec<NodeId>, Vec<Epoch>>;

/// The actions that the driver has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Outputs(VecDeque<Output>);

impl Outputs {
    pub(super) fn push(&mut self, output: Output) {
        self.0.push_back(output);
    }

    pub(super) fn pop(&mut self) -> Option<Output> {
        self.0.pop_front()
    }

    /// Requests plans for these sinks, unless they are requested already.
    ///
    /// Cost    O(actions that are not taken), and O(1) without sinks
    pub(super) fn request(&mut self, sinks: impl Iterator<Item = NodeId>) {
        let mut sinks = sinks.peekable();
        if sinks.peek().is_none() {
            return;
        }
        let requested = self.0.iter().filter_map(|output| match output {
            Output::PlanWanted { sink } => Some(*sink),
            _ => None,
        });
        let requested: BTreeSet<NodeId> = requested.collect();
        let wanted = sinks.filter(|sink| !requested.contains(sink));
        self.0
            .extend(wanted.map(|sink| Output::PlanWanted { sink }));
    }

    /// Requests plans for these sinks, that of the silent node last: if it is alive after all, it
    /// is grafted on the new plans of the others.
    pub(super) fn request_around(&mut self, silent: NodeId, sinks: &BTreeSet<NodeId>) {
        let others = sinks.iter().filter(|sink| **sink != silent);
        self.request(others.copied());
        self.request(sinks.get(&silent).copied().into_iter());
    }

    pub(super) fn renew(&mut self, renewals: Renewals) {
        let renewals = renewals.into_iter();
        self.0
            .extend(renewals.map(|(route, epochs)| Output::Renew { epochs, route }));
    }
}
