//! The control stream: frames, whole and in order, before everything else.
//!
//! *The idea.* Each frame has its length before it in four bytes, big-endian. The port keeps what QUIC has no room for,
//! as many frames as `thalweg-net`'s link queues.
//!
//! *What it does not do.* It does not look into a frame.
//!
//! *Sources.* `thalweg-net` `link/control.rs`.

use std::collections::VecDeque;

use bytes::Bytes;
use noq_proto::StreamId;
use thalweg_core::hop::settings::FRAMES_QUEUED_MAX;
use thalweg_core::hop::{KIND_CONTROL, rank};
use thalweg_core::limits::CONTROL_BYTES_MAX;

use super::live::Io;
use super::quic::open;
use super::send::{Written, write};

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

/// Our control stream of one connection.
#[derive(Debug, Default)]
pub(super) struct Control {
    stream: Option<StreamId>,
    /// A length and a frame in turn, and the kind before them.
    unsent: VecDeque<Bytes>,
    is_finishing: bool,
    is_finished: bool,
}

impl Control {
    /// Opens the stream and sends its first byte, which greets the peer.
    pub(super) fn greet(&mut self, io: &mut Io<'_>) {
        self.stream = open(io.quic, rank::CONTROL);
        self.unsent.push_back(Bytes::from_static(&[KIND_CONTROL]));
        self.write(io);
    }

    /// Queues a frame.
    pub(super) fn send(&mut self, io: &mut Io<'_>, frame: Bytes) -> Result<(), ControlError> {
        // Two a frame; a frame that is half written still counts.
        if self.unsent.len() >= 2 * FRAMES_QUEUED_MAX {
            return Err(ControlError::Full);
        }
        let length = u32::try_from(frame.len()).expect("checked against the limit");
        self.unsent
            .push_back(Bytes::copy_from_slice(&length.to_be_bytes()));
        self.unsent.push_back(frame);
        self.write(io);
        Ok(())
    }

    pub(super) fn is_ours(&self, stream: StreamId) -> bool {
        self.stream == Some(stream)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.unsent.iter().map(Bytes::len).sum()
    }

    /// Says that nothing follows.
    pub(super) fn finish(&mut self, io: &mut Io<'_>) {
        self.is_finishing = true;
        self.write(io);
    }

    /// Takes word that the peer has all of the stream.
    pub(super) fn handle_finished(&mut self) {
        self.is_finished = true;
    }

    /// Hands QUIC what it takes.
    pub(super) fn write(&mut self, io: &mut Io<'_>) {
        let Some(stream) = self.stream else {
            return;
        };
        let written = write(io.quic, stream, &mut self.unsent);
        if self.is_finishing && matches!(written, Written::All) {
            self.is_finishing = false;
            // An error says that the stream is over already, and with it the link.
            let _ = io.quic.send_stream(stream).finish();
        }
    }
}

/// Refuses a frame that no peer would accept.
pub(super) fn check(frame: &Bytes) -> Result<(), ControlError> {
    if frame.len() <= CONTROL_BYTES_MAX {
        Ok(())
    } else {
        let bytes = frame.len();
        Err(ControlError::TooLarge { bytes })
    }
}
