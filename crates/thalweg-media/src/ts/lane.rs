//! What is pending on one PID while a stream is read.
//!
//! What it does not do: decide when a unit is whole (`read` does).

use bytes::{Bytes, BytesMut};

use super::clock::Clock;
use super::{pes, section};

/// What is pending on one PID.
#[derive(Debug, Clone, Default)]
pub(super) struct Lane {
    /// Its times; they are of the programme's clock, or of another.
    pub(super) clock: Option<Clock>,
    pub(super) counter: Option<u8>,
    pub(super) tables: section::Assembly,
    pub(super) pes: Option<Pes>,
    /// Stream id of a unit that stuffing has ended.
    pub(super) stuffed: Option<u8>,
    pub(super) bundle: BytesMut,
    /// Bytes of the section that the bundle begins with, and how many of them are there.
    pub(super) section: Option<(usize, usize)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Pes {
    /// For the rest of a unit whose end was seen too soon: it has no header.
    pub(super) rest_of: Option<u8>,
    pub(super) random_access: bool,
    pub(super) damaged: bool,
    pub(super) bytes: BytesMut,
}

impl Pes {
    /// The length it must have, if its header says.
    pub(super) fn whole_bytes(&self) -> Option<usize> {
        match self.rest_of {
            None => pes::whole_bytes(&self.bytes),
            Some(_) => None,
        }
    }

    pub(super) fn header(&self) -> Option<pes::Header> {
        match self.rest_of {
            None => pes::read(&self.bytes),
            Some(stream_id) => Some(pes::Header {
                stream_id,
                aligned: false,
                pts: None,
                dts: None,
                options: Bytes::new(),
                bytes: 0,
            }),
        }
    }
}

/// Payload bytes from the pointer to the end of the section it points at, if that can be told.
pub(super) fn section_bytes(payload: &[u8]) -> Option<usize> {
    let (&pointer, rest) = payload.split_first()?;
    match rest.get(usize::from(pointer)..)? {
        [_, high, low, ..] => {
            let len = usize::from(u16::from_be_bytes([high & 0x0f, *low]));
            Some(1 + usize::from(pointer) + 3 + len)
        }
        _ => None,
    }
}
