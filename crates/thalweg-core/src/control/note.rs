//! What is worth telling: notes for an operator's log, and notices for subscribers.
//!
//! *The idea.* The machines do not log; they say what happened, and the driver writes it down with the fields and at
//! the level that suit it. A simulator counts notes, or prints them with the virtual time.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::admission::{Rights, Unfit};
use crate::id::{Epoch, NodeId, StreamId, StreamName};
use crate::ledger::{Disbelief, Loss};
use crate::wire::WireError;

use super::KeysError;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A neighbour sent a frame that means nothing.
    FrameRefused {
        /// The neighbour.
        from: NodeId,
        /// What is wrong with it.
        error: WireError,
    },
    /// A neighbour sent a record that means nothing.
    RecordRefused {
        /// The neighbour.
        from: NodeId,
        /// What is wrong with it.
        error: WireError,
    },
    /// A record does not bear its node's signature.
    RecordForged {
        /// The neighbour that it came from.
        from: NodeId,
        /// Whose record it is said to be.
        node: NodeId,
    },
    /// A record announces a stream whose id is not derived from its node.
    RecordBorrows {
        /// Whose record it is.
        node: NodeId,
        /// The stream.
        stream: StreamName,
    },
    /// An envelope came from, or to, a node that its route does not name there.
    EnvelopeAstray {
        /// The neighbour that it came from.
        from: NodeId,
    },
    /// An envelope does not bear its sender's signature.
    EnvelopeForged {
        /// Who is said to have sent it.
        sender: NodeId,
    },
    /// An envelope holds what means nothing.
    EnvelopeRefused {
        /// Who sent it.
        sender: NodeId,
        /// What is wrong with it.
        error: WireError,
    },
    /// A neighbour passed on a grant that does not hold.
    GrantRefused {
        /// The neighbour.
        from: NodeId,
        /// Whose grant it is said to be.
        node: NodeId,
        /// What is wrong with it.
        error: Unfit,
    },
    /// A neighbour passed on a revocation that does not hold.
    RevocationRefused {
        /// The neighbour.
        from: NodeId,
        /// Whose grants it is to end.
        node: NodeId,
        /// What is wrong with it.
        error: Unfit,
    },
    /// A record is of a node that no grant is known of.
    RecordUngranted {
        /// The neighbour that it came from.
        from: NodeId,
        /// Whose record it is.
        node: NodeId,
    },
    /// A record announces streams, and its node may not publish.
    RecordExceeds {
        /// The neighbour that it came from.
        from: NodeId,
        /// Whose record it is.
        node: NodeId,
    },
    /// An envelope is of a node that no grant is known of.
    EnvelopeUngranted {
        /// The neighbour that it came from.
        from: NodeId,
        /// Who sent it.
        sender: NodeId,
    },
    /// A node asked for a stream, and may not subscribe.
    SubscribeRefused {
        /// Which node.
        sink: NodeId,
    },
    /// A node asked for a stream that has as many sinks as it may have.
    SinksFull {
        /// Which node.
        sink: NodeId,
    },
    /// A node belongs to the fabric, from now on or with other rights than before.
    Enrolled {
        /// Which node.
        node: NodeId,
        /// What it may do.
        rights: Rights,
    },
    /// A node belongs to the fabric no more.
    Expelled {
        /// Which node.
        node: NodeId,
    },
    /// An account came from a node that a plan does not go on to, or of a plan that is not installed here.
    AccountAstray {
        /// The neighbour.
        from: NodeId,
    },
    /// Something of a grafted plan came from a node that its base does not go on to, or is of a plan that is not grafted there.
    BranchAstray {
        /// The neighbour.
        from: NodeId,
    },
    /// A node of a plan of this node's leaves in good order.
    Leaving {
        /// Which node.
        node: NodeId,
    },
    /// An account cannot be true.
    AccountDisbelieved {
        /// The neighbour.
        from: NodeId,
        /// What is wrong with it.
        error: Disbelief,
    },
    /// A stream of this node's loses ADUs, most of them so; said once in a while.
    Losing {
        /// Its name.
        stream: StreamName,
        /// Where, why, of what importance, and how many since this was said last.
        loss: Loss,
    },
    /// A program publishes a stream.
    Published {
        /// Its name.
        stream: StreamName,
    },
    /// A program that publishes a stream is gone; what it gave drains.
    Draining {
        /// Its name.
        stream: StreamName,
    },
    /// A program's stream is withdrawn.
    Unpublished {
        /// Its name.
        stream: StreamName,
    },
    /// A source has no plan for a sink.
    NoPlan {
        /// For whom.
        sink: NodeId,
        /// Why.
        reason: String,
    },
    /// A source serves a sink by a way that was measured as too slow for the stream.
    TooSlow {
        /// For whom.
        sink: NodeId,
        /// Why there is no better.
        reason: String,
    },
    /// A neighbour has not answered for a while, and may yet: other ways are made ready.
    Doubtful {
        /// Which neighbour.
        peer: NodeId,
    },
    /// A neighbour does not answer what it is sent.
    Silent {
        /// Which neighbour.
        peer: NodeId,
    },
    /// Nodes take what leads on to another, and nothing comes of it, or a part does not: they are kept away from.
    Withholding {
        /// Which nodes: one of them does.
        nodes: Vec<NodeId>,
        /// What was to get there.
        end: NodeId,
    },
    /// Stamps came from a node that is no sink of the plan, or are not one for each of its nodes; or from a source that this
    /// node has not asked.
    TraceAstray {
        /// From whom.
        from: NodeId,
    },
    /// A receipt came of a plan that does not go on there.
    ReceiptAstray {
        /// From whom.
        from: NodeId,
    },
    /// An advice came of a plan that does not go on there.
    AdviceAstray {
        /// From whom.
        from: NodeId,
    },
    /// It was said of a plan, from where none of its ADUs come, that its source does not answer.
    SilenceAstray {
        /// From whom.
        from: NodeId,
    },
    /// A node said what it lacks that was not told what there is, or has said so.
    LackAstray {
        /// From whom.
        from: NodeId,
    },
    /// The producer of a wanted stream does not answer, and another of that name is taken that does.
    ProducerSilent {
        /// Which stream.
        stream: StreamName,
        /// Its producer.
        producer: NodeId,
    },
    /// What the sink of a plan has not acknowledged is sent again.
    Resending {
        /// Which stream.
        stream: StreamId,
        /// Under which plan.
        to: Epoch,
    },
    /// A stream of this node has another key: one that had the key before may not have it any more.
    Rekeyed {
        /// Which.
        stream: StreamName,
        /// The number of the key.
        key_epoch: u32,
    },
    /// A stream's key could not be sealed for a node.
    KeyNotSealed {
        /// For whom.
        node: NodeId,
        /// Why.
        error: KeysError,
    },
    /// All nodes of a plan are ready, and ADUs travel under it.
    PlanInForce {
        /// For whom.
        sink: NodeId,
        /// Which plan.
        epoch: Epoch,
    },
    /// A plan could not be deployed, or runs no more; another is made.
    DeploymentFailed {
        /// For whom.
        sink: NodeId,
        /// Which plan.
        epoch: Epoch,
        /// Why.
        reason: String,
    },
    /// A sink's subscription ended.
    SinkGone {
        /// Which sink.
        sink: NodeId,
    },
    /// A wanted stream has a plan that ends here.
    Subscribed {
        /// Its name.
        stream: StreamName,
    },
    /// A part of a plan runs here from now on.
    PartInstalled {
        /// The stream's name.
        stream: StreamName,
        /// Which plan.
        epoch: Epoch,
        /// The adapters.
        adapters: Vec<String>,
    },
    /// A part was not renewed and is forgotten.
    PartExpired {
        /// The stream's name.
        stream: StreamName,
        /// Which plan.
        epoch: Epoch,
    },
}

/// What a subscriber is told of its subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Nobody publishes the stream yet.
    Waiting,
    /// Its publisher is gone.
    Gone,
    /// Its producer went away without ending it, and all that came of it has been read.
    CutOff,
    /// This node does not belong to its fabric any more.
    Expelled,
    /// Its source cannot serve us now, or not as it should.
    Refused {
        /// The source's name.
        source: String,
        /// Why, as the source says.
        reason: String,
        /// Whether there is a plan in force, by which what fits may come.
        is_served: bool,
    },
}

impl Notice {
    /// Returns the notice about this stream as a sentence.
    pub fn sentence(&self, name: &StreamName) -> String {
        match self {
            Self::Waiting => format!("no node publishes `{name}` yet; waiting"),
            Self::Gone => {
                format!("the publisher of `{name}` is gone; waiting for it to come back")
            }
            Self::CutOff => format!(
                "the producer of `{name}` died before it ended the stream; waiting for the next"
            ),
            Self::Expelled => format!(
                "this node's own grant has expired or was revoked, so nobody serves `{name}` to it: `thalweg join` with a new ticket"
            ),
            Self::Refused {
                source,
                reason,
                is_served,
            } => {
                let meanwhile = if *is_served {
                    "going on with what comes"
                } else {
                    "waiting"
                };
                format!("{source} cannot serve `{name}` now: {reason}; {meanwhile}")
            }
        }
    }
}
