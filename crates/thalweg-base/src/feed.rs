//! What plans are given: at their source, and at the node on whose part another plan is grafted.

use alloc::vec::Vec;

use crate::id::{Epoch, NodeId, Sequence};

/// What a grafted plan gets from its caster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// Nothing more.
    Off,
    /// A copy of every ADU that arrives for its base from now on.
    Live,
    /// The same, preceded by what is kept of the base since its newest key ADU, as its sink starts with it.
    Replay,
    /// A copy of everything below this sequence: what was sent while the plan was in force and has
    /// not arrived yet. Its successor carries the rest.
    Until(Sequence),
}

/// A plan that the source sends ADUs under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The plan.
    pub epoch: Epoch,
    /// The plans in force that it feeds: itself, and its grafts.
    pub serves: Vec<Epoch>,
}

/// A sink of a held stream, and the plan in force for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sinkward {
    /// The sink.
    pub sink: NodeId,
    /// The plan, if there is one, and how many layers it carries to its end.
    pub plan: Option<(Epoch, u8)>,
}

impl Feed {
    /// Returns whether the source waits for the caster's answer.
    pub const fn begins(self) -> bool {
        matches!(self, Self::Live | Self::Replay)
    }
}
