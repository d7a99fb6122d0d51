//! One node's part of one plan: what its control plane hands to its data plane.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU8;

use crate::id::{Epoch, NodeId, StreamId, StreamName};
use crate::needs::{Order, Reliability};

/// One node's part of one plan of one stream: all that the data path needs, except secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The stream's name.
    pub name: StreamName,
    /// The stream.
    pub stream: StreamId,
    /// The plan.
    pub epoch: Epoch,
    /// The stream's source, which made the plan.
    pub source: NodeId,
    /// The node that ADUs come from; this one at the source and where the plan is grafted.
    pub previous: NodeId,
    /// The node that they go to; `None` at the sink.
    pub next: Option<NodeId>,
    /// The adapters of this node, in order.
    pub adapters: Vec<String>,
    /// How lost and late ADUs are treated.
    pub reliability: Reliability,
    /// The order in which ADUs leave.
    pub order: Order,
    /// Its share of a full link relative to other streams.
    pub weight: NonZeroU8,
    /// Whether ADUs may arrive here unsealed.
    pub plaintext: bool,
    /// The plan from which this one is copied, if it is grafted here.
    pub base: Option<Epoch>,
}

/// What the adapters of a part need besides their words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secrets {
    /// The stream's key, if an adapter seals or opens.
    pub key: Option<KeyContent>,
    /// Random bits of this installation alone, which set its sealers' nonces apart from all others.
    pub instance: u64,
}

/// The key of a stream, and which of its keys it is.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyContent {
    /// The number of the key.
    pub key_epoch: u32,
    /// The secret.
    pub key: [u8; 32],
}

impl fmt::Debug for KeyContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyContent({}, secret)", self.key_epoch)
    }
}
