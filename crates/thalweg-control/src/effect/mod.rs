//! What an owner asks for: a message, a note, an action of the driver, or that another owner act.
//!
//! *The idea.* No owner reaches into another. Where its decision concerns one, it pushes an
//! [`Effect`], and the controller carries that out, with everything that follows from it, before the
//! effect behind it. So messages leave in the order in which the decisions were made.
//!
//! | file | what it is |
//! |---|---|
//! | `output` | actions for the driver |
//! | `note` | events for logs and programs |
//!
//! *What it does not do.* It carries out nothing: [`control`](crate::control) does.

mod note;
mod output;

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::control::{Body, Message};

pub use note::{Note, Notice};
pub use output::Output;

/// A plan: its stream, and its number.
pub(crate) type PlanKey = (StreamId, Epoch);

/// Something that an owner wants done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Send a message to a neighbour.
    Send(NodeId, Message),
    /// Send a message to all neighbours, except one.
    Broadcast(Message, Option<NodeId>),
    /// Send a signed message along a route that begins here.
    Route(Vec<NodeId>, Body),
    /// Send a record to all neighbours that lack it.
    Flood(Flooding),
    /// A neighbour has a record already: its node, its number.
    FloodKnown { of: (NodeId, u64), to: NodeId },
    /// A neighbour is a leaf from now on, or no longer: one is not flooded the records of leaves.
    Leaf(NodeId, bool),
    /// Report an event.
    Note(Note),
    /// Have the driver act.
    Output(Output),
    /// The map or the set of published streams has changed: sources and sinks look at it.
    Changed,
    /// Make, sign and flood this node's record.
    Announce,
    /// A stream is about to use a link: what is measured of it is announced soon.
    RaiseUrgency,
    /// A node has other rights than before: what it has here without right is removed.
    RightsChanged(NodeId),
    /// Look up the producers of all wanted streams.
    ResolveWanted,
    /// Send the subscriptions that are due.
    RenewWanted,
    /// Have another owner act.
    Ask(Ask),
}

/// What one owner asks of others.
#[derive(Debug)]
pub(crate) enum Ask {
    /// A part is installed now.
    PartInstalled(PlanKey),
    /// A part's lease was renewed.
    PartRenewed(PlanKey),
    /// Its source renews a plan: it may be that of the programs that are here now.
    Reclaim(PlanKey),
    /// The source keeps up a plan that ends here, by the reverse of this route.
    KeptUp(PlanKey, Vec<NodeId>),
    /// A plan has no part here any more, or never had one.
    PlanOver(PlanKey),
    /// A part of a stream is gone: it may have been the last that ended here.
    Unserved(StreamId),
    /// The account of a plan has changed: its losses may be worth a note.
    Counted(PlanKey),
    /// A plan of this node is grafted: its account has this many nodes.
    GraftMade(PlanKey, usize),
    /// The accounts of these plans go by receipts.
    GoByReceipts(StreamId, Vec<Epoch>),
    /// The second node does not answer the first: the plans of this node's streams avoid that until then.
    Suspect([NodeId; 2], Instant),
    /// The second node may not answer the first: they prepare for its silence until then.
    Doubt([NodeId; 2], Instant),
    /// Nodes of a path from here did not answer.
    Unanswered {
        path: Vec<NodeId>,
        silent: Vec<NodeId>,
    },
    /// A sink of this node's stream is not served, for a reason in words.
    Failed {
        stream: StreamId,
        sink: NodeId,
        reason: String,
    },
    /// The source of a stream that ends here is silent.
    SilentProducer(StreamId, NodeId),
}

/// A record on its way to all neighbours.
#[derive(Debug)]
pub(crate) struct Flooding {
    /// Its node, and its number.
    pub(crate) of: (NodeId, u64),
    /// The record as a control frame.
    pub(crate) frame: Bytes,
    /// The neighbour that sent it.
    pub(crate) from: Option<NodeId>,
    /// Whether it says nothing that leaves need: they are not flooded it.
    pub(crate) is_leaf: bool,
    /// The leaves that need it nevertheless.
    pub(crate) also_to: Vec<NodeId>,
    /// How long it may wait for others, per link of this node.
    pub(crate) pace: Duration,
}

/// The handling of one input: the time, and what is to be done.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) now: Instant,
    effects: &'a mut Vec<Effect>,
}

impl<'a> Turn<'a> {
    pub(crate) const fn new(now: Instant, effects: &'a mut Vec<Effect>) -> Self {
        Self { now, effects }
    }

    /// Asks for an effect, after those before it.
    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Has another owner act.
    pub(crate) fn ask(&mut self, ask: Ask) {
        self.push(Effect::Ask(ask));
    }

    /// Sends a message to a neighbour.
    pub(crate) fn send(&mut self, to: NodeId, message: Message) {
        self.push(Effect::Send(to, message));
    }

    /// Sends a body along a route that begins here.
    pub(crate) fn route(&mut self, route: Vec<NodeId>, body: Body) {
        self.push(Effect::Route(route, body));
    }

    /// Reports an event.
    pub(crate) fn note(&mut self, note: Note) {
        self.push(Effect::Note(note));
    }

    /// Has the driver act.
    pub(crate) fn output(&mut self, output: Output) {
        self.push(Effect::Output(output));
    }
}

/// Returns the reverse route.
pub(crate) fn reversed(route: &[NodeId]) -> Vec<NodeId> {
    route.iter().rev().copied().collect()
}

/// Returns the keys of all plans of a stream, as a range.
pub(crate) fn plans_of(stream: StreamId) -> core::ops::RangeInclusive<PlanKey> {
    (stream, Epoch(0))..=(stream, Epoch(u32::MAX))
}
