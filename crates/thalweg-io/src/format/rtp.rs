//! `rtp:h264`, `rtp:h265`, `rtp:opus`: an access unit in RTP packets is a message.

use bytes::Bytes;
use thalweg_media::rtp::{Assembler, Carried};

use super::{Cut, Cutter, Fault, Joiner};

/// Joins packets to access units.
#[derive(Debug)]
pub struct Rtp {
    assembler: Assembler,
    offset: u64,
    /// What was wrong by now, by kind.
    told: [u64; 3],
}

/// Hands on each access unit as it is: with start codes, a file of them is playable.
#[derive(Debug)]
pub struct Join;

impl Rtp {
    pub fn new(carried: Carried) -> Self {
        Self {
            assembler: Assembler::new(carried),
            offset: 0,
            told: [0; 3],
        }
    }

    /// Returns what has become wrong since the last call.
    fn fault(&mut self) -> Option<Fault> {
        let counts = self.assembler.counts();
        let now = [counts.foreign, counts.unreadable, counts.rtp.lost];
        let at = (0..now.len()).find(|at| now[*at] > self.told[*at])?;
        self.told[at] += 1;
        let offset = self.offset;
        Some(match at {
            0 => Fault::Foreign { offset },
            1 => Fault::Payload { offset },
            _ => Fault::Lost { offset },
        })
    }
}

impl Cutter for Rtp {
    fn handle_bytes(&mut self, bytes: &Bytes) {
        self.offset += bytes.len() as u64;
        self.assembler.push(bytes);
    }

    fn handle_end(&mut self) {
        self.assembler.flush();
    }

    fn poll_cut(&mut self) -> Option<Cut> {
        if let Some(fault) = self.fault() {
            return Some(Err(fault));
        }
        self.assembler.poll_unit().map(Ok)
    }
}

impl Joiner for Join {
    fn join(&mut self, message: &Bytes) -> Result<Bytes, Fault> {
        Ok(message.clone())
    }
}
