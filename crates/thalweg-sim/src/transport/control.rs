//! The control stream: frames, whole and in order, before everything else.
//!
//! *The idea.* Each frame has its length before it in four bytes, big-endian. The port keeps what QUIC has no room for,
//! as many frames as `thalweg-net`'s link queues.
//!
//! *What it does not do.* It does not look into a frame.

use thalweg_core::limits::CONTROL_BYTES_MAX;

/// Frames waiting to be written: twin of `link/control.rs`.
pub(super) const FRAMES_QUEUED_MAX: usize = 64;

/// A control frame cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// It is larger than a peer accepts.
    #[error("a control frame of {bytes} bytes is above the limit of {CONTROL_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// So many wait already.
    #[error("{FRAMES_QUEUED_MAX} control frames wait for room in the connection")]
    Full,
    /// There is no link, or it drains.
    #[error("the link was lost")]
    LinkLost,
}
