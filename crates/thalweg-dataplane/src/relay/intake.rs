//! An ADU that arrives: what is known of it until its end.

use bytes::{Bytes, BytesMut};
use thalweg_base::adu::{Header, Mark};

use super::account::Ended;
use super::action::SendNumber;
use super::cast::Branches;
use super::plans::Seat;

/// An ADU that is arriving.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) header: Header,
    /// The seat of its plan when it began.
    pub(super) seat: Seat,
    payload_bytes: usize,
    /// Under which number it is passed on, if it is.
    pub(super) passed: Option<SendNumber>,
    /// Its bytes so far, if they are needed here.
    gathered: Option<Gathered>,
    /// How it ended on the next link, and the mark that it had there.
    pub(super) ended: Option<(Ended, Mark)>,
    /// It is kept for sinks that join late.
    pub(super) is_kept: bool,
    /// The branches of its plan when it began.
    pub(super) branches: Branches,
}

/// The bytes of an ADU so far. One that comes in one chunk is not copied.
#[derive(Debug, Default)]
struct Gathered {
    first: Bytes,
    all: BytesMut,
}

impl Intake {
    /// Returns an ADU of which nothing has arrived yet.
    pub(super) fn new(
        header: Header,
        seat: Seat,
        payload_bytes: usize,
        branches: Branches,
        is_kept: bool,
    ) -> Self {
        Self {
            header,
            seat,
            payload_bytes,
            passed: None,
            gathered: None,
            ended: None,
            is_kept,
            branches,
        }
    }

    /// Begins to collect its bytes.
    pub(super) fn gather(&mut self) {
        self.gathered = Some(Gathered::default());
    }

    /// Handles bytes that have come.
    pub(super) fn handle_chunk(&mut self, chunk: &Bytes) {
        let Some(gathered) = &mut self.gathered else {
            return;
        };
        if gathered.first.is_empty() && gathered.all.is_empty() {
            gathered.first = chunk.clone();
            return;
        }
        if gathered.all.is_empty() {
            gathered.all.reserve(self.payload_bytes);
            gathered.all.extend_from_slice(&gathered.first);
        }
        gathered.all.extend_from_slice(chunk);
    }

    /// Returns the collected bytes.
    pub(super) fn take_payload(&mut self) -> Bytes {
        let gathered = self.gathered.take().unwrap_or_default();
        if gathered.all.is_empty() {
            gathered.first
        } else {
            gathered.all.freeze()
        }
    }
}
