//! `packets`: a datagram is a message.

use std::collections::VecDeque;

use bytes::Bytes;
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;

use super::{Cut, Cutter, Fault, Joiner, unmarked};

/// Hands on each piece as it came.
#[derive(Debug, Default)]
pub struct Packets {
    waiting: VecDeque<Bytes>,
    offset: u64,
}

/// Hands on each message as it is.
#[derive(Debug)]
pub struct Join;

impl Cutter for Packets {
    fn handle_bytes(&mut self, bytes: &Bytes) {
        self.waiting.push_back(bytes.clone());
    }

    fn handle_end(&mut self) {}

    fn poll_cut(&mut self) -> Option<Cut> {
        let packet = self.waiting.pop_front()?;
        let offset = self.offset;
        self.offset += packet.len() as u64;
        if packet.len() > ADU_PAYLOAD_BYTES_MAX {
            return Some(Err(Fault::Long {
                what: "packet",
                format: "packets",
                offset,
                limit: ADU_PAYLOAD_BYTES_MAX,
            }));
        }
        Some(Ok((unmarked(), packet)))
    }
}

impl Joiner for Join {
    fn join(&mut self, message: &Bytes) -> Result<Bytes, Fault> {
        Ok(message.clone())
    }
}
