//! A session as the transport of core's sender.
//!
//! *The idea.* The sender names streams by their owners, the session by numbers; this module maps
//! them. The sender's driver passes it the stream events ([`Held::next_event`]) and pumps it. All
//! calls of one operation share one lock ([`Sending::hold`]): an ADU makes about eight of them.
//!
//! *What it does not do.* It drives no sender.
//!
//! *Sources.* `thalweg_link::hop::sender`.

use std::fmt;
use std::task::Waker;

use bytes::Bytes;
use thalweg_base::time::Instant;
use thalweg_base::units::DataSize;
use thalweg_link::hop::StreamCode;
use thalweg_link::hop::sender::{Datagram, Owner, PathRate, StreamEvent, Transport, Written};
use thalweg_link::tcp_mux::settings::DATAGRAM_BYTES_MAX;
use thalweg_link::tcp_mux::{self, DatagramError, Event, Numbered, StreamNumber};

use super::Connection;
use super::events::Events;
use super::shared::Hold;

/// A connection, its events, and the owners of its streams.
#[derive(Debug)]
pub struct Sending {
    connection: Connection,
    events: Events,
    owners: Numbered<StreamNumber, Owner>,
}

/// A locked connection; dropping it dispatches events and wakes the carrier.
pub struct Held<'a> {
    hold: Hold<'a>,
    owners: &'a mut Numbered<StreamNumber, Owner>,
    now: Instant,
}

impl Sending {
    /// Wraps a connection on which no stream was opened.
    pub const fn new(connection: Connection, events: Events) -> Self {
        Self {
            connection,
            events,
            owners: Numbered::new(),
        }
    }

    /// Waits until there is an event, or the session is over.
    pub async fn happened(&mut self) {
        self.events.happened().await;
    }

    /// Locks the session for one operation of the sender.
    pub fn hold(&mut self, now: Instant) -> Held<'_> {
        Held {
            now,
            hold: self.connection.shared().hold(),
            owners: &mut self.owners,
        }
    }

    /// Returns the connection.
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl Held<'_> {
    /// Returns the next event of the sender's streams: the owner, the event, and its time.
    ///
    /// Events of streams that were reset or forgotten since are skipped.
    pub fn next_event(&mut self) -> Option<(Owner, StreamEvent, Instant)> {
        while let Some((event, at)) = self.hold.events.pop() {
            let (stream, event) = match event {
                Event::Acknowledged(stream) => (stream, StreamEvent::Acknowledged),
                Event::Stopped(stream, code) => (stream, StreamEvent::Stopped(code)),
                Event::Writable(stream) => (stream, StreamEvent::Writable),
                // Room needs only the wake-up; the end of the session is reported elsewhere.
                _ => continue,
            };
            if let Some(owner) = self.owners.get(stream) {
                return Some((*owner, event, at));
            }
        }
        None
    }

    /// Registers the waker for later events; if `is_patient`, not for acknowledgements alone.
    pub(crate) fn listen(&mut self, listener: &Waker, is_patient: bool) {
        self.hold.events.set_patient(is_patient);
        self.hold.events.listen(listener);
    }
}

impl Transport for Held<'_> {
    type Stream = StreamNumber;

    fn open(&mut self, owner: Owner, rank: i32) -> Option<StreamNumber> {
        let stream = self.hold.session.open(rank)?;
        self.owners.insert(stream, owner);
        Some(stream)
    }

    fn write(&mut self, stream: StreamNumber, pieces: &mut [Bytes]) -> Written {
        let mut taken = 0;
        for piece in pieces {
            let before = piece.len();
            let written = self.hold.session.write(stream, piece);
            taken += before - piece.len();
            let stopped = match written {
                tcp_mux::Written::All => continue,
                tcp_mux::Written::Blocked => Written::Blocked,
                tcp_mux::Written::StreamBlocked => Written::StreamBlocked,
                tcp_mux::Written::Stopped(code) => Written::Stopped(code),
                tcp_mux::Written::Lost => Written::Lost,
            };
            return if taken > 0 {
                Written::Some(taken)
            } else {
                stopped
            };
        }
        Written::Some(taken)
    }

    fn finish(&mut self, stream: StreamNumber) {
        self.hold.session.finish(stream);
    }

    fn reset(&mut self, stream: StreamNumber, code: StreamCode) {
        self.owners.remove(stream);
        self.hold.session.reset(stream, code);
    }

    fn forget(&mut self, stream: StreamNumber) {
        self.owners.remove(stream);
    }

    fn datagram_bytes_max(&mut self) -> usize {
        DATAGRAM_BYTES_MAX
    }

    fn send_datagram(&mut self, datagram: Bytes) -> Datagram {
        match self.hold.session.send_datagram(datagram) {
            Ok(()) => Datagram::Sent,
            Err((DatagramError::Full, _)) => Datagram::Blocked,
            Err((DatagramError::TooLarge { .. }, _)) => Datagram::TooLarge,
            Err((DatagramError::Lost, _)) => Datagram::Lost,
        }
    }

    fn credit(&mut self) -> DataSize {
        self.hold.credit(self.now)
    }

    // Not needed: the kernel or the peer reports room, and the session probes by itself.
    fn heard(&self) -> u64 {
        0
    }

    fn let_one_through(&mut self) {}

    fn path_rate(&self) -> PathRate {
        self.hold.path_rate()
    }
}

impl fmt::Debug for Held<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}
