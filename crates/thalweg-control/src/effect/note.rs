//! Events worth reporting: notes for the operator's log, and notices for subscribers.
//!
//! *The idea.* The state machines do not log. They emit a note, and the driver writes it with the fields
//! and at the level that suit it. A simulator counts notes, or prints them with the virtual time.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, StreamId, StreamName};
use thalweg_base::wire::WireError;

use crate::admission::{Rights, Unfit};
use crate::facts::KeysError;
use crate::ledger::{Disbelief, Loss};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A frame of a neighbour could not be decoded.
    FrameRefused {
        /// The neighbour.
        from: NodeId,
        /// What is wrong with it.
        error: WireError,
    },
    /// A record from a neighbour could not be decoded.
    RecordRefused {
        /// The neighbour.
        from: NodeId,
        /// What is wrong with it.
        error: WireError,
    },
    /// A record does not carry the signature of its node.
    RecordForged {
        /// The neighbour that it came from.
        from: NodeId,
        /// The node that the record names.
        node: NodeId,
    },
    /// A description from a neighbour could not be decoded.
    DescriptionRefused {
        /// The neighbour.
        from: NodeId,
        /// What is wrong with it.
        error: WireError,
    },
    /// A description does not carry the signature of its node.
    DescriptionForged {
        /// The neighbour that it came from.
        from: NodeId,
        /// The node that the description names.
        node: NodeId,
    },
    /// A record announces a stream with an id that does not derive from its node's key.
    RecordBorrows {
        /// The node of the record.
        node: NodeId,
        /// The stream.
        stream: StreamName,
    },
    /// The route of an envelope does not match the neighbour that it came from, or this node.
    EnvelopeAstray {
        /// The neighbour that it came from.
        from: NodeId,
    },
    /// An envelope does not carry the signature of its sender.
    EnvelopeForged {
        /// The sender that it names.
        sender: NodeId,
    },
    /// The body of an envelope could not be decoded.
    EnvelopeRefused {
        /// The sender.
        sender: NodeId,
        /// What is wrong with it.
        error: WireError,
    },
    /// A neighbour passed on an invalid grant.
    GrantRefused {
        /// The neighbour.
        from: NodeId,
        /// The node that the grant is for.
        node: NodeId,
        /// What is wrong with it.
        error: Unfit,
    },
    /// A neighbour passed on an invalid revocation.
    RevocationRefused {
        /// The neighbour.
        from: NodeId,
        /// The node that loses its grants.
        node: NodeId,
        /// What is wrong with it.
        error: Unfit,
    },
    /// A record is of a node without a known grant.
    RecordUngranted {
        /// The neighbour that it came from.
        from: NodeId,
        /// The node of the record.
        node: NodeId,
    },
    /// A record announces streams, and its node has no right to publish.
    RecordExceeds {
        /// The neighbour that it came from.
        from: NodeId,
        /// The node of the record.
        node: NodeId,
    },
    /// An envelope is of a node without a known grant.
    EnvelopeUngranted {
        /// The neighbour that it came from.
        from: NodeId,
        /// The sender.
        sender: NodeId,
    },
    /// A node without the right to subscribe asked for a stream.
    SubscribeRefused {
        /// The node.
        sink: NodeId,
    },
    /// A node asked for a stream that already has the maximum number of sinks.
    SinksFull {
        /// The node.
        sink: NodeId,
    },
    /// A node joined the fabric, or its rights changed.
    Enrolled {
        /// The node.
        node: NodeId,
        /// Its rights.
        rights: Rights,
    },
    /// A node no longer belongs to the fabric.
    Expelled {
        /// The node.
        node: NodeId,
    },
    /// A report came from a node that is not next on the plan, or for a plan that is not installed here.
    AccountAstray {
        /// The neighbour.
        from: NodeId,
    },
    /// A message about a grafted plan came from a node that is not next on its base, or the plan is
    /// not grafted there.
    BranchAstray {
        /// The neighbour.
        from: NodeId,
    },
    /// A node on a plan of this node leaves in good order.
    Leaving {
        /// The node.
        node: NodeId,
    },
    /// A report contradicts what is known.
    AccountDisbelieved {
        /// The neighbour.
        from: NodeId,
        /// What is wrong with it.
        error: Disbelief,
    },
    /// A stream of this node loses ADUs; repeated at most every
    /// [`NOTE_INTERVAL`](crate::ledger::NOTE_INTERVAL).
    Losing {
        /// Its name.
        stream: StreamName,
        /// The most frequent loss: node, cause, importance, and the count since the last such note.
        loss: Loss,
    },
    /// A program published a stream.
    Published {
        /// Its name.
        stream: StreamName,
    },
    /// The program that published a stream is gone; what it sent drains.
    Draining {
        /// Its name.
        stream: StreamName,
    },
    /// A stream was withdrawn.
    Unpublished {
        /// Its name.
        stream: StreamName,
    },
    /// A source has no plan for a sink.
    NoPlan {
        /// The sink.
        sink: NodeId,
        /// The reason.
        reason: String,
    },
    /// A source serves a sink over a path that was measured as too slow for the stream.
    TooSlow {
        /// The sink.
        sink: NodeId,
        /// Why there is no better plan.
        reason: String,
    },
    /// A neighbour has not answered for a while: standby plans are prepared.
    Doubtful {
        /// The neighbour.
        peer: NodeId,
    },
    /// A neighbour does not answer.
    Silent {
        /// The neighbour.
        peer: NodeId,
    },
    /// Nodes accept traffic for another node, and none or only part of it gets there: plans avoid them.
    Withholding {
        /// The suspects, one or more of which withhold.
        nodes: Vec<NodeId>,
        /// The node that the traffic was for.
        end: NodeId,
    },
    /// Stamps came from a node that is not the sink of the plan, or do not match its nodes; or from
    /// a source that this node has not asked.
    TraceAstray {
        /// The sender.
        from: NodeId,
    },
    /// A receipt came from a node that is not next on the plan.
    ReceiptAstray {
        /// The sender.
        from: NodeId,
    },
    /// An advice came from a node that is not next on the plan.
    AdviceAstray {
        /// The sender.
        from: NodeId,
    },
    /// A node reported a silent source of a plan, and is not previous on that plan.
    SilenceAstray {
        /// The sender.
        from: NodeId,
    },
    /// A node named the records that it lacks without being sent a summary, or twice.
    LackAstray {
        /// The sender.
        from: NodeId,
    },
    /// The producer of a wanted stream does not answer, and another producer of that name takes over.
    ProducerSilent {
        /// The stream.
        stream: StreamName,
        /// Its producer.
        producer: NodeId,
    },
    /// What the sink of a plan has not acknowledged is resent.
    Resending {
        /// The stream.
        stream: StreamId,
        /// The plan that it is resent under.
        to: Epoch,
    },
    /// A stream of this node has a new key: a node that had the former key has lost the right to it.
    Rekeyed {
        /// The stream.
        stream: StreamName,
        /// The number of the key.
        key_epoch: u32,
    },
    /// The key of a stream could not be sealed for a node.
    KeyNotSealed {
        /// The node.
        node: NodeId,
        /// The reason.
        error: KeysError,
    },
    /// All nodes of a plan are ready, and ADUs travel under it.
    PlanInForce {
        /// The sink.
        sink: NodeId,
        /// The plan.
        epoch: Epoch,
    },
    /// A plan could not be deployed, or no longer runs; another is made.
    DeploymentFailed {
        /// The sink.
        sink: NodeId,
        /// The plan.
        epoch: Epoch,
        /// The reason.
        reason: String,
    },
    /// The subscription of a sink ended.
    SinkGone {
        /// The sink.
        sink: NodeId,
    },
    /// A wanted stream has a plan that ends here.
    Subscribed {
        /// Its name.
        stream: StreamName,
    },
    /// A part of a plan is now installed here.
    PartInstalled {
        /// The stream's name.
        stream: StreamName,
        /// The plan.
        epoch: Epoch,
        /// The adapters.
        adapters: Vec<String>,
    },
    /// The lease of a part was not renewed, and the part is removed.
    PartExpired {
        /// The stream's name.
        stream: StreamName,
        /// The plan.
        epoch: Epoch,
    },
}

/// A notice to the subscribers of a stream on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// No node publishes the stream yet.
    Waiting,
    /// Its publisher is gone.
    Gone,
    /// Its producer went away without ending it, and the reader has reached the last ADU.
    CutOff,
    /// This node no longer belongs to its fabric.
    Expelled,
    /// Its source does not serve this node now, or not fully.
    Refused {
        /// The source's name.
        source: String,
        /// The reason, in the words of the source.
        reason: String,
        /// Whether a plan is in force, so that what fits may still arrive.
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
                "this node's grant has expired or was revoked, so no node serves `{name}` to it: run `thalweg join` with a new ticket"
            ),
            Self::Refused {
                source,
                reason,
                is_served,
            } => {
                let meanwhile = if *is_served {
                    "still delivering what arrives"
                } else {
                    "waiting"
                };
                format!("{source} cannot serve `{name}` now: {reason}; {meanwhile}")
            }
        }
    }
}
