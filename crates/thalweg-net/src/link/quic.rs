//! A QUIC connection, as the sender above it wants it: nothing here waits.
//!
//! *The idea.* Each call of the library's is asked once, with the waker of the link's driver. What it cannot do now it
//! does when the driver is woken and asks again, with whatever matters most by then. The end of a stream rings that
//! stream's own bell, so only those streams are asked that have something to say.
//!
//! *What it does not do.* It decides nothing. It watches the path that ADUs take; when another is taken, the driver's
//! next look ([`Quic::look`]) finds it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use iroh::endpoint::{Connection, ConnectionError, SendStream, VarInt, WriteError};
use thalweg_core::hop::StreamCode;
use thalweg_core::hop::sender::{Datagram, Owner, PathRate, StreamEvent, Transport, Written};
use thalweg_core::hop::settings::{SEND_WINDOW_BYTES, STREAM_WINDOW_BYTES};
use thalweg_core::time::Instant;
use thalweg_core::units::DataSize;
use thalweg_quic::{Reading, Watch};

use super::bells::Bells;
use super::memory::PeerMemory;
use super::wire::Events;
use crate::close::ToVarInt as _;

/// Waits for the end of a stream that was finished.
type Ending = Pin<Box<dyn Future<Output = Option<StreamEvent>> + Send>>;

type Opening = Pin<Box<dyn Future<Output = Result<SendStream, ConnectionError>> + Send>>;

/// One connection, with the streams that are open on it.
pub(super) struct Quic {
    connection: Connection,
    watch: Option<Arc<Watch>>,
    /// By place.
    streams: Vec<Option<Open>>,
    free: Vec<u32>,
    bells: Bells,
    /// Places whose bells were rung, while they are asked.
    rung: Vec<u32>,
    /// Streams that had ended when they were finished.
    ended: Vec<(Owner, StreamEvent)>,
    /// A stream that the peer does not admit yet.
    opening: Option<Opening>,
    /// Those that take nothing because nobody reads them.
    unread: Vec<Owner>,
    /// The driver's.
    waker: Waker,
}

struct Open {
    stream: SendStream,
    owner: Owner,
    written: usize,
    /// Once it is finished.
    ending: Option<Ending>,
}

impl Quic {
    pub(super) fn new(now: Instant, connection: Connection, memory: &PeerMemory) -> Self {
        let mut quic = Self {
            connection,
            watch: None,
            streams: Vec::new(),
            free: Vec::new(),
            bells: Bells::new(),
            rung: Vec::new(),
            ended: Vec::new(),
            opening: None,
            unread: Vec::new(),
            waker: Waker::noop().clone(),
        };
        quic.look(now, memory);
        quic
    }

    /// Looks which path is taken now, and keeps what it carries.
    pub(super) fn look(&mut self, now: Instant, memory: &PeerMemory) {
        let paths = self.connection.paths();
        let selected = paths.iter().find(iroh::endpoint::Path::is_selected);
        let Some(path) = selected.or_else(|| paths.iter().next()) else {
            return;
        };
        let state = self.connection.congestion_state(path.id());
        if let Some(watch) = state.and_then(thalweg_quic::watch) {
            let is_same = |known: &Arc<Watch>| Arc::ptr_eq(known, &watch);
            if !self.watch.as_ref().is_some_and(is_same) {
                if let Some(carried) = memory.recall(now) {
                    watch.recall(carried);
                }
                self.watch = Some(watch);
                // What waits for credit has asked at the other.
                self.waker.wake_by_ref();
            }
        }
        if let Some(carried) = self.watch.as_ref().and_then(|watch| watch.to_keep()) {
            memory.keep(now, carried);
        }
    }

    /// Returns what is known of the path that is taken.
    pub(super) fn reading(&self) -> Option<Reading> {
        self.watch.as_ref().map(|watch| watch.reading())
    }

    /// Takes who is to be woken when there is something to do.
    pub(super) fn set_driver(&mut self, waker: &Waker) {
        if !self.waker.will_wake(waker) {
            self.waker.clone_from(waker);
            self.bells.set_driver(waker);
        }
    }

    /// Wakes the driver for something that no call of the library's will tell it.
    pub(super) fn wake_driver(&self) {
        self.waker.wake_by_ref();
    }

    /// Puts what has happened to streams into a list.
    pub(super) fn take_events(&mut self, now: Instant, events: &mut Events) {
        let ended = self.ended.drain(..);
        events.extend(ended.map(|(owner, event)| (owner, event, now)));
        let mut rung = std::mem::take(&mut self.rung);
        self.bells.take(&mut rung);
        for place in rung.drain(..) {
            let ended = self.poll_end(place);
            events.extend(ended.map(|(owner, event)| (owner, event, now)));
        }
        self.rung = rung;
    }

    /// Returns the owners of streams that took nothing because nobody read them.
    pub(super) fn take_unread(&mut self) -> Vec<Owner> {
        std::mem::take(&mut self.unread)
    }

    /// Asks how a stream has ended; if it has not, its bell will be rung.
    fn poll_end(&mut self, place: u32) -> Option<(Owner, StreamEvent)> {
        let open = self.streams.get_mut(place as usize)?.as_mut()?;
        let mut context = Context::from_waker(self.bells.bell(place));
        let Poll::Ready(ended) = open.ending.as_mut()?.as_mut().poll(&mut context) else {
            return None;
        };
        open.ending = None;
        Some((open.owner, ended?))
    }

    /// Asks for the driver to be woken when there is more credit; returns whether there is by now.
    pub(super) fn register(&self) -> bool {
        let Some(watch) = &self.watch else {
            return false;
        };
        watch.register(&self.waker);
        watch.is_open()
    }

    fn written(&self, bytes: usize) {
        if let Some(watch) = &self.watch {
            watch.handle_written(bytes);
        }
    }

    fn take(&mut self, stream: u32) -> Option<Open> {
        let open = self.streams.get_mut(stream as usize)?.take()?;
        self.free.push(stream);
        Some(open)
    }

    fn insert(&mut self, open: Open) -> u32 {
        if let Some(index) = self.free.pop() {
            self.streams[index as usize] = Some(open);
            return index;
        }
        self.streams.push(Some(open));
        self.streams.len() as u32 - 1
    }

    /// Asks for a stream, once; what is not given now is kept and asked for again.
    fn poll_open(&mut self) -> Option<SendStream> {
        let mut context = Context::from_waker(&self.waker);
        if self.opening.is_none() {
            match pin!(self.connection.open_uni()).poll(&mut context) {
                Poll::Ready(opened) => return opened.ok(),
                Poll::Pending => {
                    let connection = self.connection.clone();
                    self.opening = Some(Box::pin(async move { connection.open_uni().await }));
                }
            }
        }
        let Poll::Ready(opened) = self.opening.as_mut()?.as_mut().poll(&mut context) else {
            return None;
        };
        self.opening = None;
        opened.ok()
    }
}

impl Transport for Quic {
    type Stream = u32;

    fn open(&mut self, owner: Owner, rank: i32) -> Option<u32> {
        let stream = self.poll_open()?;
        // A stream that was just opened can fail only with its connection, which the next write says.
        let _ = stream.set_priority(rank);
        Some(self.insert(Open {
            stream,
            owner,
            written: 0,
            ending: None,
        }))
    }

    fn write(&mut self, stream: u32, pieces: &mut [Bytes]) -> Written {
        let Some(open) = self.streams[stream as usize].as_mut() else {
            return Written::Lost;
        };
        let mut context = Context::from_waker(&self.waker);
        let offered: usize = pieces.iter().map(Bytes::len).sum();
        let mut rest = pieces;
        let writing = pin!(open.stream.write_many_chunks(&mut rest)).poll(&mut context);
        match writing {
            Poll::Ready(Ok(bytes)) => {
                open.written += bytes;
                self.written(bytes);
                Written::Some(bytes)
            }
            // Which of the two windows is full QUIC does not say. A stream's cannot be before so much is written.
            Poll::Pending if open.written + offered > STREAM_WINDOW_BYTES as usize => {
                self.unread.push(open.owner);
                Written::StreamBlocked
            }
            Poll::Pending => Written::Blocked,
            Poll::Ready(Err(WriteError::Stopped(code))) => {
                Written::Stopped(StreamCode::from_number(code.into_inner()))
            }
            Poll::Ready(Err(_)) => Written::Lost,
        }
    }

    fn finish(&mut self, stream: u32) {
        let Some(open) = self.streams[stream as usize].as_mut() else {
            return;
        };
        // An error says that the stream is over already, and so does its end.
        let _ = open.stream.finish();
        let stopped = open.stream.stopped();
        let mut ending: Ending = Box::pin(async move { ended(&stopped.await) });
        // Asked here, where the stream is finished, for to ask costs a lock and to wake the driver for it much more: it
        // would go before the connection's own task, and the ADU would leave behind it.
        let bell = self.bells.bell(stream);
        match ending.as_mut().poll(&mut Context::from_waker(bell)) {
            Poll::Pending => open.ending = Some(ending),
            Poll::Ready(ended) => {
                self.ended.extend(ended.map(|event| (open.owner, event)));
                self.waker.wake_by_ref();
            }
        }
    }

    fn reset(&mut self, stream: u32, code: StreamCode) {
        if let Some(mut open) = self.take(stream) {
            // An error says that the stream is over already.
            let _ = open.stream.reset(code.varint());
        }
    }

    fn forget(&mut self, stream: u32) {
        self.take(stream);
    }

    fn datagram_bytes_max(&mut self) -> usize {
        self.connection.max_datagram_size().unwrap_or(0)
    }

    fn send_datagram(&mut self, datagram: Bytes) -> Datagram {
        let bytes = datagram.len();
        // QUIC would make room by dropping older datagrams without a word.
        if self.connection.datagram_send_buffer_space() < bytes {
            return Datagram::Blocked;
        }
        match self.connection.send_datagram(datagram) {
            Ok(()) => {
                self.written(bytes);
                Datagram::Sent
            }
            Err(_) if self.connection.close_reason().is_some() => Datagram::Lost,
            // The path's MTU has just shrunk, or the peer takes none.
            Err(_) => Datagram::TooLarge,
        }
    }

    fn credit(&mut self) -> DataSize {
        let known = self.watch.as_ref().map(|watch| watch.credit());
        known.unwrap_or(DataSize::from_bytes(SEND_WINDOW_BYTES))
    }

    fn heard(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| watch.heard())
    }

    fn let_one_through(&mut self) {
        if let Some(watch) = &self.watch {
            watch.let_one_through();
        }
    }

    fn path_rate(&self) -> PathRate {
        self.reading()
            .map_or_else(PathRate::default, |reading| PathRate {
                sendable: reading.sendable,
                transit: reading.transit,
                packet: reading.packet,
                has_been_full: reading.has_been_full,
            })
    }
}

/// Returns how a stream that was finished has ended; nothing if its connection did, which says so itself.
fn ended<E>(stopped: &Result<Option<VarInt>, E>) -> Option<StreamEvent> {
    match stopped {
        Ok(None) => Some(StreamEvent::Acknowledged),
        Ok(Some(code)) => {
            let code = StreamCode::from_number(code.into_inner());
            Some(StreamEvent::Stopped(code))
        }
        Err(_) => None,
    }
}
