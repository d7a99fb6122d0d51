//! One TCP connection of a session in the clear, as the loop runs it.
//!
//! *The idea.* What `carrier` does as a task, without one: the loop says that bytes or room have come, or
//! that the session has something to send, and the carrier reads into the loop's buffer, passes the bytes
//! on and takes the next frames under one lock, and writes them in one call. Sockets are watched
//! edge-triggered, so it remembers whether there is something to read and room to write.
//!
//! When the peer reports what has arrived, and much of the kernel's last answer is used up, the kernel is
//! asked here: the tasks that write find a fresh answer, and rarely ask.
//!
//! *What it does not do.* It decides nothing: the session does. It speaks no TLS.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_base::units::DataSize;
use thalweg_link::outbox::gate::WAKE;
use thalweg_link::tcp_mux::{CarrierNumber, Decoder, Out, SessionError};

use super::clear::{ClearLoop, Entry, Next, Readiness};
use super::line::{ByteCounts, Line, LineError};
use super::session_turn::{self, SessionTurn, moved_mark};
use super::shared::{Shared, Slot};
use super::socket;
use super::waker::CarrierWaker;

/// Frames that one write takes, about: the longest, and small ones before it.
const WRITE_BYTES: usize = 64 << 10;

/// Parts per write: sixteen ADUs with their headers.
const PARTS_MAX: usize = 32;

/// Reads of one connection in one turn, so that a fast peer starves no other.
const READS_PER_TURN: usize = 4;

/// The same for its writes.
const WRITES_PER_TURN: usize = 8;

/// How long the peer may take to read the last frame.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// What a carrier waits for, besides the peer, its timer and the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Nothing.
    Nothing,
    /// Room in the kernel.
    Room,
    /// A moment: the kernel has room, but the session has no credit.
    Moment,
    /// Its next turn.
    Turn,
}

struct PlainCarrier {
    shared: Arc<Shared>,
    number: CarrierNumber,
    socket: Arc<TcpStream>,
    counts: Arc<ByteCounts>,
    out: Out,
    /// Bytes of `out` that the socket has taken.
    written: usize,
    /// The low-water mark set in the kernel: the most unsent bytes it may have.
    mark: DataSize,
    readiness: Readiness,
    /// Whether the peer will send nothing more.
    is_ended: bool,
    /// Until when the peer's end is awaited, once the last frame is written.
    draining: Option<Instant>,
}

/// Adds a connection in the clear to a session after its greeting, and has the loop run it; returns
/// whether the session uses it.
pub(super) fn join(
    shared: &Arc<Shared>,
    clear: &ClearLoop,
    number: CarrierNumber,
    line: Line,
    decoder: Decoder,
) -> bool {
    let (socket, counts) = match line.into_plain() {
        Ok((socket, counts)) => (Arc::new(socket), counts),
        Err(error) => {
            tracing::debug!(peer = %shared.peer.short(), %number, %error, "tcp carrier lost at once");
            return false;
        }
    };
    let mark = clear.reserve();
    let waker = CarrierWaker::Loop(mark.clone());
    // Unknown for a socket that has just been reset.
    let remote = socket.peer_addr().ok();
    let slot = Slot::new(waker, socket.clone(), remote, counts.clone());
    if !shared.take_in(number, slot, decoder) {
        return false;
    }
    tracing::debug!(peer = %shared.peer.short(), %number, "tcp carrier up, in the loop");
    shared.running.send_modify(|running| *running += 1);
    let carrier = PlainCarrier {
        shared: shared.clone(),
        number,
        socket,
        counts,
        out: Out::new(),
        written: 0,
        mark: DataSize::ZERO,
        readiness: Readiness {
            is_readable: true,
            is_writable: true,
            is_hung_up: false,
        },
        is_ended: false,
        draining: None,
    };
    clear.seat(mark, Box::new(carrier));
    true
}

impl Entry for PlainCarrier {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn handle_ready(&mut self, readiness: Readiness) {
        self.readiness.is_readable |= readiness.is_readable;
        self.readiness.is_writable |= readiness.is_writable;
        self.readiness.is_hung_up |= readiness.is_hung_up;
    }

    fn settle(&mut self, scratch: &mut [u8]) -> Next {
        if let Some(until) = self.draining {
            return self.drain(scratch, until);
        }
        match self.exchange(scratch) {
            Ok(Some(next)) => next,
            Ok(None) => self.leave(scratch, Ok(())),
            Err(error) => self.leave(scratch, Err(error)),
        }
    }

    fn abandon(self: Box<Self>) {
        self.shared.fail_internally();
    }
}

impl PlainCarrier {
    /// Reads what has arrived and writes what the pacer allows, until there is nothing to do; `None` when
    /// the carrier is no longer used.
    fn exchange(&mut self, scratch: &mut [u8]) -> Result<Option<Next>, LineError> {
        for _ in 0..READS_PER_TURN {
            let count = self.read(scratch)?;
            let (wait, turn) = self.transmit(&scratch[..count])?;
            if !turn.is_needed || (turn.is_over && wait != Wait::Room) {
                return Ok(None);
            }
            if self.is_ended {
                return Err(LineError::Ended);
            }
            if self.readiness.is_readable {
                continue;
            }
            let clock = &self.shared.clock;
            let until = match wait {
                Wait::Moment => turn.until.min(clock.now() + WAKE),
                Wait::Nothing | Wait::Room => turn.until,
                Wait::Turn => break,
            };
            let until = clock.timer(until).map(tokio::time::Instant::into_std);
            return Ok(Some(Next::Event(until)));
        }
        Ok(Some(Next::Turn))
    }

    /// Writes what the pacer allows, after it has passed on the bytes that have arrived; returns what to
    /// wait for.
    fn transmit(&mut self, mut arrived: &[u8]) -> Result<(Wait, SessionTurn), LineError> {
        let (mut was_queried, mut writes) = (false, 0);
        loop {
            // Bytes left by the last turn go first.
            let has_room = self.flush()?;
            let (turn, result) = self.turn(std::mem::take(&mut arrived), has_room);
            if let Err(error) = result {
                // The next look takes the close frame.
                self.shared.fail(error);
                continue;
            }
            if !has_room {
                return Ok((Wait::Room, turn));
            }
            if let Some(mark) = moved_mark(self.mark, turn.unsent_max) {
                self.mark = mark;
                socket::set_unsent_max(&self.socket, mark)?;
            }
            if !self.out.is_empty() {
                (was_queried, writes) = (false, writes + 1);
                let is_flushed = self.flush()?;
                if writes == WRITES_PER_TURN && is_flushed {
                    return Ok((Wait::Turn, turn));
                }
                if turn.wants_credit || !is_flushed {
                    continue;
                }
            }
            if !turn.wants_credit || turn.unsent_max.is_none() {
                return Ok((Wait::Nothing, turn));
            }
            if was_queried {
                return Ok((Wait::Moment, turn));
            }
            if !socket::has_room(&self.socket) {
                self.readiness.is_writable = false;
                return Ok((Wait::Room, turn));
            }
            was_queried = true;
        }
    }

    /// Passes on the bytes that have arrived, and takes the next frames, under one lock.
    fn turn(&mut self, arrived: &[u8], has_room: bool) -> (SessionTurn, Result<(), SessionError>) {
        let Self {
            shared,
            number,
            out,
            ..
        } = self;
        shared.act_as(*number, |state, now| {
            let mut result = Ok(());
            if !arrived.is_empty() {
                result = state.session.handle_bytes(*number, arrived, now);
                if state.session.active() == Some(*number) && state.session.is_used_up() {
                    state.refresh(now);
                }
            }
            let turn = session_turn::turn(state, *number, now, has_room, WRITE_BYTES, out);
            (turn, result)
        })
    }

    /// Reads arrived bytes; zero if there are none.
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        while self.readiness.is_readable && !self.is_ended {
            match (&*self.socket).read(place) {
                Ok(0) => self.is_ended = true,
                Ok(count) => {
                    self.counts.add_received(count);
                    // A short read has emptied the socket; an end that came before it is not reported again.
                    self.readiness.is_readable = count == place.len() || self.readiness.is_hung_up;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readiness.is_readable = false;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }

    /// Writes what the socket accepts; returns whether that was all.
    fn flush(&mut self) -> io::Result<bool> {
        while self.written < self.out.len() {
            if !self.readiness.is_writable {
                return Ok(false);
            }
            let mut parts = [IoSlice::new(&[]); PARTS_MAX];
            let mut count = 0;
            for (slot, part) in parts.iter_mut().zip(self.out.parts(self.written)) {
                *slot = IoSlice::new(part);
                count += 1;
            }
            let mut socket = &*self.socket;
            let written = match &parts[..count] {
                [part] => socket.write(part),
                parts => socket.write_vectored(parts),
            };
            match written {
                Ok(count) => {
                    self.counts.add_sent(count);
                    self.written += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readiness.is_writable = false;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(true)
    }

    /// Leaves the session; a connection that has sent the close frame waits for the peer's end.
    fn leave(&mut self, scratch: &mut [u8], ended: Result<(), LineError>) -> Next {
        let (shared, number) = (&self.shared, self.number);
        let ended_well = ended.is_ok() && shared.is_over();
        let reason = ended.err().map(|error| error.to_string());
        tracing::debug!(peer = %shared.peer.short(), %number, ?reason, "tcp carrier down");
        shared.lose(number);
        shared.standby_needed.notify_one();
        if !ended_well {
            // Another carrier retransmits what this one did not deliver, so its unsent bytes must not
            // arrive late. An error means that there are none.
            let _ = socket::forget_unsent(&self.socket);
            return Next::Over;
        }
        // An error means that the connection is gone already.
        let _ = socket::end(&self.socket);
        let until = Instant::now() + CLOSE_WAIT;
        self.draining = Some(until);
        self.drain(scratch, until)
    }

    /// Reads on until the peer's end: closing a socket with unread bytes resets it and discards what was
    /// written last.
    fn drain(&mut self, scratch: &mut [u8], until: Instant) -> Next {
        for _ in 0..READS_PER_TURN {
            let is_over = match self.read(scratch) {
                Ok(0) => self.is_ended,
                Ok(_) => false,
                Err(_) => true,
            };
            // The connection is closed whether or not the peer reads the rest in time.
            if is_over || Instant::now() >= until {
                return Next::Over;
            }
            if !self.readiness.is_readable {
                return Next::Event(Some(until));
            }
        }
        Next::Turn
    }
}

impl Drop for PlainCarrier {
    fn drop(&mut self) {
        self.shared.running.send_modify(|running| *running -= 1);
    }
}
