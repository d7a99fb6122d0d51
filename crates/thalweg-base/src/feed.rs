//! What a plan is given at the node on whose part another plan is grafted.

use crate::id::Sequence;

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

impl Feed {
    /// Returns whether the source waits for the caster's answer.
    pub const fn begins(self) -> bool {
        matches!(self, Self::Live | Self::Replay)
    }
}
