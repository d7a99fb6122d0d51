//! How what is said goes over a socket: by a cipher, or as it is.
//!
//! *What it does not do.* It waits for nothing, and knows no frame.

use std::io::{self, BufRead as _, IoSlice, Read as _, Write as _};

use rustls::Connection;
use thalweg_core::pace::Out;

use super::LineError;
use super::pipe::{Pipe, now};

/// Bytes taken at once: a record of TLS.
pub(super) const READ_BYTES: usize = 16 << 10;

/// The same while only words come: a peer that says what it has received needs ten bytes, and place costs as much to clear as to
/// fill.
const WORDS_BYTES: usize = 512;

/// Parts that one writing takes: eight ADUs with their headers.
const PARTS_MAX: usize = 16;

/// How what is said goes over the socket.
#[derive(Debug)]
pub(super) enum Speech {
    Secret(Secret),
    Clear(Clear),
}

/// By a cipher.
#[derive(Debug)]
pub(super) struct Secret(pub(super) Box<Connection>);

/// As it is: no cipher stands between.
#[derive(Debug, Default)]
pub(super) struct Clear {
    /// Bytes that wait for the socket.
    out: Out,
    written: usize,
    /// Whether more than words came last.
    is_bulk: bool,
}

/// What there may be after a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing; the socket says when there is more.
    Nothing,
    More,
    /// Nothing ever: the peer has ended.
    Over,
}

impl Speech {
    /// Reads once, and hands out what that gives.
    pub(super) fn hear(
        &mut self,
        pipe: &Pipe,
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<Rest, LineError> {
        match self {
            Self::Secret(secret) => secret.hear(pipe, sink),
            Self::Clear(clear) if clear.is_bulk => Ok(clear.hear::<READ_BYTES>(pipe, sink)?),
            Self::Clear(clear) => Ok(clear.hear::<WORDS_BYTES>(pipe, sink)?),
        }
    }

    /// Takes bytes to be written, and leaves an empty place for the next.
    pub(super) fn say(&mut self, out: &mut Out) -> io::Result<()> {
        match self {
            Self::Secret(secret) => secret.say(out),
            Self::Clear(clear) => {
                clear.say(out);
                Ok(())
            }
        }
    }

    /// Writes what the socket takes; returns whether that was all.
    pub(super) fn flush(&mut self, pipe: &Pipe) -> io::Result<bool> {
        match self {
            Self::Secret(secret) => secret.flush(pipe),
            Self::Clear(clear) => clear.flush(pipe),
        }
    }
}

impl Secret {
    /// Takes in bytes that came elsewhere, and hands out what is in them.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<Rest, LineError> {
        let mut rest = Rest::More;
        while !bytes.is_empty() && rest != Rest::Over {
            // Behind the peer's last word the cipher takes nothing in, and would for ever.
            if self.0.read_tls(&mut bytes)? == 0 {
                return Ok(Rest::Over);
            }
            rest = self.decipher(sink)?;
        }
        Ok(rest)
    }

    fn hear(&mut self, mut pipe: &Pipe, sink: &mut impl FnMut(&[u8])) -> Result<Rest, LineError> {
        match now(self.0.read_tls(&mut pipe))? {
            None => Ok(Rest::Nothing),
            Some(0) => Ok(Rest::Over),
            Some(_) => self.decipher(sink),
        }
    }

    /// Hands out what is in the records that TLS has been given.
    fn decipher(&mut self, sink: &mut impl FnMut(&[u8])) -> Result<Rest, LineError> {
        self.0.process_new_packets()?;
        loop {
            let mut reader = self.0.reader();
            match reader.fill_buf() {
                Ok([]) => return Ok(Rest::Over),
                Ok(bytes) => {
                    let count = bytes.len();
                    sink(bytes);
                    reader.consume(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Rest::More),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn say(&mut self, out: &mut Out) -> io::Result<()> {
        let mut said = 0;
        while said < out.len() {
            said += gather(out, said, |parts| self.0.writer().write_vectored(parts))?;
        }
        out.clear();
        Ok(())
    }

    /// Writes what the socket takes; returns whether that was all.
    pub(super) fn flush(&mut self, mut pipe: &Pipe) -> io::Result<bool> {
        while self.0.wants_write() {
            if now(self.0.write_tls(&mut pipe))?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Clear {
    fn hear<const N: usize>(
        &mut self,
        mut pipe: &Pipe,
        sink: &mut impl FnMut(&[u8]),
    ) -> io::Result<Rest> {
        let mut place = [0; N];
        let count = match now(pipe.read(&mut place))? {
            None => return Ok(Rest::Nothing),
            Some(0) => return Ok(Rest::Over),
            Some(count) => count,
        };
        self.is_bulk = count >= WORDS_BYTES;
        sink(&place[..count]);
        // A place that is not full is all that there was.
        Ok(if count == N {
            Rest::More
        } else {
            Rest::Nothing
        })
    }

    fn say(&mut self, out: &mut Out) {
        if self.out.is_empty() {
            std::mem::swap(&mut self.out, out);
        } else {
            self.out.append(out);
        }
    }

    fn flush(&mut self, mut pipe: &Pipe) -> io::Result<bool> {
        while self.written < self.out.len() {
            let written = gather(&self.out, self.written, |parts| pipe.write_vectored(parts));
            let Some(count) = now(written)? else {
                return Ok(false);
            };
            self.written += count;
        }
        self.out.clear();
        self.written = 0;
        Ok(true)
    }
}

/// Lays out the next parts for one writing, as many as it takes; none of them is empty, and there is one at least.
fn gather<T>(out: &Out, written: usize, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
    let mut parts = [IoSlice::new(&[]); PARTS_MAX];
    let mut count = 0;
    for (place, part) in parts.iter_mut().zip(out.parts(written)) {
        *place = IoSlice::new(part);
        count += 1;
    }
    write(&parts[..count])
}
