//! `lines`: one message a line, in UTF-8.
//!
//! *The idea.* The newline is kept out of the message and written back. A carriage return before it is kept,
//! so that a file comes out as it went in. A line above the bound is skipped to its end.

use bytes::Bytes;
use serde::de::IgnoredAny;
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;

use super::tape::Tape;
use super::{Cut, Cutter, Fault, Joiner, unmarked};

/// Cuts at newlines.
#[derive(Debug, Default)]
pub struct Lines {
    tape: Tape,
    /// Whether the rest of a line above the bound is being skipped.
    skips: bool,
    /// What is to be told of a last line without its newline.
    half: Option<Fault>,
}

/// Appends newlines.
#[derive(Debug)]
pub struct Join;

impl Lines {
    /// Skips to the end of a line above the bound; returns whether it came.
    fn skip(&mut self) -> bool {
        let Some(at) = self.tape.find(b'\n') else {
            self.tape.take_all();
            return false;
        };
        self.tape.take(at + 1);
        self.skips = false;
        true
    }

    fn long(&mut self) -> Fault {
        self.skips = true;
        Fault::Long {
            what: "line",
            format: "lines",
            offset: self.tape.offset(),
            limit: ADU_PAYLOAD_BYTES_MAX,
        }
    }
}

impl Cutter for Lines {
    fn handle_bytes(&mut self, bytes: &Bytes) {
        self.tape.push(bytes);
    }

    fn handle_end(&mut self) {
        self.tape.handle_end();
    }

    fn poll_cut(&mut self) -> Option<Cut> {
        if self.skips && !self.skip() {
            return None;
        }
        let offset = self.tape.offset();
        let Some(at) = self.tape.find(b'\n') else {
            let rest = self.tape.bytes().len();
            if rest > ADU_PAYLOAD_BYTES_MAX {
                let fault = self.long();
                self.tape.take_all();
                return Some(Err(fault));
            }
            if rest == 0 || !self.tape.has_ended() {
                return self.half.take().map(Err);
            }
            // It is most often whole, so it is sent; whether it is, only its reader can say.
            let line = self.tape.take_all();
            self.half = Some(Fault::Half {
                what: "line",
                offset,
                bytes: rest,
                fate: "sent as a line",
            });
            return Some(text(line, offset));
        };
        if at > ADU_PAYLOAD_BYTES_MAX {
            return Some(Err(self.long()));
        }
        let mut line = self.tape.take(at + 1);
        line.truncate(at);
        Some(text(line, offset))
    }
}

/// Returns a line that is text.
fn text(line: Bytes, offset: u64) -> Cut {
    let valid = match std::str::from_utf8(&line) {
        Ok(_) => line.len(),
        Err(error) => error.valid_up_to(),
    };
    // A zero byte is valid UTF-8, and no text has one.
    let zero = line.iter().position(|byte| *byte == 0);
    let at = zero.map_or(valid, |zero| zero.min(valid));
    match line.get(at) {
        None => Ok((unmarked(), line)),
        Some(byte) => Err(Fault::Binary {
            offset,
            at: offset + at as u64,
            byte: *byte,
        }),
    }
}

impl Joiner for Join {
    fn join(&mut self, message: &Bytes) -> Result<Bytes, Fault> {
        if message.contains(&b'\n') {
            return Err(Fault::Newline);
        }
        let mut line = Vec::with_capacity(message.len() + 1);
        line.extend_from_slice(message);
        line.push(b'\n');
        Ok(line.into())
    }
}

/// Returns whether a message is a JSON object or array.
///
/// Cost    O(bytes), no allocation
pub fn is_json(message: &[u8]) -> bool {
    let first = message.trim_ascii_start().first();
    matches!(first, Some(b'{' | b'[')) && serde_json::from_slice::<IgnoredAny>(message).is_ok()
}
