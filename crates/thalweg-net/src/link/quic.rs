//! A QUIC connection as the link's sender needs it: no call waits.
//!
//! *The idea.* Each future of the library is polled once, with the waker of the link's driver. What
//! is not ready now is retried when the driver is woken, with what is most important by then. The
//! end of a stream wakes that stream's own waker, so only the streams with news are polled.
//!
//! *What it does not do.* It decides nothing. It watches the path that ADUs take; a change of path
//! is found at the next sample ([`Quic::check_path`]).

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use iroh::endpoint::{Connection, ConnectionError, SendStream, VarInt, WriteError};
use thalweg_base::time::Instant;
use thalweg_base::units::DataSize;
use thalweg_link::hop::StreamCode;
use thalweg_link::hop::sender::{Datagram, Owner, PathRate, StreamEvent, Transport, Written};
use thalweg_link::hop::settings::{SEND_WINDOW_BYTES, STREAM_WINDOW_BYTES};
use thalweg_quic::{Reading, Watch};

use super::Events;
use super::bells::StreamWakers;
use super::memory::PeerMemory;
use crate::close::ToVarInt as _;

/// The future of the end of a finished stream.
type Ending = Pin<Box<dyn Future<Output = Option<StreamEvent>> + Send>>;

type Opening = Pin<Box<dyn Future<Output = Result<SendStream, ConnectionError>> + Send>>;

/// One connection and its open streams.
pub(super) struct Quic {
    connection: Connection,
    watch: Option<Arc<Watch>>,
    /// By slot.
    streams: Vec<Option<Open>>,
    free: Vec<u32>,
    wakers: StreamWakers,
    /// Buffer for woken slots, reused.
    woken: Vec<u32>,
    /// Streams that had already ended when they were finished.
    ended: Vec<(Owner, StreamEvent)>,
    /// A stream that the peer's limit does not allow yet.
    opening: Option<Opening>,
    /// Owners of streams blocked by stream flow control.
    unread: Vec<Owner>,
    /// The waker of the link's driver.
    waker: Waker,
}

struct Open {
    stream: SendStream,
    owner: Owner,
    written: usize,
    /// Set once the stream is finished.
    ending: Option<Ending>,
}

impl Quic {
    pub(super) fn new(now: Instant, connection: Connection, memory: &PeerMemory) -> Self {
        let mut quic = Self {
            connection,
            watch: None,
            streams: Vec::new(),
            free: Vec::new(),
            wakers: StreamWakers::new(),
            woken: Vec::new(),
            ended: Vec::new(),
            opening: None,
            unread: Vec::new(),
            waker: Waker::noop().clone(),
        };
        quic.check_path(now, memory);
        quic
    }

    /// Finds the path in use, and records what it carries.
    pub(super) fn check_path(&mut self, now: Instant, memory: &PeerMemory) {
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
                // A driver that waits for credit has registered at the old path's watch.
                self.waker.wake_by_ref();
            }
        }
        if let Some(carried) = self.watch.as_ref().and_then(|watch| watch.to_keep()) {
            memory.keep(now, carried);
        }
    }

    /// Returns the controller's reading of the path in use.
    pub(super) fn reading(&self) -> Option<Reading> {
        self.watch.as_ref().map(|watch| watch.reading())
    }

    /// Sets the driver's waker.
    pub(super) fn set_driver(&mut self, waker: &Waker) {
        if !self.waker.will_wake(waker) {
            self.waker.clone_from(waker);
            self.wakers.set_driver(waker);
        }
    }

    /// Wakes the driver for something that no future of the library reports.
    pub(super) fn wake_driver(&self) {
        self.waker.wake_by_ref();
    }

    /// Appends stream events to a list.
    pub(super) fn take_events(&mut self, now: Instant, events: &mut Events) {
        let ended = self.ended.drain(..);
        events.extend(ended.map(|(owner, event)| (owner, event, now)));
        let mut woken = std::mem::take(&mut self.woken);
        self.wakers.take(&mut woken);
        for slot in woken.drain(..) {
            let ended = self.poll_end(slot);
            events.extend(ended.map(|(owner, event)| (owner, event, now)));
        }
        self.woken = woken;
    }

    /// Returns the owners of streams blocked by stream flow control.
    pub(super) fn take_unread(&mut self) -> Vec<Owner> {
        std::mem::take(&mut self.unread)
    }

    /// Polls for the end of a stream; if it has not ended, its slot will be woken.
    fn poll_end(&mut self, slot: u32) -> Option<(Owner, StreamEvent)> {
        let open = self.streams.get_mut(slot as usize)?.as_mut()?;
        let mut context = Context::from_waker(self.wakers.waker(slot));
        let Poll::Ready(ended) = open.ending.as_mut()?.as_mut().poll(&mut context) else {
            return None;
        };
        open.ending = None;
        Some((open.owner, ended?))
    }

    /// Registers the driver for more credit; returns whether there is some by now.
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

    /// Tries to open a stream; a pending attempt is kept and polled again.
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
        // A new stream fails only with its connection, which the next write reports.
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
            // QUIC does not report which window is full. A stream's own cannot be before this many
            // bytes.
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
        // An error means that the stream is over, which its end reports too.
        let _ = open.stream.finish();
        let stopped = open.stream.stopped();
        let mut ending: Ending = Box::pin(async move { ended(&stopped.await) });
        // Polled here rather than by waking the driver: a poll costs a lock, a wake-up much more,
        // and the driver would run before the connection's own task and delay the ADU's packets.
        let waker = self.wakers.waker(stream);
        match ending.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Pending => open.ending = Some(ending),
            Poll::Ready(ended) => {
                self.ended.extend(ended.map(|event| (open.owner, event)));
                self.waker.wake_by_ref();
            }
        }
    }

    fn reset(&mut self, stream: u32, code: StreamCode) {
        if let Some(mut open) = self.take(stream) {
            // An error means that the stream is already over.
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
        // Checked first: QUIC would silently drop older datagrams to make room.
        if self.connection.datagram_send_buffer_space() < bytes {
            return Datagram::Blocked;
        }
        match self.connection.send_datagram(datagram) {
            Ok(()) => {
                self.written(bytes);
                Datagram::Sent
            }
            Err(_) if self.connection.close_reason().is_some() => Datagram::Lost,
            // The path's MTU has just shrunk, or the peer accepts no datagrams.
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

/// Returns how a finished stream ended; `None` if its connection ended, which reports that itself.
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
