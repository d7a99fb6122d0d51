//! What an engine holds, for a test of its bounds.

/// The numbers of what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct Sizes {
    /// Connections in any stage.
    pub slots: usize,
    /// Those that are up, as their shares count them.
    pub shares: usize,
    /// The most of one key.
    pub most_of_a_key: usize,
    /// Places that pending handshakes take.
    pub pending: usize,
    /// Entries in the heap of timers.
    pub timers: usize,
}
