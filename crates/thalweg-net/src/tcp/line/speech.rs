//! The encoding of a line's bytes on its socket: TLS, or plain.
//!
//! *What it does not do.* It never waits, and knows no frames.

use std::io::{self, BufRead as _, IoSlice, Read as _, Write as _};

use rustls::Connection;
use thalweg_link::tcp_mux::Out;

use super::LineError;
use super::pipe::{Pipe, now};

/// Size of a bulk read: one TLS record.
pub(super) const READ_BYTES: usize = 16 << 10;

/// Size of a read while only control frames arrive: an acknowledgement has ten bytes, and clearing
/// a buffer costs as much as filling it.
const CONTROL_BYTES: usize = 512;

/// Parts per vectored write: eight ADUs with their headers.
const PARTS_MAX: usize = 16;

/// The encoding of a line's bytes.
#[derive(Debug)]
pub(super) enum Encoding {
    Encrypted(Encrypted),
    Plain(Plain),
}

/// TLS.
#[derive(Debug)]
pub(super) struct Encrypted(pub(super) Box<Connection>);

/// Unencrypted bytes.
#[derive(Debug, Default)]
pub(super) struct Plain {
    /// Bytes that wait for the socket.
    out: Out,
    written: usize,
    /// Whether the last read had more than control frames.
    is_bulk: bool,
}

/// The state of the input after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Nothing more now; the socket becomes readable when there is.
    Blocked,
    More,
    /// Nothing more ever: the peer has ended.
    End,
}

impl Encoding {
    /// Reads once and passes on the decoded bytes.
    pub(super) fn receive(
        &mut self,
        pipe: &Pipe,
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<Input, LineError> {
        match self {
            Self::Encrypted(encrypted) => encrypted.receive(pipe, sink),
            Self::Plain(plain) if plain.is_bulk => Ok(plain.receive::<READ_BYTES>(pipe, sink)?),
            Self::Plain(plain) => Ok(plain.receive::<CONTROL_BYTES>(pipe, sink)?),
        }
    }

    /// Queues bytes and leaves `out` empty.
    pub(super) fn queue(&mut self, out: &mut Out) -> io::Result<()> {
        match self {
            Self::Encrypted(encrypted) => encrypted.queue(out),
            Self::Plain(plain) => {
                plain.queue(out);
                Ok(())
            }
        }
    }

    /// Writes what the socket accepts; returns whether that was all.
    pub(super) fn flush(&mut self, pipe: &Pipe) -> io::Result<bool> {
        match self {
            Self::Encrypted(encrypted) => encrypted.flush(pipe),
            Self::Plain(plain) => plain.flush(pipe),
        }
    }
}

impl Encrypted {
    /// Decrypts bytes that were read elsewhere.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<Input, LineError> {
        let mut input = Input::More;
        while !bytes.is_empty() && input != Input::End {
            // After the peer's close_notify, rustls accepts no more bytes; without this check the
            // loop would never end.
            if self.0.read_tls(&mut bytes)? == 0 {
                return Ok(Input::End);
            }
            input = self.decipher(sink)?;
        }
        Ok(input)
    }

    fn receive(
        &mut self,
        mut pipe: &Pipe,
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<Input, LineError> {
        match now(self.0.read_tls(&mut pipe))? {
            None => Ok(Input::Blocked),
            Some(0) => Ok(Input::End),
            Some(_) => self.decipher(sink),
        }
    }

    /// Passes on the decrypted bytes of the records read so far.
    fn decipher(&mut self, sink: &mut impl FnMut(&[u8])) -> Result<Input, LineError> {
        self.0.process_new_packets()?;
        loop {
            let mut reader = self.0.reader();
            match reader.fill_buf() {
                Ok([]) => return Ok(Input::End),
                Ok(bytes) => {
                    let count = bytes.len();
                    sink(bytes);
                    reader.consume(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Input::More),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn queue(&mut self, out: &mut Out) -> io::Result<()> {
        let mut written = 0;
        while written < out.len() {
            written += gather(out, written, |parts| self.0.writer().write_vectored(parts))?;
        }
        out.clear();
        Ok(())
    }

    /// Writes what the socket accepts; returns whether that was all.
    pub(super) fn flush(&mut self, mut pipe: &Pipe) -> io::Result<bool> {
        while self.0.wants_write() {
            if now(self.0.write_tls(&mut pipe))?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Plain {
    fn receive<const N: usize>(
        &mut self,
        mut pipe: &Pipe,
        sink: &mut impl FnMut(&[u8]),
    ) -> io::Result<Input> {
        let mut buffer = [0; N];
        let count = match now(pipe.read(&mut buffer))? {
            None => return Ok(Input::Blocked),
            Some(0) => return Ok(Input::End),
            Some(count) => count,
        };
        self.is_bulk = count >= CONTROL_BYTES;
        sink(&buffer[..count]);
        // A buffer that is not full means that the socket is empty.
        Ok(if count == N {
            Input::More
        } else {
            Input::Blocked
        })
    }

    fn queue(&mut self, out: &mut Out) {
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

/// Passes the next parts to one write, at most [`PARTS_MAX`], at least one, none empty.
fn gather<T>(out: &Out, written: usize, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
    let mut parts = [IoSlice::new(&[]); PARTS_MAX];
    let mut count = 0;
    for (slot, part) in parts.iter_mut().zip(out.parts(written)) {
        *slot = IoSlice::new(part);
        count += 1;
    }
    write(&parts[..count])
}
