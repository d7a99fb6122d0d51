//! What the loop runs: a connection, or the driver of a link's sender.
//!
//! *The idea.* The loop says what has become ready and when; the entry does what it can without
//! waiting, and says when it is to be settled if nothing happens before.

use std::os::fd::BorrowedFd;
use std::time::Instant;

/// An entry of the loop.
pub(in crate::tcp) trait Entry: Send {
    /// Returns the socket to watch, if it has one.
    fn socket(&self) -> Option<BorrowedFd<'_>>;

    /// Handles that the socket is ready; [`Entry::settle`] follows.
    fn handle_ready(&mut self, readiness: Readiness);

    /// Does what can be done now. `scratch` is for bytes that arrive; it keeps nothing between calls.
    fn settle(&mut self, scratch: &mut [u8]) -> Next;

    /// Handles that the loop cannot run it any longer: it has ended, or the entry has panicked.
    fn abandon(self: Box<Self>);
}

/// What a socket is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tcp) struct Readiness {
    /// Bytes have arrived, or the end.
    pub(in crate::tcp) is_readable: bool,
    /// There is room to write.
    pub(in crate::tcp) is_writable: bool,
    /// The peer has ended its side, or the connection is broken.
    pub(in crate::tcp) is_hung_up: bool,
}

/// When an entry is to be settled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) enum Next {
    /// In the next turn: others come first.
    Turn,
    /// When something happens, or at this time.
    Event(Option<Instant>),
    /// Never: it is over, and is dropped.
    Over,
}
