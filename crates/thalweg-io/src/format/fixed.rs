//! `fixed:N`: messages of N bytes each.

use std::num::NonZeroUsize;

use bytes::Bytes;

use super::tape::Tape;
use super::{Cut, Cutter, Fault, Joiner, unmarked};

/// Cuts every N bytes.
#[derive(Debug)]
pub struct Fixed {
    size: NonZeroUsize,
    tape: Tape,
}

/// Hands on messages of N bytes.
#[derive(Debug)]
pub struct Join(pub NonZeroUsize);

impl Fixed {
    /// Returns a cutter at the start of an input.
    pub fn new(size: NonZeroUsize) -> Self {
        Self {
            size,
            tape: Tape::default(),
        }
    }
}

impl Cutter for Fixed {
    fn handle_bytes(&mut self, bytes: &Bytes) {
        self.tape.push(bytes);
    }

    fn handle_end(&mut self) {
        self.tape.handle_end();
    }

    fn poll_cut(&mut self) -> Option<Cut> {
        if self.tape.bytes().len() >= self.size.get() {
            return Some(Ok((unmarked(), self.tape.take(self.size.get()))));
        }
        self.tape.half("record")
    }
}

impl Joiner for Join {
    fn join(&mut self, message: &Bytes) -> Result<Bytes, Fault> {
        let (bytes, size) = (message.len(), self.0.get());
        if bytes == size {
            Ok(message.clone())
        } else {
            Err(Fault::Size { bytes, size })
        }
    }
}
