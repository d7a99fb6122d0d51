//! What plans avoid, from the most cautious level to none.

/// What a planning avoids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Avoid {
    /// Nodes that did not answer.
    Nodes,
    /// The links over which they did not answer.
    Links,
    /// Only the links that are silent now; others were silent for a moment.
    Silent,
    /// Nothing: there is no other path.
    Nothing,
}

impl Avoid {
    /// Returns the next less cautious level.
    pub(crate) const fn relaxed(self) -> Option<Self> {
        match self {
            Self::Nodes => Some(Self::Links),
            Self::Links => Some(Self::Silent),
            Self::Silent => Some(Self::Nothing),
            Self::Nothing => None,
        }
    }

    /// Returns whether it also avoids what may be working.
    pub(crate) const fn is_cautious(self) -> bool {
        matches!(self, Self::Nodes | Self::Links)
    }
}
