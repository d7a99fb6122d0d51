//! The control stream: whole frames in order, with priority over everything else.
//!
//! Each frame is preceded by its length in four bytes, big-endian. The port queues what QUIC has no
//! room for, as many frames as `thalweg-net`'s link does. Frames are opaque here.
//!
//! *Sources.* `thalweg-net` `link/control.rs`.

use std::collections::VecDeque;

use bytes::Bytes;
use noq_proto::StreamId;
use thalweg_base::limits::CONTROL_BYTES_MAX;
use thalweg_link::hop::settings::FRAMES_QUEUED_MAX;
use thalweg_link::hop::{KIND_CONTROL, rank};

use super::io::Io;
use super::quic::open;
use super::send::{Written, write};

/// A control frame cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// It is larger than a peer accepts.
    #[error("a control frame of {bytes} bytes is above the limit of {CONTROL_BYTES_MAX}")]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
    /// The queue is full.
    #[error("{FRAMES_QUEUED_MAX} control frames wait for room in the connection")]
    Full,
    /// There is no link, or it is draining.
    #[error("the link was lost")]
    LinkLost,
}

/// Our control stream of one connection.
#[derive(Debug, Default)]
pub(super) struct Control {
    stream: Option<StreamId>,
    /// Alternating lengths and frames; at first also the kind byte before them.
    unsent: VecDeque<Bytes>,
    is_finishing: bool,
    is_finished: bool,
}

impl Control {
    /// Opens the stream and sends its kind byte, which greets the peer.
    pub(super) fn greet(&mut self, io: &mut Io<'_>) {
        self.stream = open(io.quic, rank::CONTROL);
        self.unsent.push_back(Bytes::from_static(&[KIND_CONTROL]));
        self.write(io);
    }

    /// Queues a frame.
    pub(super) fn send(&mut self, io: &mut Io<'_>, frame: Bytes) -> Result<(), ControlError> {
        // Two entries per frame; a half-written frame still counts.
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

    /// Finishes the stream after what is queued.
    pub(super) fn finish(&mut self, io: &mut Io<'_>) {
        self.is_finishing = true;
        self.write(io);
    }

    /// Records that the peer has all of the stream.
    pub(super) fn handle_finished(&mut self) {
        self.is_finished = true;
    }

    /// Writes queued bytes to QUIC, as many as it takes.
    pub(super) fn write(&mut self, io: &mut Io<'_>) {
        let Some(stream) = self.stream else {
            return;
        };
        let written = write(io.quic, stream, &mut self.unsent);
        if self.is_finishing && matches!(written, Written::All) {
            self.is_finishing = false;
            // An error means that the stream, and with it the link, is over already.
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
