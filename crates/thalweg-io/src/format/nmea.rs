//! `nmea`: sentences of instruments, such as `$GPGGA,…*47`.
//!
//! *The idea.* A sentence begins with `$` or `!` and ends with its line. Its checksum is that of all bytes
//! between its first and the `*`; one that differs is dropped, for the line was disturbed. A sentence
//! without a checksum is carried: the standard leaves it out of some. Bytes before a sentence are noise.
//!
//! ```text
//!   noise $GPGGA,123519,…,M,,*47 CR LF
//!         └──── message ───────┘
//!          └── exclusive or ─┘
//! ```
//!
//! *Sources.* NMEA 0183 (IEC 61162-1) §7.

use bytes::Bytes;

use super::tape::Tape;
use super::{Cut, Cutter, Fault, Joiner, unmarked};

/// Longest sentence: the standard's has 82 bytes; makers' own are longer.
const SENTENCE_BYTES_MAX: usize = 1024;

/// Cuts sentences and checks them.
#[derive(Debug, Default)]
pub struct Nmea {
    tape: Tape,
}

/// Writes sentences, each with CR LF.
#[derive(Debug)]
pub struct Join;

impl Nmea {
    /// Takes bytes that belong to no sentence; line ends between sentences are none.
    fn noise(&mut self, count: usize) -> Option<Fault> {
        let offset = self.tape.offset();
        let bytes = self.tape.take(count);
        let bytes = bytes.iter().filter(|byte| !b"\r\n".contains(byte)).count();
        (bytes > 0).then_some(Fault::Noise { offset, bytes })
    }
}

impl Cutter for Nmea {
    fn handle_bytes(&mut self, bytes: &Bytes) {
        self.tape.push(bytes);
    }

    fn handle_end(&mut self) {
        self.tape.handle_end();
    }

    fn poll_cut(&mut self) -> Option<Cut> {
        loop {
            let bytes = self.tape.bytes();
            let start = bytes.iter().position(|byte| matches!(byte, b'$' | b'!'));
            let noise = start.unwrap_or(bytes.len());
            if noise > 0 {
                if let Some(fault) = self.noise(noise) {
                    return Some(Err(fault));
                }
                continue;
            }
            // A sentence that lost its end is followed by the start of the next.
            let tail = self.tape.bytes().get(1..)?;
            let end = tail.iter().position(|byte| b"\r\n$!".contains(byte));
            let length = end.unwrap_or(tail.len()) + 1;
            let is_cut_off = end.is_some_and(|end| b"$!".contains(&tail[end]));
            if length > SENTENCE_BYTES_MAX || is_cut_off {
                let fault = self.noise(length);
                return Some(Err(fault.expect("it begins with a sentence's byte")));
            }
            if end.is_none() {
                return self.tape.half("sentence");
            }
            let offset = self.tape.offset();
            let sentence = self.tape.take(length);
            return Some(checked(sentence, offset));
        }
    }
}

/// Returns a sentence with a right checksum, or without one.
fn checked(sentence: Bytes, offset: u64) -> Cut {
    let Some(star) = sentence.iter().position(|byte| *byte == b'*') else {
        return Ok((unmarked(), sentence));
    };
    let computed = sentence[1..star].iter().fold(0, |sum, byte| sum ^ byte);
    let said = std::str::from_utf8(&sentence[star + 1..]).ok();
    let said = said.filter(|said| said.len() == 2);
    let said = said.and_then(|said| u8::from_str_radix(said, 16).ok());
    match said {
        Some(said) if said == computed => Ok((unmarked(), sentence)),
        Some(said) => Err(Fault::Checksum {
            offset,
            said,
            computed,
        }),
        None => Err(Fault::Noise {
            offset,
            bytes: sentence.len(),
        }),
    }
}

impl Joiner for Join {
    fn join(&mut self, message: &Bytes) -> Result<Bytes, Fault> {
        if message.iter().any(|byte| b"\r\n".contains(byte)) {
            return Err(Fault::Newline);
        }
        let mut line = Vec::with_capacity(message.len() + 2);
        line.extend_from_slice(message);
        line.extend_from_slice(b"\r\n");
        Ok(line.into())
    }
}
