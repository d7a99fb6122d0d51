//! The pending data of one PID while a stream is read.
//!
//! What it does not do: decide when a unit is complete (`read` does).

use bytes::{Bytes, BytesMut};

use super::clock::Clock;
use super::{pes, section};

/// The pending data of one PID.
#[derive(Debug, Clone, Default)]
pub(super) struct Lane {
    /// Its clock: the programme's, or another.
    pub(super) clock: Option<Clock>,
    pub(super) counter: Option<u8>,
    pub(super) tables: section::Assembly,
    pub(super) pes: Option<Pes>,
    /// Stream id of a unit that stuffing has ended.
    pub(super) stuffed: Option<u8>,
    pub(super) bundle: BytesMut,
    /// Length of the section with which the bundle begins, and how many bytes of it have arrived.
    pub(super) section: Option<(usize, usize)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Pes {
    /// Stream id for the rest of a unit that was ended too early: the rest has no header.
    pub(super) rest_of: Option<u8>,
    pub(super) random_access: bool,
    pub(super) damaged: bool,
    pub(super) bytes: BytesMut,
}

impl Pes {
    /// The length of the unit, if its header tells it.
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

/// Returns the payload bytes from the pointer to the end of the section it points at, if known.
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
