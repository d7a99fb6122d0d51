//! `length`: a 32-bit big-endian length before each message.
//!
//! *What it does not do.* It finds no message behind a length above the bound: nothing says where one begins.

use bytes::Bytes;
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;

use super::tape::Tape;
use super::{Cut, Cutter, Fault, Joiner, unmarked};

/// Bytes of a length.
const LENGTH_BYTES: usize = 4;

/// Cuts by lengths.
#[derive(Debug, Default)]
pub struct Length {
    tape: Tape,
    /// Whether a length was above the bound.
    is_lost: bool,
}

/// Writes a length before each message.
#[derive(Debug)]
pub struct Join;

impl Cutter for Length {
    fn handle_bytes(&mut self, bytes: &Bytes) {
        if !self.is_lost {
            self.tape.push(bytes);
        }
    }

    fn handle_end(&mut self) {
        self.tape.handle_end();
    }

    fn poll_cut(&mut self) -> Option<Cut> {
        let offset = self.tape.offset();
        let bytes = self.tape.bytes();
        if let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() {
            let length = u32::from_be_bytes(*length);
            if length as usize > ADU_PAYLOAD_BYTES_MAX {
                self.is_lost = true;
                self.tape.take_all();
                return Some(Err(Fault::Length {
                    offset,
                    length,
                    limit: ADU_PAYLOAD_BYTES_MAX,
                }));
            }
            if rest.len() >= length as usize {
                let whole = self.tape.take(LENGTH_BYTES + length as usize);
                return Some(Ok((unmarked(), whole.slice(LENGTH_BYTES..))));
            }
        }
        self.tape.half("message")
    }
}

impl Joiner for Join {
    fn join(&mut self, message: &Bytes) -> Result<Bytes, Fault> {
        let length = u32::try_from(message.len()).expect("an ADU's payload is below 4 GiB");
        let mut whole = Vec::with_capacity(LENGTH_BYTES + message.len());
        whole.extend_from_slice(&length.to_be_bytes());
        whole.extend_from_slice(message);
        Ok(whole.into())
    }
}
